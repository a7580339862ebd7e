"""The periods that numbers are published for: days, ISO weeks, months, quarters, fiscal quarters and fiscal years.

Only the calendar is here; when a period's number is final is said in ``publishing``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_MONTHS = 12
_QUARTER = 3


class Kind(str, Enum):
    """A length of period; the value is what contracts say, and ``suffix`` ends the name of its table."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    FISCAL_QUARTER = "fiscal_quarter"
    FISCAL_YEAR = "fiscal_year"

    @property
    def suffix(self) -> str:
        """The end of the table's name: ``revenue_weekly``."""
        return _SUFFIXES[self]

    @property
    def column(self) -> str:
        """The column that holds a period's first day."""
        return "event_date" if self is Kind.DAY else "period_start"


_SUFFIXES = {
    Kind.DAY: "",
    Kind.WEEK: "_weekly",
    Kind.MONTH: "_monthly",
    Kind.QUARTER: "_quarterly",
    Kind.FISCAL_QUARTER: "_fiscal_quarterly",
    Kind.FISCAL_YEAR: "_fiscal_yearly",
}
_NAMES = {
    Kind.DAY: re.compile(r"(\d{4})-(\d\d)-(\d\d)"),
    Kind.WEEK: re.compile(r"(\d{4})-W(\d\d)"),
    Kind.MONTH: re.compile(r"(\d{4})-(\d\d)"),
    Kind.QUARTER: re.compile(r"(\d{4})-Q([1-4])"),
    Kind.FISCAL_QUARTER: re.compile(r"FY(\d{4})-Q([1-4])"),
    Kind.FISCAL_YEAR: re.compile(r"FY(\d{4})"),
}
KNOWN_NAMES = "2024-01-15, 2024-W03, 2024-01, 2024-Q1, FY2024-Q1, FY2024"


class UnknownPeriodError(Exception):
    """A text that names no period. Its text says which texts do."""


@dataclass(frozen=True, order=True)
class Period:
    """One period: its first day, and the day behind its last one."""

    start: date
    end: date
    kind: Kind
    name: str

    @property
    def last(self) -> date:
        """The last day of the period."""
        return self.end - timedelta(days=1)

    @property
    def days(self) -> list[date]:
        """Every day of the period."""
        return [self.start + timedelta(days=offset) for offset in range((self.end - self.start).days)]


def containing(day: date, kind: Kind, fiscal_start: int = 1) -> Period:
    """The period of a kind that a day lies in.

    :param fiscal_start: the month that the fiscal year begins with; the year is named after the one in which it ends.
    """
    if kind is Kind.DAY:
        return Period(day, day + timedelta(days=1), kind, day.isoformat())
    if kind is Kind.WEEK:  # ISO 8601: weeks begin on Monday, and belong to the year of their Thursday
        start = day - timedelta(days=day.weekday())
        year, week, _ = day.isocalendar()
        return Period(start, start + timedelta(days=7), kind, f"{year:04}-W{week:02}")
    if kind is Kind.MONTH:
        start = day.replace(day=1)
        return Period(start, _months_on(start, 1), kind, start.isoformat()[:7])
    first_month = fiscal_start if kind in (Kind.FISCAL_QUARTER, Kind.FISCAL_YEAR) else 1
    into_year = (day.month - first_month) % _MONTHS
    year_start = _months_on(day.replace(day=1), -into_year)
    fiscal_year = _months_on(year_start, _MONTHS - 1).year
    if kind is Kind.FISCAL_YEAR:
        return Period(year_start, _months_on(year_start, _MONTHS), kind, f"FY{fiscal_year:04}")
    quarter = into_year // _QUARTER
    start = _months_on(year_start, quarter * _QUARTER)
    prefix = f"FY{fiscal_year:04}" if kind is Kind.FISCAL_QUARTER else f"{year_start.year:04}"
    return Period(start, _months_on(start, _QUARTER), kind, f"{prefix}-Q{quarter + 1}")


def covering(days: Collection[date], kind: Kind, fiscal_start: int = 1) -> list[Period]:
    """The periods of a kind that some days lie in, in order, each once."""
    return sorted({containing(day, kind, fiscal_start) for day in days})


def parse(text: str, fiscal_start: int = 1) -> Period:
    """The period of a name.

    :raises UnknownPeriodError: for a text that names none.
    """
    for kind, pattern in _NAMES.items():
        found = pattern.fullmatch(text.strip())
        if found:
            try:
                return containing(_day_in(kind, [int(part) for part in found.groups()], fiscal_start), kind, fiscal_start)
            except (ValueError, OverflowError) as problem:  # also the end of the calendar
                msg = f"{text!r} is no period: {problem}"
                raise UnknownPeriodError(msg) from None
    msg = f"{text!r} is no period; periods are named as in {KNOWN_NAMES}"
    raise UnknownPeriodError(msg)


def _day_in(kind: Kind, numbers: list[int], fiscal_start: int) -> date:
    """A day of the period that the numbers of its name tell."""
    if kind is Kind.DAY:
        return date(*numbers)
    if kind is Kind.WEEK:
        return date.fromisocalendar(numbers[0], numbers[1], 1)
    if kind is Kind.MONTH:
        return date(numbers[0], numbers[1], 1)
    year, quarter = numbers[0], (numbers[1] if len(numbers) > 1 else 1)
    if kind is Kind.QUARTER:
        return date(year, (quarter - 1) * _QUARTER + 1, 1)
    year_start = _months_on(date(year, fiscal_start, 1), 0 if fiscal_start == 1 else -_MONTHS)
    return _months_on(year_start, (quarter - 1) * _QUARTER)


def _months_on(first: date, months: int) -> date:
    """The first of the month so many months on."""
    count = first.year * _MONTHS + first.month - 1 + months
    return date(count // _MONTHS, count % _MONTHS + 1, 1)
