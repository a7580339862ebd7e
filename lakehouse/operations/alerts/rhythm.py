"""The rhythm of a recurring event: its usual longest pause within a day.

Belongs here: the length of pauses, the usual pause, and whether the present one is longer. Weekdays without any event do not
count, so no source is silent because of a weekend. The events (an arrival, a move of the event-time watermark) and the sentences
about them are in ``input_rules``.
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

    :param since: the time of the last event.
    :param length: the time since then, without the weekdays that do not count.
    :param usual: the usual longest pause of a day.
    :param days: the number of measured days.
    :param weekdays: the weekdays that count, Monday is 0.
    """

    since: datetime
    length: timedelta
    usual: timedelta
    days: int
    weekdays: Collection[int]


def too_long(moments: Iterable[datetime], now: datetime, zone: ZoneInfo, terms: Rhythm) -> Pause | None:
    """The pause since the newest of ``moments``, if it is longer than usual.

    A pause counts for the day on which it ends. With fewer than ``terms.needs`` days, the result is None.

    :param moments: the times of the events, in any order; times after ``now`` are ignored.
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
    """The part of the time from ``begin`` to ``end`` that lies on ``weekdays``."""
    day, last, total = business_day_of(begin, zone), business_day_of(end, zone), timedelta(0)
    while day <= last:
        if day.weekday() in weekdays:
            # In UTC: Python subtracts times of the same zone by the wall clock, even across a clock change.
            starts, ends = (moment.astimezone(timezone.utc) for moment in (start_of_day(day, zone), end_of_day(day, zone)))
            total += min(end, ends) - max(begin, starts)
        day += _DAY
    return total


def usually(pauses: Iterable[timedelta]) -> timedelta:
    """The pause that nine days out of ten do not exceed.

    :param pauses: the longest pause of each day; at least one.
    """
    ordered = sorted(pauses)
    return ordered[nearest_rank(len(ordered), _SHARE)]


def exceeds(length: timedelta, usual: timedelta, terms: Rhythm) -> bool:
    """Whether ``length`` is longer than ``terms.factor`` times the usual time."""
    return length // timedelta(microseconds=1) > terms.factor * (usual // timedelta(microseconds=1))
