"""The share of a period that has arrived: against a plain count, and never more than the data supports."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from math import floor
from statistics import median
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.calendar.days import end_of_day
from lakehouse.lateness.completeness import FEWEST, Ages, Arrivals, Estimate, Unknown, estimate

UTC = ZoneInfo("UTC")
FIRST = date(2024, 1, 1)


def day(number: int) -> date:
    return FIRST + timedelta(days=number)


def arrivals(days: dict[date, dict[int, int]], newest: datetime) -> Arrivals:
    return Arrivals(FIRST, newest, {one: Ages.counted(rows) for one, rows in days.items()})


def same(count: int, rows: dict[int, int], newest: int) -> Arrivals:
    """A number of equal days; the newest arrival is a number of days after the first day's end."""
    return arrivals({day(number): rows for number in range(count)}, end_of_day(day(newest), UTC))


def share_and_interval(estimated: Estimate | Unknown) -> tuple[float, float, float]:
    assert isinstance(estimated, Estimate), estimated
    return estimated.share, estimated.low, estimated.high


def test_half_of_each_day_comes_on_the_day() -> None:
    arrived = same(30, {-5: 50, 20: 40, 60: 10}, 30)
    known = end_of_day(day(30), UTC)
    assert share_and_interval(estimate([day(30)], known, arrived, UTC, 7)) == (0.5, 0.5, 0.5)
    assert share_and_interval(estimate([day(29)], known, arrived, UTC, 7)) == (0.9, 0.9, 0.9)
    assert share_and_interval(estimate([day(27)], known, arrived, UTC, 7)) == (1, 1, 1)
    of_today = estimate([day(30)], known, arrived, UTC, 7)
    assert isinstance(of_today, Estimate)
    beside = of_today.periods + 1  # of so many equally likely places of a further share, two lie outside of the interval
    assert of_today.coverage == floor(100 * (beside - 2) / beside) / 100


def test_a_silent_source_makes_nothing_more_complete() -> None:
    arrived = same(30, {-5: 50, 20: 50}, 30)
    later = end_of_day(day(40), UTC)
    assert share_and_interval(estimate([day(30)], later, arrived, UTC, 7)) == (0.5, 0.5, 0.5)


def test_rows_after_the_horizon_are_not_estimated() -> None:
    arrived = same(40, {1: 50, 24 * 20: 50}, 40)
    found = estimate([day(39)], end_of_day(day(40), UTC), arrived, UTC, 7)
    assert isinstance(found, Estimate)
    assert (found.share, found.horizon_hours) == (1, 24 + 7 * 24), "of the rows that come within eight days"


def test_the_backlog_of_the_first_file_is_no_history() -> None:
    backlog = {FIRST - timedelta(days=offset): {24 * offset: 10} for offset in range(1, 50)}
    found = estimate([day(3)], end_of_day(day(3), UTC), arrivals(backlog, end_of_day(day(3), UTC)), UTC, 1)
    assert isinstance(found, Unknown)
    assert found.because.startswith("only 0 earlier days have been observed")
    before = estimate([day(-1)], end_of_day(day(3), UTC), arrivals(backlog, end_of_day(day(3), UTC)), UTC, 1)
    assert before == Unknown("arrivals are known only for event days from 2024-01-01 on")


def test_what_has_not_begun_and_what_is_too_young() -> None:
    arrived = same(10, {0: 1}, 9)
    nothing = Unknown("no row of the period has arrived yet")
    assert estimate([day(12)], end_of_day(day(9), UTC), arrived, UTC, 1) == nothing
    assert estimate([day(10)], end_of_day(day(9), UTC), arrived, UTC, 1) == nothing, "the day begins now"
    found = estimate([day(9)], end_of_day(day(9), UTC), arrived, UTC, 6)
    assert isinstance(found, Unknown)
    assert found.because == "only 4 earlier days have been observed for 144 hours; 5 are needed"


def test_weeks_are_held_against_weeks() -> None:
    arrived = same(77, {-5: 50, 30: 50}, 76)
    week = [day(number) for number in range(70, 77)]
    five_of_seven = round((7 * 50 + 5 * 50) / (7 * 100), 4)  # the second half of the last two days has not come
    share, low, high = share_and_interval(estimate(week, end_of_day(day(76), UTC), arrived, UTC, 7))
    assert share == five_of_seven
    assert low <= share <= high <= low + 0.0001
    short = estimate(week, end_of_day(day(76), UTC), same(77, {0: 1}, 76), UTC, 30)
    assert isinstance(short, Estimate)
    assert short.periods == 6


def test_a_day_ends_at_the_midnight_of_its_zone() -> None:
    assert end_of_day(date(2024, 3, 31), ZoneInfo("Europe/Berlin")) == datetime(2024, 3, 31, 22, tzinfo=timezone.utc)


HISTORIES = st.lists(st.dictionaries(st.integers(-23, 400), st.integers(1, 9), max_size=5), min_size=1, max_size=60)


@given(history=HISTORIES, hours=st.integers(-23, 300), follow=st.integers(1, 10))
def test_against_a_plain_count(history: list[dict[int, int]], hours: int, follow: int) -> None:
    """Of one day: the shares of all days before it that were watched long enough, counted row by row."""
    asked = day(len(history))
    newest = end_of_day(asked, UTC) + timedelta(hours=hours)
    arrived = arrivals({day(number): rows for number, rows in enumerate(history)}, newest)
    estimated = estimate([asked], newest, arrived, UTC, follow)
    horizon = hours + 24 * follow
    shares = []
    for number, rows in enumerate(history):
        age = (newest - end_of_day(day(number), UTC)).total_seconds() / 3600
        ages = [hour for hour, count in rows.items() for _ in range(count) if hour <= horizon]
        if age >= horizon and ages:
            shares.append(sum(hour <= hours for hour in ages) / len(ages))
    if len(shares) < FEWEST or not median(shares):
        assert isinstance(estimated, Unknown)
        return
    assert isinstance(estimated, Estimate)
    assert estimated.periods == len(shares)
    assert abs(estimated.share - median(shares)) < 1e-4
    assert 0 <= estimated.low <= estimated.high <= 1
    within = sum(estimated.low - 1e-9 <= share <= estimated.high + 1e-9 for share in shares) / len(shares)
    assert estimated.coverage <= (len(shares) - 1) / (len(shares) + 1)
    assert within >= estimated.coverage - 1e-9, "the interval held at least that share of what was seen"
