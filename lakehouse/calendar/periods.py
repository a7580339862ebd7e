"""The periods that numbers are published for: days, ISO weeks, months, quarters, fiscal quarters and fiscal years.

The start of weeks and fiscal years is defined only by a :class:`Calendar`. When a day starts is defined in ``days``, when
the number of a period is final in ``gold.numbers.lifecycle``. Here is also the check of the cron expressions in contracts and
settings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from enum import Enum
from typing import TYPE_CHECKING

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Collection

_MONTHS = 12
_QUARTER = 3
_CRON_PART = re.compile(r"(?:\*|(\d+)(?:-(\d+))?)(?:/(\d+))?")
#: Minute, hour, day of the month, month, weekday (Sunday is 0 and 7), as in cron.
_CRON_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_LONGEST = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}


class Kind(str, Enum):
    """A length of period; the value is its name in contracts, and ``suffix`` ends the name of its table."""

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
_WRITTEN = re.compile(
    r"(?P<year>(?:FY)?[0-9]{4})"
    r"(?:[-/ ]?(?P<letter>[WQ])(?P<number>[0-9]{1,2})|[-/](?P<month>[0-9]{1,2})(?:[-/](?P<day>[0-9]{1,2}))?)?"
)
#: The texts that may mean a period, for URLs.
PATTERN = "([Ff][Yy])?[0-9]{4}([-/ ]?[WwQq][0-9]{1,2}|[-/][0-9]{1,2}([-/][0-9]{1,2})?)?"
KNOWN_NAMES = "2024-01-15, 2024-W03, 2024-01, 2024-Q1, FY2024-Q1, FY2024"


class UnknownPeriodError(LakehouseError):
    """A text that is no name of a period. The message lists the valid forms."""


@dataclass(frozen=True, order=True)
class Period:
    """One period: its first day, and the day after its last one."""

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


@dataclass(frozen=True)
class Calendar:
    """The division of time into periods by a metric. Everything that depends on the start of weeks and fiscal years is in this
    class.

    :param fiscal_start: the month that the fiscal year starts with; the year is named after the one in which it ends.
    """

    fiscal_start: int = 1

    def containing(self, day: date, kind: Kind) -> Period:
        """The period of ``kind`` that contains ``day``."""
        if kind is Kind.DAY:
            return Period(day, day + timedelta(days=1), kind, day.isoformat())
        if kind is Kind.WEEK:  # ISO 8601: weeks start on Monday, and belong to the year of their Thursday
            start = day - timedelta(days=day.weekday())
            year, week, _ = day.isocalendar()
            return Period(start, start + timedelta(days=7), kind, f"{year:04}-W{week:02}")
        if kind is Kind.MONTH:
            start = day.replace(day=1)
            return Period(start, _months_on(start, 1), kind, start.isoformat()[:7])
        first_month = self.fiscal_start if kind in (Kind.FISCAL_QUARTER, Kind.FISCAL_YEAR) else 1
        into_year = (day.month - first_month) % _MONTHS
        year_start = _months_on(day.replace(day=1), -into_year)
        fiscal_year = _months_on(year_start, _MONTHS - 1).year
        if kind is Kind.FISCAL_YEAR:
            return Period(year_start, _months_on(year_start, _MONTHS), kind, f"FY{fiscal_year:04}")
        quarter = into_year // _QUARTER
        start = _months_on(year_start, quarter * _QUARTER)
        prefix = f"FY{fiscal_year:04}" if kind is Kind.FISCAL_QUARTER else f"{year_start.year:04}"
        return Period(start, _months_on(start, _QUARTER), kind, f"{prefix}-Q{quarter + 1}")

    def covering(self, days: Collection[date], kind: Kind) -> list[Period]:
        """The periods of ``kind`` that contain ``days``, in order, each once."""
        return sorted({self.containing(day, kind) for day in days})

    def read(self, text: str) -> Period:
        """The period that a person means by ``text``: its name, also as 2024-w3, 2024Q1, fy2024q1, 2024-1-5 or 2024/01/15.

        :raises UnknownPeriodError: for a text that means no period. The message quotes the text unchanged.
        """
        return self._named(_as_name(text), text)

    def parse(self, text: str) -> Period:
        """The period named ``text``.

        :raises UnknownPeriodError: for a text that names no period.
        """
        return self._named(text.strip(), text)

    def _named(self, name: str, text: str) -> Period:
        """The period named ``name``; errors quote ``text``, the name as it was written."""
        for kind, pattern in _NAMES.items():
            match = pattern.fullmatch(name)
            if match:
                try:
                    return self.containing(self._day_in(kind, [int(part) for part in match.groups()]), kind)
                except (ValueError, OverflowError) as problem:  # also the end of the calendar
                    msg = f"{text!r} is no period: {problem}"
                    raise UnknownPeriodError(msg) from None
        msg = f"{text!r} is no period; periods are named as in {KNOWN_NAMES}"
        raise UnknownPeriodError(msg)

    def cron(self, kind: Kind) -> str:
        """The cron expression of the midnights at which periods of ``kind`` start."""
        fiscal_quarters = sorted((self.fiscal_start - 1 + month) % _MONTHS + 1 for month in range(0, _MONTHS, _QUARTER))
        return {
            Kind.DAY: "0 0 * * *",
            Kind.WEEK: "0 0 * * 1",
            Kind.MONTH: "0 0 1 * *",
            Kind.QUARTER: "0 0 1 1,4,7,10 *",
            Kind.FISCAL_QUARTER: f"0 0 1 {','.join(map(str, fiscal_quarters))} *",
            Kind.FISCAL_YEAR: f"0 0 1 {self.fiscal_start} *",
        }[kind]

    def _day_in(self, kind: Kind, numbers: list[int]) -> date:
        """A day of the period with these numbers in its name."""
        if kind is Kind.DAY:
            return date(*numbers)
        if kind is Kind.WEEK:
            return date.fromisocalendar(numbers[0], numbers[1], 1)
        if kind is Kind.MONTH:
            return date(numbers[0], numbers[1], 1)
        year, quarter = numbers[0], (numbers[1] if len(numbers) > 1 else 1)
        if kind is Kind.QUARTER:
            return date(year, (quarter - 1) * _QUARTER + 1, 1)
        year_start = _months_on(date(year, self.fiscal_start, 1), 0 if self.fiscal_start == 1 else -_MONTHS)
        return _months_on(year_start, (quarter - 1) * _QUARTER)


def _as_name(text: str) -> str:
    """The period name for a text with other letter case or separators, or without leading zeros; any other text unchanged."""
    match = _WRITTEN.fullmatch(text.strip().upper())
    if match is None:
        return text.strip()
    year, letter, number, month, day = match.group("year", "letter", "number", "month", "day")
    if letter:
        return f"{year}-{letter}{number if letter == 'Q' else f'{number:0>2}'}"
    return "-".join([year, *(f"{part:0>2}" for part in (month, day) if part)])


def _months_on(first: date, months: int) -> date:
    """The first day of the month that is ``months`` later."""
    count = first.year * _MONTHS + first.month - 1 + months
    return date(count // _MONTHS, count % _MONTHS + 1, 1)


def checked_cron(text: str) -> str:
    """A cron expression with five numeric fields, in canonical form.

    :raises ValueError: if it is none, or selects no day.
    """
    fields = text.split()
    if len(fields) != len(_CRON_BOUNDS):
        msg = f"{text!r}: five fields are needed (minute, hour, day, month, weekday), as in '0 3 * * *' for 03:00"
        raise ValueError(msg)
    _, _, days, months, _ = (_cron_values(field, *bounds) for field, bounds in zip(fields, _CRON_BOUNDS))
    if min(days) > max(_LONGEST.get(month, 31) for month in months):
        msg = f"{text!r}: none of these months has that day"
        raise ValueError(msg)
    return " ".join(fields)


def _cron_values(field: str, lowest: int, highest: int) -> set[int]:
    """The values selected by a field of a cron expression."""
    values: set[int] = set()
    for part in field.split(","):
        match = _CRON_PART.fullmatch(part)
        if match is None:
            msg = f"{part!r} is neither *, a number, a range such as 1-5, nor one of these with a step such as */15"
            raise ValueError(msg)
        first = lowest if match[1] is None else int(match[1])
        last = int(match[2]) if match[2] else highest if match[1] is None or match[3] else first
        step = int(match[3] or 1)
        if not lowest <= first <= last <= highest or not step:
            msg = f"{part!r} is out of range; this field goes from {lowest} to {highest}"
            raise ValueError(msg)
        values |= set(range(first, last + 1, step))
    return values
