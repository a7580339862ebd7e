"""The windows of event time in which changed rows lie, from the change feed of Silver and without Spark.

Belongs here: how many changes of each kind concern each window of a day, or the sessions of each key. The windows of the rows of
a number are computed in ``windows``, by Spark; those that must be computed again belong to ``restatement.touched_windows``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.calendar.days import start_of_day
from lakehouse.contracts.windows import WINDOW_START, EventWindow, SessionWindow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, timedelta
    from zoneinfo import ZoneInfo

    from lakehouse.contracts.metric import MetricContract

#: With more groups of changes, the windows are not told apart.
_MOST_GROUPS = 20_000
_PLACE = ["record_key", "event_date"]
_TIME = pa.timestamp("us", "UTC")

#: A window by its first moment, or the sessions of a key by the values of the key.
Place = tuple[Any, ...]
#: Per Silver day, the number of changes of each kind by place.
CausesByPlace = Mapping["date", Mapping[Place, Counter[str]]]


def window_of(metric: MetricContract) -> EventWindow | SessionWindow | None:
    """The windows of a metric to which changes of Silver can be assigned; None without any.

    The key of sessions is read from Silver: in a metric that joins dimensions, or reads several sources, it may be elsewhere.
    """
    window = metric.event_window
    return None if isinstance(window, SessionWindow) and (metric.joins or metric.sources) else window


def columns_read(window: EventWindow | SessionWindow) -> list[str]:
    """The columns of Silver that decide in which place a row lies."""
    return list(window.key) if isinstance(window, SessionWindow) else ["event_ts"]


def causes(changes: pa.Table, feed: pa.Table, window: EventWindow | SessionWindow) -> CausesByPlace:
    """The number of changes of each kind, per Silver day and place; a change of a row counts in each window in which the row lies
    or lay. Empty if there are too many places.

    :param changes: columns ``change_feed.KEY_CHANGES``.
    :param feed: the rows before and after the changes, with ``record_key``, ``event_date`` and :func:`columns_read`.
    """
    names = window.place
    rows = feed.filter(pc.is_in(feed["record_key"], changes["record_key"].combine_chunks().unique()))
    placed = rows.select([*_PLACE, *names]) if isinstance(window, SessionWindow) else with_starts(rows, window)
    placed = placed.group_by([*_PLACE, *names]).aggregate([])
    counted = (
        changes.join(placed, _PLACE, join_type="inner").group_by(["event_date", "what", *names]).aggregate([([], "count_all")])
    )
    if len(counted) > _MOST_GROUPS:
        return {}
    by_day: dict[date, dict[Place, Counter[str]]] = {}
    for row in counted.to_pylist():
        place = tuple(row[name] for name in names)
        by_day.setdefault(row["event_date"], {}).setdefault(place, Counter())[row["what"]] += row["count_all"]
    return by_day


def added(one: CausesByPlace, other: CausesByPlace) -> CausesByPlace:
    """The changes of both tables."""
    return {day: together(one.get(day, {}), other.get(day, {})) for day in {**one, **other}}


def together(*parts: Mapping[Place, Counter[str]]) -> dict[Place, Counter[str]]:
    """The changes of several days or tables by place."""
    by_place: dict[Place, Counter[str]] = {}
    for part in parts:
        for place, counts in part.items():
            by_place[place] = by_place.get(place, Counter()) + counts
    return by_place


def with_starts(rows: pa.Table, window: EventWindow) -> pa.Table:
    """The keys, event days and windows of rows, a row for each window in which one lies; without a time it lies in NULL.

    :param rows: with ``record_key``, ``event_date`` and ``event_ts``.
    """
    rows = rows.select([*_PLACE, "event_ts"])
    nowhere = rows.filter(pc.is_null(rows["event_ts"]))
    timed = rows.filter(pc.is_valid(rows["event_ts"]))
    moments = pc.cast(pc.cast(timed["event_ts"], _TIME), pa.int64())
    midnight, before = (_midnights(timed["event_date"], window.zone, shift) for shift in (0, -1))
    step, size = _micros(window.step), _micros(window.size)
    parts = [_table(nowhere, pa.nulls(len(nowhere), _TIME))]
    for number in range(-(-size // step)):
        start = pc.subtract(_newest_start(moments, midnight, step), number * step)
        lies = pc.and_(pc.greater_equal(start, midnight), pc.less(moments, pc.add(start, size)))
        parts.append(_table(timed.filter(lies), pc.cast(pc.filter(start, lies), _TIME)))
    last = pc.add(before, pc.multiply(pc.divide(pc.subtract(pc.subtract(midnight, 1), before), step), step))
    for number in range(-(-size // step) if window.overlaps else 0):
        start = pc.subtract(last, number * step)  # a window of the day before that reaches into this one
        lies = pc.less(moments, pc.add(start, size))
        parts.append(_table(timed.filter(lies), pc.cast(pc.filter(start, lies), _TIME)))
    return pa.concat_tables(parts)


def _newest_start(moments: pa.ChunkedArray, midnight: pa.ChunkedArray, step: int) -> pa.ChunkedArray:
    """The first moment of the last window of the day that has begun."""
    return pc.add(midnight, pc.multiply(pc.divide(pc.subtract(moments, midnight), step), step))


def _midnights(days: pa.ChunkedArray, zone: ZoneInfo, shift: int) -> pa.ChunkedArray:
    """The first microsecond of each day, or of the day before it (``shift`` -1)."""
    known: Sequence[date] = pc.unique(days).to_pylist()
    first = [round(start_of_day(day.fromordinal(day.toordinal() + shift), zone).timestamp()) * 1_000_000 for day in known]
    return pa.chunked_array([pa.array(first, pa.int64()).take(pc.index_in(days, pa.array(known, pa.date32())).combine_chunks())])


def _table(rows: pa.Table, starts: pa.ChunkedArray | pa.Array) -> pa.Table:
    return rows.select(_PLACE).append_column(WINDOW_START, starts)


def _micros(length: timedelta) -> int:
    return int(length.total_seconds()) * 1_000_000
