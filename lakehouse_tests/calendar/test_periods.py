"""Periods tile the calendar, and a name means one of them; fiscal years are worked out here month by month.

The calendar's own ends are part of it: a name is four digits of year, and a name outside the calendar is refused with a message.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.calendar.periods import KNOWN_NAMES, Calendar, Kind, UnknownPeriodError, checked_cron

DAYS = st.one_of(st.dates(date(3, 1, 1), date(9997, 12, 31)), st.dates(date(1990, 1, 1), date(2040, 12, 31)))
KINDS = st.sampled_from(Kind)
STARTS = st.integers(1, 12)


@given(DAYS, KINDS, STARTS)
def test_a_day_lies_in_its_period_and_every_day_of_it_in_the_same(day: date, kind: Kind, starts: int) -> None:
    period = Calendar(starts).containing(day, kind)
    assert period.start <= day <= period.last < period.end
    assert day in period.days
    assert period.days == sorted(set(period.days))
    assert len(period.days) == (period.end - period.start).days
    for other in (period.start, period.last, day):
        assert Calendar(starts).containing(other, kind) == period
    assert Calendar(starts).covering(period.days, kind) == [period]


@given(DAYS, KINDS, STARTS)
def test_periods_tile_the_calendar(day: date, kind: Kind, starts: int) -> None:
    period = Calendar(starts).containing(day, kind)
    after, before = (
        Calendar(starts).containing(period.end, kind),
        Calendar(starts).containing(period.start - timedelta(days=1), kind),
    )
    assert after.start == period.end
    assert before.end == period.start
    assert len({before.name, period.name, after.name}) == 3
    around = [period.end, day, before.start, before.start]
    assert Calendar(starts).covering(around, kind) == [before, period, after]


@given(DAYS, KINDS, STARTS)
def test_a_name_is_read_back_as_the_same_period(day: date, kind: Kind, starts: int) -> None:
    period = Calendar(starts).containing(day, kind)
    assert Calendar(starts).parse(period.name) == Calendar(starts).parse(f" {period.name}\n") == period


@given(DAYS)
def test_the_calendars_own_periods(day: date) -> None:
    week, month, quarter = (Calendar(7).containing(day, kind) for kind in (Kind.WEEK, Kind.MONTH, Kind.QUARTER))
    thursday = week.start + timedelta(days=3)
    assert week.start.isoweekday() == 1
    assert len(week.days) == 7
    assert week.name == f"{thursday.year:04}-W{(thursday.timetuple().tm_yday - 1) // 7 + 1:02}"
    assert (month.start, month.last) == (
        date(day.year, day.month, 1),
        date(day.year, day.month, monthrange(day.year, day.month)[1]),
    )
    assert month.name == f"{day}"[:7]
    assert quarter.name == f"{day.year:04}-Q{'111222333444'[day.month - 1]}"
    assert quarter.start.day == 1
    assert {one.month for one in quarter.days} == set(range(quarter.start.month, quarter.start.month + 3))


@pytest.mark.parametrize(
    ("day", "name", "start"),
    [
        (date(2021, 1, 3), "2020-W53", date(2020, 12, 28)),
        (date(2021, 1, 4), "2021-W01", date(2021, 1, 4)),
        (date(2024, 12, 29), "2024-W52", date(2024, 12, 23)),
        (date(2024, 12, 30), "2025-W01", date(2024, 12, 30)),
        (date(2027, 1, 3), "2026-W53", date(2026, 12, 28)),
        (date(2023, 1, 1), "2022-W52", date(2022, 12, 26)),
    ],
)
def test_weeks_at_the_edges_of_years(day: date, name: str, start: date) -> None:
    week = Calendar().containing(day, Kind.WEEK)
    assert (week.name, week.start) == (name, start)
    assert Calendar().parse(name) == week


@given(DAYS, STARTS)
def test_fiscal_years_are_named_after_the_year_in_which_they_end(day: date, starts: int) -> None:
    # Walk back, month by month, to the one that the fiscal year begins with; the last of its twelve is eleven on.
    year, month, back = day.year, day.month, 0
    while month != starts:
        month, year, back = (month - 1, year, back + 1) if month > 1 else (12, year - 1, back + 1)
    begins = date(year, month, 1)
    ends_in = year if month == 1 else year + 1
    fiscal = Calendar(starts).containing(day, Kind.FISCAL_YEAR)
    assert (fiscal.start, fiscal.name) == (begins, f"FY{ends_in:04}")
    assert fiscal.last.year == ends_in
    assert len({(one.year, one.month) for one in fiscal.days}) == 12
    quarter = Calendar(starts).containing(day, Kind.FISCAL_QUARTER)
    assert quarter.name == f"FY{ends_in:04}-Q{back // 3 + 1}"
    assert {quarter.start, quarter.last} <= set(fiscal.days)
    assert len({(one.year, one.month) for one in quarter.days}) == 3
    assert (quarter.start.month - starts) % 3 == 0


@given(DAYS, STARTS)
def test_four_quarters_make_a_year(day: date, starts: int) -> None:
    whole = Calendar(starts).containing(day, Kind.FISCAL_YEAR)
    parts = Calendar(starts).covering(whole.days, Kind.FISCAL_QUARTER)
    assert [part.name for part in parts] == [f"{whole.name}-Q{number}" for number in (1, 2, 3, 4)]
    assert (parts[0].start, parts[-1].end) == (whole.start, whole.end)


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "2024", "24-01-15", "2024-1-5", "2024-01-15T00:00", "2024-Q5", "2024-Q0", "2024-W3", "W03-2024"),
        *("FY24", "FY2024-Q5", "fy2024", "2024-01-15-16", "2024--01", "2024-01-15.r2"),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_forms(text: str) -> None:
    with pytest.raises(UnknownPeriodError) as told:
        Calendar().parse(text)
    assert f"{told.value}" == f"{text!r} is no period; periods are named as in {KNOWN_NAMES}"


@pytest.mark.parametrize(
    "text",
    ["2023-02-29", "2024-13", "2024-00-01", "2024-W54", "2021-W53", "2024-W00", "0000-01-01", "9999-12-31", "9999-12", "9999-Q4"],
)
@pytest.mark.parametrize("starts", [1, 4])
def test_a_period_name_outside_the_calendar_is_refused_with_the_reason(text: str, starts: int) -> None:
    with pytest.raises(UnknownPeriodError, match=f"^'{text}' is no period: \\w"):
        Calendar(starts).parse(text)


@given(st.text(max_size=12), STARTS)
def test_any_text_is_a_period_or_is_refused(text: str, starts: int) -> None:
    try:
        period = Calendar(starts).parse(text)
    except UnknownPeriodError:
        return
    assert Calendar(starts).parse(period.name) == period


@given(st.from_regex(r"(FY)?[0-9]{4}(-[QW]?[0-9]{1,2}){0,2}", fullmatch=True), STARTS)
def test_any_text_like_a_name_is_a_period_or_is_refused(text: str, starts: int) -> None:
    try:
        period = Calendar(starts).parse(text)
    except UnknownPeriodError:
        return
    assert period.name == text


def test_each_example_of_a_name_is_one() -> None:
    kinds = [Calendar().parse(name).kind for name in KNOWN_NAMES.split(", ")]
    assert kinds == [*Kind]
    assert [kind.column for kind in kinds] == ["event_date", *["period_start"] * 5]
    assert len({kind.suffix for kind in kinds}) == 6


@given(st.dates(date(1990, 1, 1), date(2040, 12, 31)), KINDS, STARTS)
def test_the_cron_expression_of_a_kind_names_the_days_on_which_its_periods_start(day: date, kind: Kind, starts: int) -> None:
    """So orchestration's partitions are the periods that numbers are published for."""
    calendar = Calendar(starts)
    minute, hour, of_month, months, of_week = calendar.cron(kind).split()
    assert (minute, hour) == ("0", "0")
    matches = (
        of_month in ("*", f"{day.day}")
        and (months == "*" or f"{day.month}" in months.split(","))
        and of_week in ("*", f"{day.isoweekday()}")
    )
    assert matches == (calendar.containing(day, kind).start == day)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *(("2024-W03", "2024-W03"), ("2024-w3", "2024-W03"), ("2024W03", "2024-W03"), ("2024 w3", "2024-W03")),
        *(
            ("2024q1", "2024-Q1"),
            ("2024-q1", "2024-Q1"),
            ("fy2024", "FY2024"),
            ("FY2024Q3", "FY2024-Q3"),
            (" fy2024-q3 ", "FY2024-Q3"),
        ),
        *(("2024-1", "2024-01"), ("2024/1", "2024-01"), ("2024-1-5", "2024-01-05"), ("2024/01/15", "2024-01-15")),
    ],
)
def test_a_period_as_a_person_writes_it(text: str, name: str) -> None:
    assert Calendar(4).read(text) == Calendar(4).parse(name)


