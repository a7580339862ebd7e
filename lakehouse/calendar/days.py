"""The business day, and sets of event days: where a day begins and ends, how windows extend days, and their written forms.

The start of a business day decides which day a moment belongs to; how late a row is, is measured from arrival and event time.
Sets of days have one form for programs (ISO texts) and one for conditions in SQL.

delta-rs cannot parse a list of 40,000 literals, so long lists become ranges. It makes one list of all lists of a condition,
unless each of them has a range of its own. Measured: 150,000 days of which no two are consecutive are parsed in this form in 4 to
6 seconds.
"""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta, timezone
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence


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


#: So many days are one list. delta-rs makes a chain of comparisons of a list, and one of 40,000 overflows its stack.
LISTED = 5_000
#: So many single days of a longer list share a range.
PART = 500
#: From so many consecutive days on, a range is shorter than a list.
_RUN = 3
#: At most so many ranges are compared with the bounds of a file.
RANGES = 64


def condition_among(column: str, days: Collection[date], literal: str = "DATE'{}'") -> str:
    """The condition that a column holds one of some days; Delta skips the files of other days for it.

    Of a list alone, Spark compares only the first and the last day with the bounds of a file, and delta-rs no more than twenty
    days. So the days are written as ranges; where these would be many, as ranges with gaps and a list.

    :param literal: how a day is written.
    """
    in_order = sorted(set(days))
    if len(in_order) <= LISTED:
        runs = _runs(in_order)
        ranges = _any_of([_between(column, run, literal) for run in _with_gaps(runs)])
        return ranges if len(runs) <= RANGES else f"({ranges} AND {_listed(column, in_order, literal)})"
    ranges_of_many, single = [], list[date]()
    for first, last in _runs(in_order):
        if (last - first).days + 1 < _RUN:
            single += span(first, last)
        else:
            ranges_of_many.append(_between(column, [first, last], literal))
    parts = [single[start : start + PART] for start in range(0, len(single), PART)]
    of_parts = (f"({_between(column, part, literal)} AND {_listed(column, part, literal)})" for part in parts)
    return _any_of([*ranges_of_many, *of_parts])


def _between(column: str, days: Sequence[date], literal: str) -> str:
    if days[0] == days[-1]:
        return f"{column} = {literal.format(days[0])}"
    return f"{column} BETWEEN {literal.format(days[0])} AND {literal.format(days[-1])}"


def _listed(column: str, days: Sequence[date], literal: str) -> str:
    return f"{column} IN ({', '.join(map(literal.format, days))})"


def _with_gaps(runs: Sequence[tuple[date, date]]) -> list[tuple[date, date]]:
    """Runs of days, of which those with the smallest gaps between them are joined until there are few."""
    gaps = sorted(range(1, len(runs)), key=lambda place: runs[place - 1][1] - runs[place][0])[: RANGES - 1]
    begins = [0, *sorted(gaps)]
    return [(runs[begin][0], runs[end - 1][1]) for begin, end in zip(begins, [*begins[1:], len(runs)])]


def _runs(days: Sequence[date]) -> list[tuple[date, date]]:
    """The first and the last day of each run of consecutive days."""
    runs = [(days[0], days[0])]
    for day in days[1:]:
        first, last = runs[-1]
        if day - last == timedelta(days=1):
            runs[-1] = first, day
        else:
            runs.append((day, day))
    return runs


def _any_of(conditions: Sequence[str]) -> str:
    """Conditions as a balanced tree: parsers descend once for each level."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return f"({_any_of(conditions[:middle])} OR {_any_of(conditions[middle:])})"
