"""When a file counts as arrived, and which days a window by the clock holds."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.calendar.days import arrived_at, rolling

UTC = ZoneInfo("UTC")
NOON = datetime(2024, 3, 5, 12, tzinfo=timezone.utc)


def test_a_file_of_today_arrived_when_it_was_taken_in() -> None:
    assert arrived_at(date(2024, 3, 5), NOON, UTC) == NOON
    assert arrived_at(date(2024, 3, 9), NOON, UTC) == NOON, "a name that runs ahead makes nothing fresher"


def test_an_old_day_that_is_caught_up_is_not_fresh() -> None:
    assert arrived_at(date(2024, 2, 28), NOON, UTC) == datetime(2024, 2, 29, tzinfo=timezone.utc)


def test_the_day_ends_by_the_clock_of_the_source() -> None:
    late = datetime(2024, 3, 6, 4, tzinfo=timezone.utc)  # 20:00 on the 5th in Los Angeles
    assert arrived_at(date(2024, 3, 5), late, ZoneInfo("America/Los_Angeles")) == late
    assert arrived_at(date(2024, 3, 5), late, UTC) == datetime(2024, 3, 6, tzinfo=timezone.utc)


@given(st.dates(date(2000, 1, 1), date(2100, 1, 1)), st.integers(1, 60), st.integers(0, 60))
def test_a_rolling_window_is_complete_and_ends_at_its_delay(today: date, days: int, delay: int) -> None:
    window = rolling(today, days, delay)
    assert window == sorted(set(window))
    assert len(window) == days
    assert today - window[-1] == timedelta(days=delay)
    assert today - window[0] == timedelta(days=delay + days - 1)
