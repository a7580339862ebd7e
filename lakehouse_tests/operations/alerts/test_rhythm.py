"""The rhythm of arrivals, against a model that counts minutes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts.alerts import Rhythm
from lakehouse.operations.alerts import rules

UTC, BERLIN = ZoneInfo("UTC"), ZoneInfo("Europe/Berlin")
MONDAY = datetime(2024, 1, 1, tzinfo=timezone.utc)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
TERMS = Rhythm()


def daily(days: int, *hours: int, weekdays: range = range(7)) -> list[datetime]:
    """Arrivals at some hours of each day."""
    every = [MONDAY + number * DAY for number in range(days)]
    return [day + hour * HOUR for day in every if day.weekday() in weekdays for hour in hours]


def test_a_daily_source_is_silent_after_two_days() -> None:
    moments = daily(14, 6)
    assert rules.too_long(moments, moments[-1] + 2 * DAY, UTC, TERMS) is None, "twice is not more than twice"
    pause = rules.too_long(moments, moments[-1] + 2 * DAY + MINUTE, UTC, TERMS)
    assert pause is not None
    assert (pause.since, pause.length, pause.usual, pause.days) == (moments[-1], 2 * DAY + MINUTE, DAY, 13)


def test_hundreds_of_files_at_once_do_not_hide_the_daily_rhythm() -> None:
    burst = [moment + second * timedelta(seconds=1) for moment in daily(14, 6) for second in range(300)]
    assert rules.too_long(burst, burst[-1] + 30 * HOUR, UTC, TERMS) is None
    assert rules.too_long(burst, burst[-1] + 49 * HOUR, UTC, TERMS) is not None


def test_nights_are_part_of_the_rhythm_and_one_bad_day_is_not() -> None:
    by_day = daily(20, *range(8, 20))
    night = by_day[-1] + 20 * HOUR
    assert rules.too_long(by_day, night, UTC, TERMS) is None
    broken = [moment for moment in by_day if not 5 <= (moment - MONDAY).days <= 6]
    pause = rules.too_long(broken, by_day[-1] + 27 * HOUR, UTC, TERMS)
    assert pause is not None
    assert pause.usual == 13 * HOUR, "from 19 to 8 o'clock; the outage of two days does not count"


def test_weekends_do_not_alarm_a_source_that_never_sends_then() -> None:
    moments = daily(19, 6, weekdays=range(5))  # through a Friday
    assert moments[-1].weekday() == 4
    assert rules.too_long(moments, moments[-1] + 3 * DAY + 23 * HOUR, UTC, TERMS) is None, "two weekdays without it"
    pause = rules.too_long(moments, moments[-1] + 4 * DAY + MINUTE, UTC, TERMS)
    assert pause is not None
    assert (pause.length, pause.weekdays) == (2 * DAY + MINUTE, {0, 1, 2, 3, 4})
    with_saturday = [*moments, MONDAY + 5 * DAY]
    assert rules.too_long(with_saturday, moments[-1] + 3 * DAY + HOUR, UTC, TERMS) is None, "its Sundays are silent"


def test_too_few_days_make_no_rhythm_and_old_ones_are_forgotten() -> None:
    assert rules.too_long([], MONDAY, UTC, TERMS) is None
    few = daily(5, 6)
    assert rules.too_long(few, few[-1] + 90 * DAY, UTC, TERMS) is None, "four pauses"
    assert rules.too_long(daily(6, 6), few[-1] + 90 * DAY, UTC, TERMS) is not None
    hourly_since = [*daily(30, 6), *(MONDAY + 30 * DAY + hour * HOUR for hour in range(30 * 24))]
    pause = rules.too_long(hourly_since, hourly_since[-1] + 3 * HOUR, UTC, TERMS)
    assert pause is not None
    assert pause.usual == HOUR


def test_what_lies_ahead_of_the_clock_has_not_happened() -> None:
    moments = [*daily(14, 6), MONDAY + 900 * DAY]
    assert rules.too_long(moments, MONDAY + 16 * DAY, UTC, TERMS) is not None


@given(st.integers(0, 60 * 24 * 400), st.integers(0, 60 * 24 * 9), st.sets(st.integers(0, 6)), st.sampled_from([UTC, BERLIN]))
def test_time_is_counted_minute_by_minute(begin: int, length: int, weekdays: set[int], zone: ZoneInfo) -> None:
    start = MONDAY + begin * MINUTE
    model = sum((start + minute * MINUTE).astimezone(zone).weekday() in weekdays for minute in range(length))
    assert rules.counted(start, start + length * MINUTE, zone, weekdays) == model * MINUTE
