"""The completeness of a period: the estimated share of its rows that has arrived, judged by the source's earlier periods.

The estimate is the share that earlier periods of the same length had at the same age. It covers only rows that arrive within
``horizon``. The interval is taken from order statistics; its coverage depends on the number of earlier periods. With fewer
than :data:`FEWEST` periods no estimate is given. The arrivals are read by ``measurement``.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import accumulate
from math import ceil, floor
from statistics import median
from typing import TYPE_CHECKING

from lakehouse.calendar.days import end_of_day

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime
    from zoneinfo import ZoneInfo

#: With fewer earlier periods no estimate is given.
FEWEST = 5
#: The greatest number of earlier periods, newest first, that are used, so that the estimate follows changes of the source.
MOST = 90
_COVERAGE = 0.9
_HOURS = 24
_PLACES = 10_000


@dataclass(frozen=True)
class Ages:
    """Cumulative row counts of a day by age: sorted ``hours`` after the end of the day, and in ``until`` the rows that had
    arrived by each.
    """

    hours: tuple[int, ...]
    until: tuple[int, ...]

    @classmethod
    def counted(cls, rows: Mapping[int, int]) -> Ages:
        """From the number of rows at each age."""
        hours = sorted(rows)
        return cls(tuple(hours), tuple(accumulate(rows[hour] for hour in hours)))

    def within(self, age: int) -> int:
        """The number of rows that had arrived by ``age``."""
        place = bisect_right(self.hours, age)
        return self.until[place - 1] if place else 0


NO_ROWS = Ages((), ())


@dataclass(frozen=True)
class Arrivals:
    """When the rows of a source arrived, by event day.

    ``first`` is the first event day that is included: rows of days before the first arrival day arrived as a backlog, which gives
    no information about ages, and days long past are left out. ``newest`` is the newest arrival: later times have no data,
    whatever the wall clock shows.
    """

    first: date
    newest: datetime
    days: Mapping[date, Ages] = field(default_factory=dict)


@dataclass(frozen=True)
class Estimate:
    """The share of a period's rows that had arrived, and an interval that contains the true share with probability
    ``coverage``.
    """

    share: float
    low: float
    high: float
    coverage: float
    periods: int
    age_hours: int
    horizon_hours: int


@dataclass(frozen=True)
class Unknown:
    """The reason why there is no estimate."""

    because: str


def estimate(days: Sequence[date], cutoff: datetime, arrivals: Arrivals, zone: ZoneInfo, follow_days: int) -> Estimate | Unknown:
    """The estimated share of the rows of consecutive days that had arrived by a time.

    :param days: the days of a period, in order.
    :param follow_days: for how long after the age earlier periods must have been observed.
    """
    length, end = len(days), end_of_day(days[-1], zone)
    age = floor((min(cutoff, arrivals.newest) - end).total_seconds() / 3600)
    if age <= -_HOURS * length:
        return Unknown("no row of the period has arrived yet")
    if days[0] < arrivals.first:
        return Unknown(f"arrivals are known only for event days from {arrivals.first} on")
    horizon = age + _HOURS * max(follow_days, 1)
    shares = _shares(_earlier(days[0], length, horizon, arrivals, zone), age, horizon, arrivals)
    if len(shares) < FEWEST:
        return Unknown(
            f"only {len(shares)} earlier {'periods' if length > 1 else 'days'} have been observed for {horizon} hours; "
            f"{FEWEST} are needed"
        )
    if not median(shares):
        return Unknown("at this age, most earlier periods had no rows yet")
    cut = max(floor((len(shares) + 1) * (1 - _COVERAGE) / 2), 1)  # the rank, from each end, of the share that is the bound
    return Estimate(
        share=round(median(shares), 4),
        low=floor(shares[cut - 1] * _PLACES) / _PLACES,
        high=ceil(shares[-cut] * _PLACES) / _PLACES,
        coverage=floor((len(shares) + 1 - 2 * cut) / (len(shares) + 1) * 100) / 100,
        periods=len(shares),
        age_hours=age,
        horizon_hours=horizon,
    )


def _earlier(before: date, length: int, horizon: int, arrivals: Arrivals, zone: ZoneInfo) -> list[list[date]]:
    """The periods of ``length`` days before a day, newest first, that were observed from their first day to the horizon."""
    periods: list[list[date]] = []
    last = before - timedelta(days=1)
    while len(periods) < MOST:
        start = last - timedelta(days=length - 1)
        if start < arrivals.first:
            break
        watched = (arrivals.newest - end_of_day(last, zone)).total_seconds() / 3600
        if watched >= horizon:
            periods.append([start + timedelta(days=offset) for offset in range(length)])
        last = start - timedelta(days=1)
    return periods


def _shares(periods: Sequence[Sequence[date]], age: int, horizon: int, arrivals: Arrivals) -> list[float]:
    """The share of each period's rows within the horizon that had arrived by the age; sorted."""
    shares = []
    for days in periods:
        last = days[-1]
        came = whole = 0
        for day in days:
            older = (last - day).days * _HOURS  # the age of a day is that of the period plus the days in between
            ages = arrivals.days.get(day, NO_ROWS)
            came += ages.within(age + older)
            whole += ages.within(horizon + older)
        if whole:
            shares.append(came / whole)
    return sorted(shares)
