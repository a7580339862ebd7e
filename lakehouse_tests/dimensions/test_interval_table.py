"""The table of intervals beside silver: it follows every arrival, and gives what a rebuild and the model give."""

from __future__ import annotations

from datetime import date, timedelta
from shutil import copytree, rmtree
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.dimensions import interval_table
from lakehouse_tests.support import dimension_model as model
from lakehouse_tests.support.dimension_lake import deliver, dimension, dimension_files, held_intervals
from lakehouse_tests.support.dimension_model import DimensionRecord, day
from lakehouse_tests.support.hypothesis_settings import derandomized
from lakehouse_tests.support.lake import Lake
from lakehouse_tests.support.lake_settings import lake_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.settings import Settings

pytestmark = pytest.mark.spark
ARRIVAL = date(2024, 2, 1)


def record(key: str, at: float, tier: str, op: str = "", email: str = "a") -> DimensionRecord:
    return DimensionRecord(key, day(at), op, tier, "north", email, None, day(31))


def test_a_file_becomes_intervals(settings: Settings, spark: SparkSession) -> None:
    lake = Lake(settings, dimension(), spark)
    known = deliver(lake, ARRIVAL, [record("1", 0, "gold"), record("1", 4, "silver"), record("2", 1, "gold")], "a")
    assert held_intervals(settings) == model.intervals(known)
    assert len(held_intervals(settings)) == 3
    known += deliver(lake, ARRIVAL, [record("1", 2, "bronze"), record("2", 3, "", "delete")], "b")
    assert held_intervals(settings) == model.intervals(known)


@given(files=dimension_files(), local_rows=st.sampled_from([0, 100_000]))
@derandomized(8)
def test_the_intervals_follow_every_arrival(
    files: list[list[DimensionRecord]], local_rows: int, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lake = Lake(lake_settings(tmp_path_factory.mktemp("lake")), dimension(), spark)
    lake.settings.local_rows = local_rows
    known: list[DimensionRecord] = []
    for number, records in enumerate(files):
        known += deliver(lake, ARRIVAL + timedelta(days=number % 2), records, f"{number}")
        assert held_intervals(lake.settings) == model.intervals(known)
    assert every_row(lake.settings) == every_row(rebuilt(lake))


def every_row(settings: Settings) -> list[dict[str, Any]]:
    """The rows of the table with all columns."""
    rows = table_io.read(locations.intervals(settings, "customers"))
    assert rows is not None
    return rows.sort_by([("dimension_key", "ascending"), ("valid_from", "ascending")]).to_pylist()


def rebuilt(lake: Lake) -> Settings:
    """A copy of a lake whose intervals are computed from silver as a whole."""
    copy = lake.settings.model_copy(update={"root": f"{lake.settings.root}_rebuilt"})
    copytree(lake.settings.root, copy.root)
    for path in (locations.intervals(copy, "customers"), locations.changes_by_key(copy, "customers")):
        rmtree(path)
    interval_table.follow(copy, lake.contract)
    return copy
