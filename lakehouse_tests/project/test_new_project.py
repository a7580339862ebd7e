"""A new project: its contracts are sound, its files are those of the documentation, and nothing is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.contracts import SourceContract, load_catalog, load_contract
from lakehouse.project import new_project
from lakehouse.project.new_project import ProjectError

CHECKOUT = Path(__file__).parents[2]


def test_its_contracts_load_and_its_samples_have_their_columns(tmp_path: Path) -> None:
    files = [f"{file.relative_to(tmp_path)}" for file in new_project.create(tmp_path)]
    assert files[:2] == ["contracts/orders.yaml", "contracts/orders_daily.yaml"]
    catalog = load_catalog(tmp_path / "contracts", bundled=False)
    assert (list(catalog.sources), list(catalog.metrics)) == (["orders"], ["orders_daily"])
    for name in ("orders", "orders_corrected"):
        header = (tmp_path / "samples" / f"{name}.csv").read_text().split("\n")[0].split(",")
        assert set(catalog.sources["orders"].columns_read) <= set(header)


def test_each_example_loads_and_its_files_have_its_columns(tmp_path: Path) -> None:
    new_project.create(tmp_path, "late_arriving_reprocess")
    source = load_contract(tmp_path / "contract.yaml")
    assert isinstance(source, SourceContract)
    assert list(load_catalog(tmp_path, bundled=False).metrics) == ["events_daily"]
    for name in ("events_run1.csv", "events_run2.csv"):
        assert set(source.columns_read) <= set((tmp_path / name).read_text().split("\n")[0].split(","))
    with pytest.raises(ProjectError, match=r"there is no example 'x'; known examples are orders, late_arriving_reprocess"):
        new_project.create(tmp_path, "x")


def test_dagster_gets_what_this_project_itself_uses(tmp_path: Path) -> None:
    new_project.create(tmp_path)
    for name in ("workspace.yaml", "dagster_home/dagster.yaml"):
        assert (tmp_path / name).read_text() == (CHECKOUT / name).read_text(), f"copy {name} to lakehouse/project/templates"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("MINE=1\n")
    with pytest.raises(ProjectError, match=r"\.env exists: make the project in an empty folder; nothing was written"):
        new_project.create(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [".env"]
