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
from lakehouse.delta import damaged_files, table_io
from lakehouse.gold.publication.lost_numbers import LostNumbersError
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import revert
from lakehouse.operations import repair
from lakehouse.operations.maintenance.damaged_tables import find
from lakehouse_tests.support.lossy_lake import METRIC, arrive, copies, expected_state, prepared, publish, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.settings import Settings
    from lakehouse_tests.support.reproducible_lake import ReproducibleLake

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(settings: Settings, spark: SparkSession) -> ReproducibleLake:
    return prepared(settings, spark)


@pytest.fixture
def expected(tmp_path: Path, spark: SparkSession) -> dict[str, Any]:
    return expected_state(tmp_path, spark)


def damage(settings: Settings, table: str, how: str, first: int = 0) -> None:
    """Delete, empty or cut the files that a table reads, and delete what its older versions had."""
    folder = Path(settings.root, table)
    opened = DeltaTable(folder)
    opened.vacuum(0, enforce_retention_duration=False, dry_run=False)
    for name in sorted(unquote(path) for path in opened.get_add_actions(flatten=True).column("path").to_pylist())[first:]:
        if how == "deleted":
            (folder / name).unlink()
        else:
            (folder / name).write_bytes((folder / name).read_bytes()[: 0 if how == "emptied" else -100])


def everything(lake: ReproducibleLake) -> dict[str, Any]:
    """The state of a lake, with every published row and all rows of Bronze."""
    rows = {}
    for table in ("gold/total", "gold/total_weekly", "bronze/events"):
        stored = table_io.read(f"{lake.settings.root}/{table}")
        rows[table] = sorted(repr(sorted(row.items())) for row in stored.to_pylist()) if stored is not None else []
    return state(lake) | rows


def repaired(lake: ReproducibleLake) -> list[tuple[str, bool]]:
    return list(repair.repair(lake.settings, lake.catalog, lambda: lake.lake.spark, "mend"))


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
def test_a_repair_makes_the_rows_again(lake: ReproducibleLake, expected: dict[str, Any], table: str, how: str) -> None:
    before = everything(lake)
    damage(lake.settings, table, how)
    (damaged,) = find(lake.settings, lake.catalog)
    text_of_table = f"{damaged}"
    assert text_of_table.startswith(f"{table}: the data file ")
    assert ("is missing" if how == "deleted" else "is cut off") in text_of_table
    assert "'lakehouse repair'" in text_of_table
    done = repaired(lake)
    assert done
    assert all(is_done for _, is_done in done), done
    assert find(lake.settings, lake.catalog) == []
    assert everything(lake) == before
    publish(lake)
    arrive(lake, 4)
    assert state(lake) == expected


@pytest.mark.merge
@pytest.mark.parametrize("table", ["gold/total", "gold/total_weekly"])
def test_published_numbers_that_are_gone_are_named_and_made_again(
    lake: ReproducibleLake, expected: dict[str, Any], table: str
) -> None:
    """A new table would begin with first revisions, and with states that follow from today: readers would lose what they saw."""
    before = everything(lake)[table]
    shutil.rmtree(Path(lake.settings.root, table))
    with pytest.raises(LostNumbersError, match=rf"^{table} is gone, and its numbers were published: 'lakehouse repair' makes"):
        publish(lake)
    [damaged] = find(lake.settings, lake.catalog)
    assert (
        f"{damaged}" == f"{table}: the table is gone. 'lakehouse repair' makes its numbers again from the inputs that they name."
    )
    assert all(is_done for _, is_done in repaired(lake))
    assert find(lake.settings, lake.catalog) == []
    assert everything(lake)[table] == before
    publish(lake)
    arrive(lake, 4)
    assert state(lake) == expected


@pytest.mark.merge
@pytest.mark.parametrize("table", ["gold/total", "gold/total_weekly"])
@pytest.mark.parametrize("copy", [1, 2])
def test_versions_that_an_older_copy_does_not_have_are_named_and_made_again(
    lake: ReproducibleLake, expected: dict[str, Any], table: str, copy: int
) -> None:
    """Numbers computed from silver would take the place of revisions that readers have seen, under the same names."""
    revert.put_back(lake.settings, lake.lake.contract, Series(METRIC), {date(2024, 2, 1): "r1"}, Run("back", by="anna"), "a test")
    publish(lake)
    before = everything(lake)[table]
    folder = Path(lake.settings.root, table)
    shutil.rmtree(folder)
    shutil.copytree(copies(lake.settings, copy) / table, folder)
    [damaged] = find(lake.settings, lake.catalog)
    assert f"{damaged}".startswith(f"{table} has lost published numbers: {table[5:]}_v2024-")
    if table == "gold/total":
        with pytest.raises(
            LostNumbersError, match=rf"^{table} has lost published numbers .*: 'lakehouse repair' makes them again"
        ):
            revert.put_back(
                lake.settings, lake.lake.contract, Series(METRIC), {date(2024, 2, 2): "r1"}, Run("x", by="anna"), "a test"
            )
    assert all(is_done for _, is_done in repaired(lake))
    assert find(lake.settings, lake.catalog) == []
    assert everything(lake)[table] == before
    publish(lake)
    assert everything(lake)[table] == before


@pytest.mark.merge
def test_all_layers_at_once(lake: ReproducibleLake, expected: dict[str, Any]) -> None:
    before = everything(lake)
    for table in ("silver/events", "gold/total", "gold/total_weekly", "bronze/events", "ops/events_keys"):
        damage(lake.settings, table, "deleted")
    assert all(is_done for _, is_done in repaired(lake))
    assert everything(lake) == before
    publish(lake)
    arrive(lake, 4)
    assert state(lake) == expected


def test_what_cannot_be_made_again_is_named(lake: ReproducibleLake) -> None:
    damage(lake.settings, "bronze/events", "deleted")
    damage(lake.settings, "ops/ingestions", "deleted")
    texts = [f"{entry}" for entry in find(lake.settings, lake.catalog)]
    assert texts[0].endswith("'lakehouse repair' reads its rows again from landing.")
    assert texts[1].startswith("ops/ingestions: the data file ")
    assert texts[1].endswith("It cannot be derived from other tables: restore this table from a copy.")


@pytest.mark.merge
def test_rows_that_landing_does_not_have_any_more_are_named(lake: ReproducibleLake) -> None:
    damage(lake.settings, "bronze/events", "deleted")
    next(Path(str(lake.settings.landing)).glob("arrival_date=2024-02-02*")).unlink()
    text_of_table = dict(repaired(lake))
    (lost,) = [text for text, is_done in text_of_table.items() if not is_done]
    assert lost.startswith("bronze/events: bronze/events has lost the 2 rows of 1 ingested files (arrival_date=2024-02-02")
    assert lost.endswith("put them back into landing as they were, and run 'lakehouse repair' again")
    days = set(table_io.read(lake.settings.table("bronze", "events"), ["arrival_date"])["arrival_date"].to_pylist())
    assert days == {date(2024, 2, 1), date(2024, 2, 3)}, "the others are there again"


@pytest.mark.parametrize("how", ["deleted", "cut"])
def test_files_are_looked_up_without_reading_them(lake: ReproducibleLake, how: str) -> None:
    path = lake.settings.table("silver", "events")
    assert damaged_files.of(path) == []
    damage(lake.settings, "silver/events", how, first=1)
    assert {(file.is_missing, file.rows > 0) for file in damaged_files.of(path)} == {(how == "deleted", True)}
