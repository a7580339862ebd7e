"""Windows of event time against a plain model: any order of events, days with a clock change, late, moved and deleted events."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import example, given

from lakehouse.contracts.series import Series
from lakehouse.contracts.windows import EventWindow
from lakehouse.gold.numbers.published_table import TIME
from lakehouse.gold.restatement import reconciliation, silver_rows
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.spark import dataframes
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import (
    CORNERS,
    DAYS,
    FIRST,
    SLIDING,
    TUMBLING,
    ZONE,
    Event,
    WindowedLake,
    sendings,
    windows_of,
)

if TYPE_CHECKING:
    from datetime import date

    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark

_MINUTES = DAYS * 24 * 60


def day(number: int) -> date:
    return FIRST + timedelta(days=number)


@pytest.mark.merge
@pytest.mark.parametrize(
    ("size", "every"), [(60, 60), (60, 15), (120, 120), (120, 30), (1380, 60), (1440, 1440), (15, 5), (90, 45)]
)
def test_the_minutes_of_a_week_with_a_clock_change_lie_in_the_windows_of_the_model(spark: Any, size: int, every: int) -> None:
    events = [Event(f"{minute}", minute) for minute in range(0, _MINUTES, 7)]
    window = EventWindow(size=timedelta(minutes=size), every=timedelta(minutes=every), timezone=ZONE)
    days = [event.moment.astimezone(ZoneInfo(ZONE)).date() for event in events]
    rows = dataframes.local(spark, pa.table({"event_ts": pa.array([event.moment for event in events], TIME), "event_date": days}))
    placed = silver_rows.with_windows(rows, window).groupBy("event_date", "window_start").count().toArrow().to_pylist()
    model = {start: count for start, (_, _, count) in windows_of(events, size, every).items()}
    assert {row["window_start"]: row["count"] for row in placed} == model
    assert all(row["window_start"].astimezone(ZoneInfo(ZONE)).date() == row["event_date"] for row in placed)


def test_a_row_without_a_time_stays_once(spark: Any) -> None:
    rows = dataframes.local(spark, pa.table({"event_ts": pa.nulls(1, TIME), "event_date": [FIRST]}))
    for every in (timedelta(hours=1), timedelta(minutes=15)):
        window = EventWindow(size=timedelta(hours=1), every=every, timezone=ZONE)
        placed = silver_rows.with_windows(rows, window).select("event_date", "window_start").toArrow().to_pylist()
        assert placed == [{"event_date": FIRST, "window_start": None}]


@pytest.mark.merge
def test_a_late_event_restates_the_windows_that_cover_it_and_no_other_day(lake: Lake, spark: Any) -> None:
    sample = WindowedLake(lake, spark)
    hourly, sliding = map(Series, sample.metrics)
    # At 00:10 on the second day, at 12:00 on the second, and at 05:00 on the fourth.
    sample.send(Event("a", 24 * 60 + 10), Event("b", 36 * 60), Event("c", 77 * 60))
    before = [sample.windows(series) for series in (hourly, sliding)]
    late = Event("late", 24 * 60 + 5, 10)
    assert sample.send(late) == [{day(1)}, {day(0), day(1)}]
    changed = [
        {start for start in {**old, **new} if old.get(start) != new.get(start)}
        for old, new in zip(before, (sample.windows(hourly), sample.windows(sliding)))
    ]
    assert changed == [set(windows_of([late], 60, 60)), set(windows_of([late], 120, 30))]
    assert len(changed[1]) == 4
    assert sample.send(late) == [set(), set()], "the same again"
    assert sample.unlike_published() == []
    for series in (hourly, sliding):
        outcomes = [
            *reconciliation.check_published(lake, series, [day(number) for number in range(DAYS)]),
            *reconciliation.check_gold(lake, series, sample.session, [day(number) for number in range(DAYS)]),
        ]
        names = reconciliation.gold_check_names(series)
        assert {outcome.check for outcome in outcomes} <= set(names)
        assert {outcome.day for outcome in outcomes} >= {day(1), day(3)}
        assert [outcome for outcome in outcomes if not outcome.passed] == []
        assert (reconciliation.EQUALS_SILVER in names) == (series is hourly), "windows over midnight are not counted by day"


@pytest.mark.merge
@law(25)
@example(files=CORNERS)
@given(files=sendings())
def test_any_history_gives_the_windows_of_the_model_and_restates_what_changed(tmp_path_factory, spark, files) -> None:
    sample = WindowedLake(lake_in(tmp_path_factory.mktemp("lake")), spark)
    all_series = [Series(definition) for definition in sample.metrics]
    for events in files:
        before = [sample.windows(series) for series in all_series]
        restated = sample.send(*events)
        after = [sample.windows(series) for series in all_series]
        assert after == sample.by_model()
        for old, new, days in zip(before, after, restated):
            changed = {start for start in {**old, **new} if old.get(start) != new.get(start)}
            assert {start.astimezone(ZoneInfo(ZONE)).date() for start in changed} == days
    assert all(find_pending(sample.lake, series).starts == set() for series in all_series)
    assert sample.unlike_published() == []


@law(25)
@example(files=CORNERS)
@given(files=sendings())
def test_patched_windows_are_those_of_the_model(tmp_path_factory, spark, files) -> None:
    total = {**TUMBLING["measures"][0], "sql": "coalesce(sum(amount), 0)"}
    patched = metric({**TUMBLING, "measures": [total], "publication": {"final_after": 90, "patch_up_to": 100}})
    sample = WindowedLake(lake_in(tmp_path_factory.mktemp("lake")), spark, [patched, metric(SLIDING)])
    for events in files:
        sample.send(*events)
        assert [sample.windows(Series(definition)) for definition in sample.metrics] == sample.by_model()
