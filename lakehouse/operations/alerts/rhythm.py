"""The rhythm of something that happens again and again: how long it usually pauses within a day.

Belongs here: how long a pause is, which pauses are usual, and whether the present one is longer. Weekdays on which nothing has
ever happened do not count, so that no source is silent because of a weekend. What happens (an arrival, a move of the event-time
watermark) and the sentences about it are in ``input_rules``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta, timezone
from itertools import pairwise
from typing import TYPE_CHECKING

from lakehouse.calendar.event_day import business_day_of, end_of_day, start_of_day
from lakehouse.lateness.rules import nearest_rank

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import date, datetime
    from zoneinfo import ZoneInfo

    from lakehouse.contracts.alerts import Rhythm

#: The share of days whose longest pause is usual: one bad day in ten does not change the rhythm.
_SHARE = "0.9"
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Pause:
    """A pause that is longer than usual.

    :param since: when something happened last.
    :param length: how long ago that is, without the weekdays that do not count.
    :param usual: the longest pause of a usual day.
    :param days: how many days it was measured on.
    :param weekdays: those that count, Monday is 0.
    """

    since: datetime
    length: timedelta
    usual: timedelta
    days: int
    weekdays: Collection[int]


def too_long(moments: Iterable[datetime], now: datetime, zone: ZoneInfo, terms: Rhythm) -> Pause | None:
    """The pause since the newest of some moments, if it is longer than usual.

    A pause counts for the day on which it ends. With fewer than ``terms.needs`` days nothing is judged.

    :param moments: when something happened, in any order; those after ``now`` have not happened yet.
    """
    happened = sorted(moment for moment in set(moments) if moment <= now)
    if not happened:
        return None
    since = happened[-1]
    recent = [moment for moment in happened if moment > since - terms.days * _DAY]
    weekdays = {business_day_of(moment, zone).weekday() for moment in recent}
    by_day: dict[date, timedelta] = {}
    for before, after in pairwise(recent):
        day = business_day_of(after, zone)
        by_day[day] = max(by_day.get(day, timedelta(0)), counted(before, after, zone, weekdays))
    if len(by_day) < terms.needs:
        return None
    usual = usually(by_day.values())
    length = counted(since, now, zone, weekdays)
    return Pause(since, length, usual, len(by_day), weekdays) if exceeds(length, usual, terms) else None


def counted(begin: datetime, end: datetime, zone: ZoneInfo, weekdays: Collection[int]) -> timedelta:
    """The time from one moment to another that lies on some weekdays."""
    day, last, total = business_day_of(begin, zone), business_day_of(end, zone), timedelta(0)
    while day <= last:
        if day.weekday() in weekdays:
            # In UTC: Python subtracts times of one zone by the wall clock, also across a change of it.
            starts, ends = (moment.astimezone(timezone.utc) for moment in (start_of_day(day, zone), end_of_day(day, zone)))
            total += min(end, ends) - max(begin, starts)
        day += _DAY
    return total


def usually(pauses: Iterable[timedelta]) -> timedelta:
    """The pause that nine days of ten do not exceed.

    :param pauses: the longest one of each day; at least one.
    """
    ordered = sorted(pauses)
    return ordered[nearest_rank(len(ordered), _SHARE)]


def exceeds(length: timedelta, usual: timedelta, terms: Rhythm) -> bool:
    """Whether a time is longer than ``terms.factor`` times the usual one."""
    return length // timedelta(microseconds=1) > terms.factor * (usual // timedelta(microseconds=1))
