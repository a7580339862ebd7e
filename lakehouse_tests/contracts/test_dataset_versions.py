"""Two contract files of one metric: each is a dataset version of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.contracts import ContractError, load_catalog
from lakehouse_tests.support.contract_texts import SHOP_SOURCE, TURNOVER_METRIC

LATER = f"{TURNOVER_METRIC}dataset_version: 2\n"


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder


def test_each_has_a_table_of_its_own(tmp_path: Path) -> None:
    catalog = load_catalog(write(tmp_path, shop=SHOP_SOURCE, turnover=TURNOVER_METRIC, turnover_v2=LATER), bundled=False)
    assert {name: (one.metric, one.dataset_version) for name, one in catalog.metrics.items()} == {
        "turnover": ("turnover", 1),
        "turnover_v2": ("turnover", 2),
    }
    assert [one.name for one in catalog.metrics_of("shop")] == ["turnover", "turnover_v2"]


@pytest.mark.parametrize(
    ("again", "name"),
    [(TURNOVER_METRIC, "turnover"), (LATER, "turnover_v2"), (TURNOVER_METRIC.replace("turnover", "turnover_v2"), "turnover_v2")],
    ids=["version 1 twice", "version 2 twice", "another metric with the name of the table"],
)
def test_the_same_version_twice_is_a_mistake(tmp_path: Path, again: str, name: str) -> None:
    folder = write(tmp_path, shop=SHOP_SOURCE, turnover=TURNOVER_METRIC, turnover_v2=LATER, z_again=f"# once more\n{again}")
    with pytest.raises(ContractError) as caught:
        load_catalog(folder, bundled=False)
    taken = tmp_path / f"{name}.yaml"
    assert caught.value.mistakes == [f"{tmp_path}/z_again.yaml:2: metric: the name '{name}' is taken by {taken}"]


@pytest.mark.parametrize("version", ["0", "-1", "two"])
def test_a_version_is_a_number_from_1_on(tmp_path: Path, version: str) -> None:
    text = LATER.replace("dataset_version: 2", f"dataset_version: {version}")
    with pytest.raises(ContractError) as caught:
        load_catalog(write(tmp_path, shop=SHOP_SOURCE, turnover_v2=text), bundled=False)
    (mistake,) = caught.value.mistakes
    assert mistake.startswith(f"{tmp_path}/turnover_v2.yaml:{len(text.splitlines())}: dataset_version: ")
