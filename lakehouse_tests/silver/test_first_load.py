"""A first load is history: rows that it brings are told from late ones by the days of the data alone. No Spark, no tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import date, datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.lateness import historical_rows
from lakehouse.silver import audit_rows

SCHEMA = pa.schema(
    [
        ("event_date", pa.date32()),
        ("arrival_date", pa.date32()),
        ("ingestion_id", pa.string()),
        ("source_file", pa.string()),
        ("arrival_ts", pa.timestamp("us", "UTC")),
        ("late", pa.bool_()),
    ]
)
JANUARY = [date(2024, 1, day) for day in range(1, 10)]


def row(event: int, arrival: int, file: str = "a", *, late: bool = True) -> dict[str, Any]:
    """A row of an event day that arrived on an arrival day, both of January."""
    clock = datetime(2024, 1, arrival, 12, tzinfo=timezone.utc)
    of_file = {"ingestion_id": file, "source_file": f"{file}.csv"}
    return {"event_date": date(2024, 1, event), "arrival_date": clock.date(), **of_file, "arrival_ts": clock, "late": late}


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


ROWS = st.lists(st.builds(row, st.integers(1, 9), st.integers(1, 9), st.sampled_from("ab"), late=st.booleans()), max_size=20)


def history_by_row(rows: list[dict[str, Any]], all_rows: list[dict[str, Any]]) -> list[bool]:
    """The model of ``are_first_load``."""
    firsts: dict[date, date] = {}
    for other in all_rows:
        firsts[other["event_date"]] = min(other["arrival_date"], firsts.get(other["event_date"], date.max))
    since = min(firsts.values(), default=date.min)
    return [one["event_date"] < since and one["arrival_date"] == firsts[one["event_date"]] for one in rows]


def test_the_first_arrival_day_brings_history_and_later_ones_late_rows() -> None:
    first, late, same_day, unseen = row(1, 5), row(1, 6), row(5, 5, late=False), row(6, 9)
    older = row(2, 8)
    rows = table([first, late, same_day, unseen, older])
    loaded = historical_rows.are_first_load(rows, historical_rows.first_arrivals(rows))
    assert loaded.to_pylist() == [True, False, False, False, True], "the source is followed from the 5th on"


@given(ROWS)
def test_history_is_what_the_model_says(rows: list[dict[str, Any]]) -> None:
    found = historical_rows.are_first_load(table(rows), historical_rows.first_arrivals(table(rows)))
    assert found.to_pylist() == history_by_row(rows, rows)


@given(ROWS, st.integers(0, 20))
def test_the_grouping_of_runs_changes_nothing(rows: list[dict[str, Any]], cut: int) -> None:
    """Commits in the order of arrival, with a cut also within an arrival day: a load may take many commits."""
    in_order = sorted(rows, key=lambda one: one["arrival_date"])
    first, second = in_order[:cut], in_order[cut:]
    known = historical_rows.first_arrivals(table(first))
    apart = historical_rows.are_first_load(table(first), known).to_pylist()
    claims = pa.concat_tables([known, table(second).select(historical_rows.FIRST_ARRIVALS.names)])
    apart += historical_rows.are_first_load(table(second), historical_rows.first_arrivals(claims)).to_pylist()
    assert apart == history_by_row(in_order, in_order)


@given(ROWS)
def test_a_load_is_counted_by_file_and_day(rows: list[dict[str, Any]]) -> None:
    counts: dict[tuple[date, str], Counter[str]] = defaultdict(Counter)
    for one in rows:
        counts[one["event_date"], one["ingestion_id"]].update({"rows": 1, "late": int(one["late"])})
    found = audit_rows.first_loads(table(rows))
    assert [(one["event_date"], one["ingestion_id"]) for one in found.to_pylist()] == sorted(counts)
    assert [Counter(rows=one["rows"], late=one["late"]) for one in found.to_pylist()] == [counts[key] for key in sorted(counts)]
    assert (pc.sum(found["rows"]).as_py() or 0) == len(rows)


def test_a_load_is_described_without_values_of_rows() -> None:
    assert audit_rows.first_load_value("a.csv", 1200, 1000) == '{"source_file": "a.csv", "rows": 1200, "late": 1000}'
    assert audit_rows.first_load_reason("a.csv", 1200) == "first load of the day: 1,200 rows of a.csv"
    ids = {audit_rows.first_load_id("events", 1, file, day) for file in "ab" for day in JANUARY[:2]}
    assert len(ids) == 4
