"""The windows of changed rows, without Spark, against the model of windows; and the reasons of windows that follow from them."""

from __future__ import annotations

import shutil
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.contracts.series import WINDOW_COLUMNS, Series
from lakehouse.contracts.source import SourceContract
from lakehouse.contracts.windows import EventWindow, SessionWindow
from lakehouse.delta import row_writer
from lakehouse.delta.change_feed import KEY_CHANGES
from lakehouse.gold.numbers import history, window_history
from lakehouse.gold.numbers.published_table import TIME
from lakehouse.gold.restatement import silver_tables
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, without_spark
from lakehouse_tests.support.numbers_without_spark import metric as hourly_metric
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import (
    ARRIVES,
    DAYS,
    FIRST,
    SESSIONS,
    TUMBLING,
    ZONE,
    Event,
    WindowedLake,
    source,
    windows_of,
)

if TYPE_CHECKING:
    from lakehouse.lake import Lake

_MINUTES = DAYS * 24 * 60


def feed(events: list[Event], **more: list[str]) -> pa.Table:
    days = [event.moment.astimezone(ZoneInfo(ZONE)).date() for event in events]
    moments = pa.array([event.moment for event in events], TIME)
    return pa.table({"record_key": [event.key for event in events], "event_date": days, "event_ts": moments, **more})


@pytest.mark.parametrize(
    ("size", "every"), [(60, 60), (60, 15), (120, 120), (120, 30), (1380, 60), (1440, 1440), (15, 5), (90, 45), (100, 40)]
)
def test_the_minutes_of_a_week_with_a_clock_change_lie_in_the_windows_of_the_model(size: int, every: int) -> None:
    events = [Event(f"{minute}", minute) for minute in range(0, _MINUTES, 7)]
    window = EventWindow(size=timedelta(minutes=size), every=timedelta(minutes=every), timezone=ZONE)
    placed = silver_tables.with_starts(feed(events), window)
    counts = placed.group_by("window_start").aggregate([([], "count_all")]).to_pylist()
    model = {start: count for start, (_, _, count) in windows_of(events, size, every).items()}
    assert {row["window_start"]: row["count_all"] for row in counts} == model


def test_changes_are_counted_in_each_window_in_which_a_row_lies_or_lay() -> None:
    window = EventWindow(size=timedelta(hours=1), every=timedelta(minutes=30), timezone=ZONE)
    rows = feed([Event("a", 95), Event("b", 100), Event("b", 200), Event("unchanged", 95)])
    changes = pa.table([[FIRST, FIRST], ["inserted", "corrected"], ["a", "b"]], schema=KEY_CHANGES)
    by_minute = {
        int((start - Event("", 0).moment).total_seconds() // 60): dict(counts)
        for (start,), counts in silver_tables.window_causes(changes, rows, window)[FIRST].items()
    }
    both = {"inserted": 1, "corrected": 1}
    assert by_minute == {60: both, 90: both, 150: {"corrected": 1}, 180: {"corrected": 1}}


def test_changes_of_sessions_are_counted_by_key_and_rows_without_a_time_in_no_window() -> None:
    changes = pa.table([[FIRST, FIRST], ["inserted", "corrected"], ["a", "b"]], schema=KEY_CHANGES)
    sessions = SessionWindow(gap=timedelta(hours=1), key=["user"], timezone=ZONE)
    rows = feed([Event("a", 95), Event("b", 100)], user=["u", "v"])
    assert silver_tables.window_causes(changes, rows, sessions) == {FIRST: {("u",): {"inserted": 1}, ("v",): {"corrected": 1}}}
    nowhere = rows.set_column(2, "event_ts", pa.nulls(2, TIME))
    window = EventWindow(size=timedelta(hours=1), timezone=ZONE)
    assert silver_tables.window_causes(changes, nowhere, window) == {FIRST: {(None,): {"inserted": 1, "corrected": 1}}}


#: Minutes from the first moment of the events to that of the day on which the files arrive, with the hour of the clock change.
_TODAY = 6 * 24 * 60 + 60


def at(hour: float, key: str, amount: int = 1, op: str = "insert", user: str = "u") -> Event:
    return Event(key, _TODAY + int(hour * 60), amount, op, user)


def delivering_within(lateness: str) -> SourceContract:
    stored = source().model_dump(mode="json", exclude_unset=True, by_alias=True)
    return SourceContract.model_validate({**stored, "lateness": {"expected": lateness}})


@pytest.mark.spark
def test_an_hour_has_the_reason_of_its_own_rows(lake: Lake, spark: Any) -> None:
    """The files arrive at one o'clock; a row is late after four hours."""
    sample = WindowedLake(lake, spark, [metric(TUMBLING), metric(SESSIONS)], {"orders": delivering_within("PT4H")})
    hourly, sessions = map(Series, sample.metrics)

    def reasons(series: Series) -> dict[str, list[str]]:
        versions = history.history(lake, series, [ARRIVES])[ARRIVES]
        histories = window_history.histories(versions).items()
        return {f"{start.astimezone(ZoneInfo(ZONE)):%H:%M}": [one.why for one in each] for start, each in histories}

    sample.send(at(3, "a"), at(11.2, "b"), at(6, "early"))
    sample.send(at(3, "a", 5), at(11.5, "c"), at(11.8, "d", user="v"), at(12, "e"), at(5, "f", user="w"))
    assert [one.why for one in history.history(lake, hourly, [ARRIVES])[ARRIVES]][1].startswith("correction: ")
    assert reasons(hourly) == {
        "03:00": ["initial", "correction: 1 corrected"],
        "05:00": ["initial"],
        "06:00": ["initial"],
        "11:00": ["initial", "new_data: 2 on time"],
        "12:00": ["initial"],
    }
    sample.send(at(3.5, "g"), at(12.5, "h"), at(6, "early", op="delete"), at(11.9, "i", user="v"))
    assert reasons(hourly) == {
        "03:00": ["initial", "correction: 1 corrected", "late_data: 1 arrived late"],
        "05:00": ["initial"],
        "06:00": ["initial", "correction"],
        "11:00": ["initial", "new_data: 2 on time", "new_data: 1 on time"],
        "12:00": ["initial", "new_data: 1 on time"],
    }
    assert reasons(sessions)["11:48"] == ["initial", "new_data: 1 on time"], "another visitor has been corrected"
    assert sample.unlike_published() == []


def test_a_table_of_an_earlier_release_gets_the_columns_with_its_next_revision(lake: Lake) -> None:
    with without_spark():
        numbers = ScriptedNumbers(lake, hourly_metric("hourly", window={"size": "PT1H"}))
        numbers.at(1, 12)
        numbers.set_hours(1, {9: 5})
        numbers.publish()
        table = locations.gold(lake, numbers.series)
        stored = DeltaTable(table.address).to_pyarrow_table()
        shutil.rmtree(table.address)
        earlier = stored.drop_columns([column.name for column in WINDOW_COLUMNS])
        row_writer.append(table, earlier, partition_by=["event_date"])
        numbers.set_hours(1, {9: 6})
        numbers.publish(1)
    rows = DeltaTable(table.address).to_pyarrow_table().sort_by("revision").to_pylist()
    assert [(row["revision"], row["total"], row["window_reason"]) for row in rows] == [(1, 5, None), (2, 6, None)]
