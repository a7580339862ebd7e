"""Lateness measured on Bronze: the Arrow implementation against the rules for one row. Real tables, no Spark."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.lateness import measurement, recent_lags
from lakehouse.lateness.rules import is_late, percentile
from lakehouse_tests.support.arrivals import append_to_bronze, at, bronze_row
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from lakehouse.settings import Settings

DAY = date(2024, 2, 20)
SPANS = st.none() | st.timedeltas(timedelta(days=-2), timedelta(days=40))


@given(st.lists(st.tuples(SPANS, SPANS), max_size=30), SPANS)
def test_late_rows_are_the_same_in_python_and_in_arrow(
    rows: list[tuple[timedelta | None, timedelta | None]], bound: timedelta | None
) -> None:
    def micros(spans: list[timedelta | None]) -> pa.ChunkedArray:
        return pa.chunked_array([[None if span is None else measurement.microseconds(span) for span in spans]], pa.int64())

    lag, bounds = micros([span for span, _ in rows]), micros([span for _, span in rows])
    assert measurement.are_late(lag, bounds).to_pylist() == [is_late(*pair) for pair in rows]
    of_all = None if bound is None else measurement.microseconds(bound)
    assert measurement.are_late(lag, of_all).to_pylist() == [is_late(span, bound) for span, _ in rows]


@given(st.lists(st.integers(-(10**9), 10**12), min_size=1, max_size=400))
def test_the_p99_of_arrow_is_the_percentile_of_the_rules(microseconds: list[int]) -> None:
    noon = at(DAY, 12)
    rows = pa.table({"arrival_ts": pa.array([noon] * len(microseconds), pa.timestamp("us", "UTC")), "lag": microseconds})
    found = recent_lags.RecentArrivals(noon, rows).p99(noon - timedelta(hours=1), noon)
    assert found.lag is not None
    assert (found.rows, measurement.microseconds(found.lag)) == (len(microseconds), percentile(sorted(microseconds), "0.99"))


def test_what_is_on_time_is_judged_by_the_whole_lateness_and_not_by_begun_seconds(settings: Settings) -> None:
    source = contract(lateness={"expected": "PT0.5S"})
    append_to_bronze(settings, source, [bronze_row(at(DAY, 12), timedelta(milliseconds=lag)) for lag in (300, 500, 501, 900)])
    (of_inserts,) = measurement.measure(settings, source, DAY, DAY).types
    assert list(of_inserts.seconds) == [1, 1, 1, 1]
    assert (of_inserts.on_time, of_inserts.late) == (2, 2)
