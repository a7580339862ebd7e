"""The rule of intervals: it gives what a plain model of the definition gives, for any set of changes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.bronze.row_parser import change_key
from lakehouse.delta.columns import arrow_schema
from lakehouse.dimensions import tables
from lakehouse.dimensions.interval_table import intervals
from lakehouse_tests.support import dimension_model as model
from lakehouse_tests.support.dimension_lake import as_model, dimension, dimension_records
from lakehouse_tests.support.dimension_model import DimensionRecord, ModelInterval, arrived, day
from lakehouse_tests.support.laws import law

CONTRACT = dimension()


def table_of(records: list[DimensionRecord]) -> pa.Table:
    """The changes that hold, as silver has them."""
    held = [record for of_key in model.changes(records).values() for record in of_key]
    rows = [
        {
            "customer_id": record.key,
            "tier": record.tier,
            "region": record.region,
            "email": record.email,
            "event_date": record.at.date(),
            "event_ts": record.at,
            "key_ends": record.op == "delete",
            "ends_at": record.until,
            "record_key": change_key([record.key], record.at),
            "arrival_ts": record.arrival,
            "ingestion_id": record.file,
            "line_number": record.line,
        }
        for record in held
    ]
    silver = pa.Table.from_pylist(rows, arrow_schema(tables.changes_of_silver(CONTRACT)))
    return tables.as_changes(CONTRACT, tables.by_key(CONTRACT, silver))


def intervals_of(records: list[DimensionRecord]) -> set[ModelInterval]:
    return as_model(intervals(CONTRACT, table_of(records)))


def change(
    at: float, tier: str | None = "gold", *, email: str = "a", op: str = "", until: float | None = None
) -> DimensionRecord:
    ends = None if until is None else day(until)
    return arrived(DimensionRecord("1", day(at), op, tier, "north", email, ends, day(10)), "file", int(at * 10))


def spans(*records: DimensionRecord) -> list[tuple[float, float | None, str | None]]:
    """From, to and tier of each interval, in days."""
    days = [
        (one.valid_from, one.valid_to, one.tier) for one in sorted(intervals_of(list(records)), key=lambda one: one.valid_from)
    ]
    return [((begin - model.START).days, None if end is None else (end - model.START).days, tier) for begin, end, tier in days]


@pytest.mark.merge
@law(500, in_each_run=150)
@given(st.lists(dimension_records(), max_size=14))
def test_the_intervals_are_those_of_the_model(records: list[DimensionRecord]) -> None:
    placed = [arrived(record, "file", line) for line, record in enumerate(records)]
    assert intervals_of(placed) == model.intervals(placed)


@pytest.mark.merge
@given(st.lists(dimension_records(), max_size=14), st.integers(1, 3))
@settings(max_examples=100)
def test_a_part_of_the_keys_gives_the_intervals_of_these_keys(records: list[DimensionRecord], count: int) -> None:
    placed = [arrived(record, "file", line) for line, record in enumerate(records)]
    some = {"1", "2", 'q"3'} - set(list("123")[:count])
    assert intervals_of([one for one in placed if one.key in some]) == {one for one in model.intervals(placed) if one.key in some}


def test_a_change_splits_the_interval_in_which_it_lies() -> None:
    assert spans(change(0), change(4, "silver")) == [(0, 4, "gold"), (4, None, "silver")]
    assert spans(change(0), change(2, "bronze"), change(4, "silver")) == [(0, 2, "gold"), (2, 4, "bronze"), (4, None, "silver")]


def test_changes_with_equal_tracked_attributes_are_one_interval() -> None:
    assert spans(change(0), change(2), change(4, None), change(5, None)) == [(0, 4, "gold"), (4, None, None)]


def test_an_end_ends_the_open_interval_and_does_nothing_without_one() -> None:
    assert spans(change(0), change(2, op="delete"), change(3, op="delete")) == [(0, 2, "gold")]
    assert spans(change(0, op="delete"), change(2)) == [(2, None, "gold")]
    assert spans(change(0), change(2, op="delete"), change(3)) == [(0, 2, "gold"), (3, None, "gold")]


def test_a_change_that_says_when_it_ends_ends_then_unless_another_one_begins_before() -> None:
    assert spans(change(0, until=3)) == [(0, 3, "gold")]
    assert spans(change(0, until=3), change(2, "silver")) == [(0, 2, "gold"), (2, None, "silver")]
    assert spans(change(0, until=3), change(3)) == [(0, None, "gold")]
    assert spans(change(0, until=3), change(4)) == [(0, 3, "gold"), (4, None, "gold")]


def test_an_untracked_attribute_has_the_newest_value_everywhere() -> None:
    rows = intervals_of([change(0, email="old"), change(2, "silver", email="new"), change(4, op="delete", email="of the end")])
    assert {(one.tier, one.email) for one in rows} == {("gold", "new"), ("silver", "new")}


def test_no_changes_give_no_intervals() -> None:
    assert spans() == []
    assert spans(change(1, op="delete")) == []