@given(DAYS, STARTS, st.sampled_from(Kind))
def test_a_name_means_the_period_that_has_it(day: date, starts: int, kind: Kind) -> None:
    period = Calendar(starts).containing(day, kind)
    assert Calendar(starts).read(period.name) == period
    assert Calendar(starts).read(period.name.lower()) == period


@pytest.mark.parametrize(
    "text", ["2024-1-32", "2024-w60", "2024/13", "2024q5", "yesterday", "24-1-5", "202401", "2024", "FY2024-1"]
)
def test_a_text_that_means_no_period_is_shown_as_it_was_written(text: str) -> None:
    with pytest.raises(UnknownPeriodError, match=f"^'{text}' is no period"):
        Calendar().read(text)


@pytest.mark.parametrize(
    "text", ["0 0 1 1 0", "59 23 31 12 7", "*/59 0-23 1-31/2 1,12 0-7", "0 0 30 4,5 *", "0 0 31 2,3 *", "0 0 29 2 *"]
)
def test_each_field_goes_from_its_first_to_its_last_value(text: str) -> None:
    assert checked_cron(text) == text


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("60 0 1 1 0", "goes from 0 to 59"),
        ("0 24 1 1 0", "goes from 0 to 23"),
        ("0 0 0 1 0", "goes from 1 to 31"),
        ("0 0 32 1 0", "goes from 1 to 31"),
        ("0 0 1 0 0", "goes from 1 to 12"),
        ("0 0 1 13 0", "goes from 1 to 12"),
        ("0 0 1 1 8", "goes from 0 to 7"),
        ("0 0 30 2 *", "none of these months has that day"),
        *((f"0 0 31 {month} *", "none of these months has that day") for month in (2, 4, 6, 9, 11)),
    ],
)
def test_nothing_beyond_is_taken(text: str, mistake: str) -> None:
    with pytest.raises(ValueError, match=mistake):
        checked_cron(text)
