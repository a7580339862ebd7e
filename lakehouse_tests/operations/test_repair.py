"""Data files that are missing or cut off: a repair makes their rows again, and the lake ends as one that was never damaged."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from deltalake import DeltaTable

from lakehouse.contracts.series import Series
from lakehouse.delta import data_files
from lakehouse.gold.publication.revisions import LostNumbersError
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import revert
from lakehouse.lake import Table
from lakehouse.operations import damaged_tables
from lakehouse.operations.damaged_tables import find
from lakehouse_tests.support.lossy_lake import METRIC, arrive, copies, expected_state, prepared, publish, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake
    from lakehouse_tests.support.reproducible_lake import ReproducibleLake

pytestmark = pytest.mark.spark


@pytest.fixture
def sample(lake: Lake, spark: SparkSession) -> ReproducibleLake:
    return prepared(lake, spark)


@pytest.fixture
def expected(tmp_path: Path, spark: SparkSession) -> dict[str, Any]:
    return expected_state(tmp_path, spark)


def damage(lake: Lake, table: str, how: str) -> None:
    """Delete, empty or cut the files that a table reads, and delete what its older versions had."""
    folder = Path(lake.root, table)
    opened = DeltaTable(folder)
    opened.vacuum(0, enforce_retention_duration=False, dry_run=False)
    for name in sorted(unquote(path) for path in opened.get_add_actions(flatten=True).column("path").to_pylist()):
        if how == "deleted":
            (folder / name).unlink()
        else:
            (folder / name).write_bytes((folder / name).read_bytes()[: 0 if how == "emptied" else -100])


def everything(sample: ReproducibleLake) -> dict[str, Any]:
    """The state of a lake, with every published row and all rows of Bronze."""
    rows = {}
    for table in ("gold/total", "gold/total_weekly", "bronze/events"):
        stored = Table(f"{sample.lake.root}/{table}").read()
        rows[table] = sorted(repr(sorted(row.items())) for row in stored.to_pylist()) if stored is not None else []
    return state(sample) | rows


def repaired(sample: ReproducibleLake) -> list[tuple[str, bool]]:
    return list(damaged_tables.repair(sample.lake, sample.catalog, lambda: sample.sample.spark, "mend"))


CASES = {
    "silver/events": ("deleted", "emptied", "cut"),
    "gold/total": ("deleted", "cut"),
    "gold/total_weekly": ("deleted",),
    "bronze/events": ("deleted", "cut"),
    "ops/events_keys": ("deleted",),
    "ops/publications": ("deleted",),
    "ops/restatements": ("deleted",),
    "ops/applications": ("deleted",),
}
FEW = {("silver/events", "cut"), ("gold/total", "deleted"), ("bronze/events", "deleted")}


@pytest.mark.merge
@pytest.mark.parametrize(
    ("table", "how"),
    [
        pytest.param(table, how, marks=() if (table, how) in FEW else pytest.mark.merge, id=f"{table}, {how}")
        for table, hows in CASES.items()
        for how in hows
    ],
)
def test_a_repair_makes_the_rows_again(sample: ReproducibleLake, expected: dict[str, Any], table: str, how: str) -> None:
    before = everything(sample)
    damage(sample.lake, table, how)
    (damaged,) = find(sample.lake, sample.catalog)
    text_of_table = f"{damaged}"
    assert text_of_table.startswith(f"{table}: the data file ")
    assert ("is missing" if how == "deleted" else "is cut off") in text_of_table
    assert "'lakehouse admin repair'" in text_of_table
    done = repaired(sample)
    assert done
    assert all(is_done for _, is_done in done), done
    assert find(sample.lake, sample.catalog) == []
    assert everything(sample) == before
    publish(sample)
    arrive(sample, 4)
    assert state(sample) == expected


@pytest.mark.merge
@pytest.mark.parametrize("table", ["gold/total", "gold/total_weekly"])
def test_published_numbers_that_are_gone_are_named_and_made_again(
    sample: ReproducibleLake, expected: dict[str, Any], table: str
) -> None:
    """A new table would begin with first revisions, and with states that follow from today: readers would lose what they saw."""
    before = everything(sample)[table]
    shutil.rmtree(Path(sample.lake.root, table))
    with pytest.raises(
        LostNumbersError, match=rf"^{table} is gone, and its numbers were published: 'lakehouse admin repair' makes"
    ):
        publish(sample)
    [damaged] = find(sample.lake, sample.catalog)
    assert (
        f"{damaged}"
        == f"{table}: the table is gone. 'lakehouse admin repair' makes its numbers again from the inputs that they name."
    )
    assert all(is_done for _, is_done in repaired(sample))
    assert find(sample.lake, sample.catalog) == []
    assert everything(sample)[table] == before
    publish(sample)
    arrive(sample, 4)
    assert state(sample) == expected


@pytest.mark.merge
@pytest.mark.parametrize("table", ["gold/total", "gold/total_weekly"])
@pytest.mark.parametrize("copy", [1, 2])
def test_versions_that_an_older_copy_does_not_have_are_named_and_made_again(
    sample: ReproducibleLake, expected: dict[str, Any], table: str, copy: int
) -> None:
    """Numbers computed from silver would take the place of revisions that readers have seen, under the same names."""
    revert.put_back(
        sample.lake, sample.sample.contract, Series(METRIC), {date(2024, 2, 1): "r1"}, Run("back", by="anna"), "a test"
    )
    publish(sample)
    before = everything(sample)[table]
    folder = Path(sample.lake.root, table)
    shutil.rmtree(folder)
    shutil.copytree(copies(sample.lake, copy) / table, folder)
    [damaged] = find(sample.lake, sample.catalog)
    assert f"{damaged}".startswith(f"{table} has lost published numbers: {table[5:]}_v2024-")
    if table == "gold/total":
        with pytest.raises(
            LostNumbersError, match=rf"^{table} has lost published numbers .*: 'lakehouse admin repair' makes them again"
        ):
            revert.put_back(
                sample.lake, sample.sample.contract, Series(METRIC), {date(2024, 2, 2): "r1"}, Run("x", by="anna"), "a test"
            )
    assert all(is_done for _, is_done in repaired(sample))
    assert find(sample.lake, sample.catalog) == []
    assert everything(sample)[table] == before
    publish(sample)
    assert everything(sample)[table] == before


@pytest.mark.merge
def test_all_layers_at_once(sample: ReproducibleLake, expected: dict[str, Any]) -> None:
    before = everything(sample)
    for table in ("silver/events", "gold/total", "gold/total_weekly", "bronze/events", "ops/events_keys"):
        damage(sample.lake, table, "deleted")
    assert all(is_done for _, is_done in repaired(sample))
    assert everything(sample) == before
    publish(sample)
    arrive(sample, 4)
    assert state(sample) == expected


def test_what_cannot_be_made_again_is_named(sample: ReproducibleLake) -> None:
    damage(sample.lake, "bronze/events", "deleted")
    damage(sample.lake, "ops/ingestions", "deleted")
    texts = [f"{entry}" for entry in find(sample.lake, sample.catalog)]
    assert texts[0].endswith("'lakehouse admin repair' reads its rows again from landing.")
    assert texts[1].startswith("ops/ingestions: the data file ")
    assert texts[1].endswith("It cannot be derived from other tables: restore this table from a copy.")


@pytest.mark.merge
def test_rows_that_landing_does_not_have_any_more_are_named(sample: ReproducibleLake) -> None:
    damage(sample.lake, "bronze/events", "deleted")
    next(Path(str(sample.lake.settings.landing)).glob("arrival_date=2024-02-02*")).unlink()
    text_of_table = dict(repaired(sample))
    (lost,) = [text for text, is_done in text_of_table.items() if not is_done]
    assert lost.startswith("bronze/events: bronze/events has lost the 2 rows of 1 ingested files (arrival_date=2024-02-02")
    assert lost.endswith("put them back into landing as they were, and run 'lakehouse admin repair' again")
    days = set(sample.lake.table("bronze", "events").read(["arrival_date"])["arrival_date"].to_pylist())
    assert days == {date(2024, 2, 1), date(2024, 2, 3)}, "the others are there again"


@pytest.mark.parametrize("how", ["deleted", "cut"])
def test_files_are_looked_up_without_reading_them(sample: ReproducibleLake, how: str) -> None:
    table = sample.lake.table("silver", "events")
    assert data_files.damaged_files(table) == []
    damage(sample.lake, "silver/events", how)
    assert {(file.is_missing, file.rows > 0) for file in data_files.damaged_files(table)} == {(how == "deleted", True)}
