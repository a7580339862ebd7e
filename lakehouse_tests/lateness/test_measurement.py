"""Lateness measured on Bronze: the Arrow implementation against the rules for one row. Real tables, no Spark."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.lake import Lake
from lakehouse.lateness import measurement, recent_lags
from lakehouse.lateness.rules import is_late, percentile
from lakehouse.settings import Settings
from lakehouse_tests.support.arrivals import append_to_bronze, at, bronze_row
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.laws import law

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


def test_what_is_on_time_is_judged_by_the_whole_lateness_and_not_by_begun_seconds(lake: Lake) -> None:
    source = contract(lateness={"expected": "PT0.5S"})
    append_to_bronze(lake, source, [bronze_row(at(DAY, 12), timedelta(milliseconds=lag)) for lag in (300, 500, 501, 900)])
    (of_inserts,) = measurement.measure(lake, source, DAY, DAY).types
    assert list(of_inserts.seconds) == [1, 1, 1, 1]
    assert (of_inserts.on_time, of_inserts.late) == (2, 2)


def test_rows_ahead_of_their_arrival_are_counted_and_left_out(lake: Lake) -> None:
    source = contract(lateness={"expected": "PT1H", "watermark": "PT2H"})
    minutes = [-600, -1, 0, 30, 150]
    append_to_bronze(lake, source, [bronze_row(at(DAY, 12), timedelta(minutes=lag)) for lag in minutes])
    only_the_day = bronze_row(at(DAY, 12), timedelta(0)) | {"event_ts": None}
    append_to_bronze(lake, source, [only_the_day, bronze_row(at(DAY, 12), None)])
    measured = measurement.measure(lake, source, DAY, DAY)
    (of_inserts,) = measured.types
    assert list(of_inserts.seconds) == [-12 * 3600, 0, 1800, 9000], "of a day alone, its end is what counts"
    assert (measured.skewed, measured.unclocked, measured.rows) == (2, 1, 4)
    assert measurement.proposals(source, measured)[None].rows == 4
    assert [list(seconds) for seconds in measurement.by_day(lake, source, DAY, DAY).values()] == [list(of_inserts.seconds)]
    recent = recent_lags.newest(lake.with_settings(now=at(DAY, 13)), source, 1)
    assert recent is not None
    assert recent.p99(at(DAY), at(DAY, 12)).rows == 4
    assert [(count.rows, count.late) for count in recent.by_time()] == [(7, 1)]


@law(200, in_each_run=30)
@given(
    rows=st.lists(st.tuples(st.integers(0, 47), st.integers(0, 200)), max_size=25), zone=st.sampled_from(["UTC", "Asia/Kolkata"])
)
def test_lateness_by_hour_is_that_of_the_rows_of_the_hour(rows: list[tuple[int, int]], zone: str) -> None:
    source = contract(clocks={"event": "event_time", "arrival": "arrived_at", "timezone": zone})
    with TemporaryDirectory() as folder:
        lake = Lake(Settings(root=folder))
        arrived = [(at(DAY) + timedelta(minutes=30 * half), timedelta(minutes=lag)) for half, lag in rows]
        only_the_day = bronze_row(at(DAY, 12), timedelta(days=3)) | {"event_ts": None}
        append_to_bronze(lake, source, [*(bronze_row(*row) for row in arrived), only_the_day])
        expected: dict[str, dict[int, list[int]]] = {"event": {}, "arrival": {}}
        for arrival, lag in arrived:
            for clock, time in (("event", arrival - lag), ("arrival", arrival)):
                expected[clock].setdefault(time.astimezone(ZoneInfo(zone)).hour, []).append(int(lag.total_seconds()))
        found = measurement.by_hour(lake, source, DAY, DAY, "event")
        assert {hour: list(seconds) for hour, seconds in found.items()} == {
            hour: sorted(seconds) for hour, seconds in expected["event"].items()
        }
        assert list(found) == sorted(found)
        of_arrivals = measurement.by_hour(lake, source, DAY, DAY, "arrival")
        assert sum(len(seconds) for seconds in of_arrivals.values()) == len(rows) + 1, "its arrival has an hour"
        for hour, seconds in expected["arrival"].items():
            assert not Counter(seconds) - Counter(int(second) for second in of_arrivals[hour])


def test_the_share_beyond_each_tier(lake: Lake) -> None:
    tiers = [{"within": "PT1H", "serves": "live", "tolerated": 0.5}, {"within": "P1D", "serves": "daily numbers"}]
    source = contract(lateness={"tiers": tiers})
    kinds = ["insert", "correct"]
    lags = [timedelta(minutes=minutes) for minutes in (0, 60, 61, 1440, 1441)]
    append_to_bronze(lake, source, [bronze_row(at(DAY, 12), lag, change_op=kind) for kind in kinds for lag in lags])
    beyond = measurement.beyond_tiers(source, measurement.measure(lake, source, DAY, DAY))
    counted = [(late.tier.serves, late.beyond, late.share, late.is_exceeded) for late in beyond]
    assert counted == [("live", 6, 0.6, True), ("daily numbers", 2, 0.2, False)]
    nothing = measurement.beyond_tiers(source, measurement.measure(lake, source, date(2025, 1, 1), date(2025, 1, 1)))
    assert [(late.beyond, late.share) for late in nothing] == [(0, 0), (0, 0)]
