"""Sets of event days: how windows extend them, and their written forms for programs and for people.

The business day: when it starts and ends, which one a moment belongs to, and how late a row is.
"""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta, timezone
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


def reach_back(days: Collection[date], window: int) -> set[date]:
    """The days that the trailing windows ending on ``days`` cover."""
    return {day - timedelta(days=back) for day in days for back in range(window)}


def reach_ahead(days: Collection[date], window: int) -> set[date]:
    """The days whose trailing window covers one of ``days``."""
    return {day + timedelta(days=ahead) for day in days for ahead in range(window)}


def span(first: date, last: date) -> Iterator[date]:
    """Every day from ``first`` through ``last``."""
    for offset in range((last - first).days + 1):
        yield first + timedelta(days=offset)


def rolling(today: date, days: int, delay: int) -> list[date]:
    """The ``days`` days that end ``delay`` days before ``today``, in order."""
    last = today - timedelta(days=delay)
    return list(span(last - timedelta(days=days - 1), last))


def to_json(days: Collection[date]) -> str:
    """Days as sorted ISO text, for a tag or commit metadata."""
    return json.dumps([day.isoformat() for day in sorted(days)])


def from_json(text: str) -> list[date]:
    """The days of :func:`to_json`."""
    return [date.fromisoformat(day) for day in json.loads(text)]


#: The local time at which a business day starts.
BUSINESS_DAY_START = time.min
_DAY = timedelta(days=1)
_LAST_SECOND = time(23, 59, 59)
_UTC = ZoneInfo("UTC")


def start_of_day(day: date, zone: ZoneInfo) -> datetime:
    """The first moment of a business day, in its zone."""
    return datetime.combine(day, BUSINESS_DAY_START, zone)


def end_of_day(day: date, zone: ZoneInfo) -> datetime:
    """The moment at which a business day is over: the start of the next one."""
    return start_of_day(day + _DAY, zone)


def business_day_of(moment: datetime, zone: ZoneInfo) -> date:
    """The business day that contains ``moment``.

    :raises OverflowError: where the local time lies outside the years 1 to 9999.
    """
    local = moment.astimezone(zone)
    return local.date() if local.time() >= BUSINESS_DAY_START else local.date() - _DAY


def same_time_before(moment: datetime, days: int, zone: ZoneInfo) -> datetime:
    """The same wall clock time ``days`` days earlier in the zone; also across a change of the clock.

    :raises OverflowError: where it lies outside the years 1 to 9999.
    """
    return moment.astimezone(zone) - timedelta(days=days)


def replay_clock(arrival_day: date) -> datetime:
    """The time to which a replay sets the clock for an arrival day: its last second in UTC, when all its files have arrived."""
    return datetime.combine(arrival_day, _LAST_SECOND, timezone.utc)


def lateness(event_ts: datetime | None, event_date: date | None, arrival_ts: datetime, zone: ZoneInfo) -> timedelta | None:
    """Arrival minus event time; None for a record without an event time (a delete may have none).

    Where only the event's day is known, lateness counts from the end of that day, the latest time the event can have had.
    """
    if event_ts is not None:
        return arrival_ts - event_ts
    return None if event_date is None else arrival_ts - end_of_day(event_date, zone)


def arrived_at(arrival_day: date, taken_in_at: datetime, zone: ZoneInfo) -> datetime:
    """When a file arrived: at its ingestion, or at the end of its arrival day if that was earlier.

    An old day that is ingested today does not count as fresh.
    """
    return min(taken_in_at, end_of_day(arrival_day, zone))


def latest_arrival_time(arrival_day: date, taken_in_at: datetime, max_ahead: timedelta, zone: ZoneInfo) -> datetime:
    """The latest arrival time that a record of a delivery can carry: its ingestion or the end of its arrival day, whichever is
    later, plus ``max_ahead``, the permitted difference of clocks.

    A later time shows that the sender's clock is wrong: the record would win over every other one until that time has come (rule
    R2). The day ends in the source's zone or in UTC, because the name of a folder has no zone.
    """
    try:
        return max(taken_in_at, end_of_day(arrival_day, zone), end_of_day(arrival_day, _UTC)) + max_ahead
    except OverflowError:
        return datetime.max.replace(tzinfo=timezone.utc)
