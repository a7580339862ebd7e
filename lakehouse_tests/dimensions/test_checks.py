"""The checks of intervals: they pass for what the rule gives, and each finds its own damage."""

from __future__ import annotations

from datetime import date
from shutil import copytree
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse import locations
from lakehouse.dimensions import checks
from lakehouse.dimensions.checks import check_intervals
from lakehouse.silver import checks as silver_checks
from lakehouse_tests.support.dimension_lake import deliver, dimension
from lakehouse_tests.support.dimension_model import DimensionRecord, day
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake, contract

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark
DAYS = [date(2024, 1, 1), date(2024, 1, 3), date(2024, 1, 5)]
DISJOINT, GAP, CURRENT, EQUAL = checks.NAMES


@pytest.fixture(scope="module")
def sample(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SampleLake:
    """A key with three intervals and a gap, and another key."""
    of_customers = SampleLake(lake_in(tmp_path_factory.mktemp("lake")), dimension(), spark)
    records = [
        *(DimensionRecord("1", day(at), "", tier, "north", "a", None, day(31)) for at, tier in ((0, "gold"), (4, "silver"))),
        DimensionRecord("1", day(2), "", "bronze", "north", "a", day(3), day(31)),
        DimensionRecord("2", day(0), "", "gold", "north", "a", None, day(31)),
    ]
    deliver(of_customers, date(2024, 2, 1), records, "a")
    return of_customers


@pytest.fixture(params=["few keys", "buckets"])
def lake(sample: SampleLake, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A copy of the lake; its checks look up keys, or read whole buckets."""
    if request.param == "buckets":
        monkeypatch.setattr(checks, "_FEW_CHANGES", 0)
        monkeypatch.setattr(checks, "_SAMPLED", 99)
    copy = sample.lake.with_settings(root=f"{tmp_path}/copy")
    copytree(sample.lake.root, copy.root)
    return copy


def failed(lake: Lake) -> dict[str, list[int]]:
    """The days on which each check fails."""
    outcomes = check_intervals(lake, dimension(), DAYS)
    assert [outcome.day for outcome in outcomes if outcome.check == EQUAL] == DAYS
    return {name: [one.day.day for one in outcomes if one.check == name and not one.passed] for name in checks.NAMES}


def damaged(lake: Lake, **values: object) -> None:
    """Set columns of the interval that begins on the third day."""
    table = locations.intervals(lake, "customers")
    rows = table.read()
    assert rows is not None
    for name, value in values.items():
        chosen = [value if row["valid_from"] == day(2) else row[name] for row in rows.to_pylist()]
        rows = rows.set_column(rows.column_names.index(name), name, pa.array(chosen, rows[name].type))
    write_deltalake(table.address, rows, mode="overwrite")


@pytest.mark.merge
def test_the_checks_of_sound_intervals_pass(lake: Lake) -> None:
    outcomes = silver_checks.check_silver(lake, dimension(), DAYS)
    assert [f"{one.check}: {one.explanation}" for one in outcomes if not one.passed] == []
    keys = {one.day.day: one.numbers["keys"] for one in outcomes if one.check == EQUAL}
    assert keys == {1: 2, 3: 1, 5: 1}


def test_a_source_of_events_has_no_such_checks(lake: Lake) -> None:
    assert check_intervals(lake, contract(), DAYS) == []
    assert not set(checks.NAMES) & set(silver_checks.silver_check_names(contract()))
    assert set(checks.NAMES) < set(silver_checks.silver_check_names(dimension()))


def test_an_overlap_is_found_on_each_day_of_the_key(lake: Lake) -> None:
    damaged(lake, valid_to=day(5))
    assert failed(lake) == {DISJOINT: [1, 3, 5], GAP: [], CURRENT: [], EQUAL: [1, 3, 5]}


def test_a_gap_without_an_end_is_found(lake: Lake) -> None:
    damaged(lake, valid_to=day(3.5))
    assert failed(lake) == {DISJOINT: [], GAP: [1, 3, 5], CURRENT: [], EQUAL: [1, 3, 5]}


def test_a_second_current_interval_is_found(lake: Lake) -> None:
    damaged(lake, valid_to=None, is_current=True)
    assert failed(lake) == {DISJOINT: [1, 3, 5], GAP: [], CURRENT: [1, 3, 5], EQUAL: [1, 3, 5]}


def test_another_value_is_found(lake: Lake) -> None:
    damaged(lake, tier="platinum")
    assert failed(lake) == {DISJOINT: [], GAP: [], CURRENT: [], EQUAL: [1, 3, 5]}


def test_a_change_that_the_copy_by_key_lacks_is_found_on_its_day(lake: Lake) -> None:
    table = locations.changes_by_key(lake, "customers").snapshot()
    assert table is not None
    table.delete("event_date = DATE '2024-01-05'")
    assert failed(lake) == {DISJOINT: [], GAP: [], CURRENT: [], EQUAL: [1, 3, 5]}
    table.delete()
    outcome = next(one for one in check_intervals(lake, dimension(), DAYS[2:]) if one.check == EQUAL)
    assert outcome.explanation is not None
    assert outcome.explanation.endswith("materialize silver/customers for 2024-01-05, which brings its intervals up to date")
