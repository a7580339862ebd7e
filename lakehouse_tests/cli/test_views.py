"""``lakehouse gold views`` writes SQL files beside the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from lakehouse.cli.program import app
from lakehouse.contracts import load_catalog
from lakehouse.lake import Lake
from lakehouse.settings import Settings
from lakehouse_tests.support.contract_texts import EVENTS_SOURCE, TOTAL_METRIC
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, without_spark

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A published metric, in a folder with a quotation mark."""
    folder = tmp_path / "o'neill"
    (folder / "contracts").mkdir(parents=True)
    (folder / "contracts" / "events.yaml").write_text(EVENTS_SOURCE)
    (folder / "contracts" / "total.yaml").write_text(TOTAL_METRIC)
    for name, value in {"root": "lake", "contracts": "contracts"}.items():
        monkeypatch.setenv(f"LAKEHOUSE_{name.upper()}", str(folder / value))
    monkeypatch.setenv("LAKEHOUSE_BUNDLED_CONTRACTS", "false")
    catalog = load_catalog(folder / "contracts")
    with without_spark():
        numbers = ScriptedNumbers(
            Lake(Settings(root=str(folder / "lake"))), catalog.metrics["total"], source=catalog.sources["events"]
        )
        numbers.at(1)
        numbers.set(1, 10)
        numbers.publish()
    return folder


def test_a_file_for_each_engine_with_views_of_what_exists(folder: Path) -> None:
    done = CliRunner().invoke(app, ["views"])
    assert done.exit_code == 0, done.output
    assert "duckdb.sql: 3 views" in done.output.replace("\n", "")
    duckdb, spark = ((folder / "lake" / "views" / f"{name}.sql").read_text() for name in ("duckdb", "spark"))
    address = f"{folder}/lake/gold/total"
    assert "delta_scan('" + address.replace("'", "''") + "')" in duckdb
    assert f"delta.`{address}`" in spark
    assert "CREATE OR REPLACE MACRO total_asof(seen_at) AS TABLE SELECT" in duckdb
    assert "CREATE OR REPLACE FUNCTION total_asof(seen_at TIMESTAMP) RETURNS TABLE RETURN SELECT" in spark
    assert CliRunner().invoke(app, ["views", "--to", str(folder / "elsewhere")]).exit_code == 0
    assert (folder / "elsewhere" / "duckdb.sql").read_text() == duckdb


def test_tables_in_an_object_store_need_a_folder_for_the_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_ROOT", "s3://bucket/lake")
    done = CliRunner().invoke(app, ["views"])
    assert done.exit_code != 0
    assert "name a local folder with --to" in " ".join(done.output.replace("│", "").split())


def test_the_earlier_command_prints_its_query_and_names_the_new_one(folder: Path) -> None:
    done = CliRunner().invoke(app, ["view", "events", "--engine", "spark"])
    assert done.exit_code == 0, done.output
    assert "'lakehouse view' is deprecated" in done.output
    assert "/silver/events`" in done.output.replace("\n", "")
