"""Whether rows come on time, late within the allowed lateness, or beyond it: Arrow in, Arrow out.

A row is judged by the last window that it lies in: its hour, the last sliding window that covers it, its event day, or the last
day whose trailing number covers it; for sessions, the session that the row would form alone. The row is on time while the
watermark at its delivery's arrival has not reached the end of that window. All rows of a delivery have the same watermark. A row
without an event time is in no window and on time.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from enum import Enum
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.calendar import windows
from lakehouse.calendar.days import end_of_day, start_of_day
from lakehouse.contracts.windows import SessionWindow
from lakehouse.dispositions.winners import cases, groups
from lakehouse.lateness.measurement import microseconds

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from lakehouse.contracts.late_events import LateEvents
    from lakehouse.contracts.metric import MetricContract

TIME = pa.timestamp("us", "UTC")
_MINUTE = 60_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
#: The end of a later day does not exist.
_LAST_DAY = date(9998, 12, 31)


class LateReason(str, Enum):
    """The degree of lateness of a late row."""

    WITHIN = "late_within_tolerance"
    BEYOND = "dropped_beyond_tolerance"


def window_ends(rows: pa.Table, metric: MetricContract, zone: ZoneInfo) -> pa.Array:
    """The end of the last window that each row lies in, in microseconds since 1970; NULL for a row without an event day.

    :param rows: with ``event_ts`` and ``event_date``.
    """
    days = pc.unique(rows["event_date"])
    known = [None if day is None or day > _LAST_DAY else day for day in days.to_pylist()]
    place = pc.index_in(rows["event_date"], days).combine_chunks()
    whole = pa.array([None if day is None else end_of_days(day, metric, zone) for day in known], pa.int64()).take(place)
    window = metric.event_window
    if window is None:
        return whole
    if isinstance(window, SessionWindow):
        return pc.coalesce(pc.add(_moments(rows), microseconds(window.gap)), whole)
    midnight = pa.array([None if day is None else _micros(start_of_day(day, zone)) for day in known], pa.int64()).take(place)
    step, size = microseconds(window.step), microseconds(window.size)
    passed = pc.subtract(_moments(rows), midnight)
    end = pc.add(pc.add(midnight, pc.multiply(pc.divide(passed, step), step)), size)
    end = end if window.overlaps else pc.min_element_wise(end, whole, skip_nulls=False)
    return pc.coalesce(end, whole)


def end_of_days(day: date, metric: MetricContract, zone: ZoneInfo) -> int:
    """The end of the last day whose number covers an event day, in microseconds since 1970."""
    return _micros(end_of_day(day + timedelta(days=metric.trailing_days - 1), zone))


def end_of_window(day: date, start: datetime | None, metric: MetricContract, zone: ZoneInfo) -> int:
    """The end of one window of a day, in microseconds since 1970.

    :param start: its first moment; None for the whole day.
    """
    whole, window = _micros(end_of_day(day, zone)), metric.event_window
    if isinstance(window, SessionWindow):  # it has ended by then, however long it goes on
        return _micros(end_of_day(day + timedelta(days=1), zone))
    if window is None or start is None:
        return whole
    end = _micros(start + window.size)
    return end if window.overlaps else min(end, whole)


def moment_of_end(day: date, start: datetime, metric: MetricContract, zone: ZoneInfo) -> datetime:
    """The end of one window of a day."""
    return _EPOCH + timedelta(microseconds=end_of_window(day, start, metric, zone))


def first_end(day: date, metric: MetricContract, zone: ZoneInfo) -> int:
    """The end of the first window by which a row of an event day may be judged, in microseconds since 1970."""
    if metric.event_window is None or day > _LAST_DAY:
        return end_of_days(min(day, _LAST_DAY), metric, zone)
    window = metric.event_window
    length = window.gap if isinstance(window, SessionWindow) else window.size
    return _micros(start_of_day(day, zone)) + microseconds(length)


def are_late(ends: pa.Array, watermarks: pa.Array) -> pa.Array:
    """Whether the watermark at each row's arrival had reached the end of its window.

    :param watermarks: in microseconds, NULL for a delivery without a known watermark.
    """
    return pc.fill_null(pc.greater_equal(watermarks, ends), False)


def are_beyond(ends: pa.Array, watermarks: pa.Array, terms: LateEvents) -> pa.Array:
    """Whether each row is late, and later than the contract allows."""
    return are_late(pc.add(ends, microseconds(terms.allowed_lateness)), watermarks)


def are_left_out(ends: pa.Array, watermarks: pa.Array, terms: LateEvents) -> pa.Array:
    """Whether each row does not count in the metric."""
    return are_late(pc.add(ends, microseconds(terms.tolerance)), watermarks)


def windows_of(rows: pa.Table, metric: MetricContract, zone: ZoneInfo) -> pa.Array:
    """The names of the windows that each row lies in, such as ``2024-01-15T14`` or ``2024-01-15``; a list for each row.

    For sessions the list has their day. Windows begin and end at whole minutes, so the names are computed once for each minute
    with an event.
    """
    minutes = pc.divide(_moments(rows), _MINUTE) if metric.event_window else pa.nulls(len(rows), pa.int64())
    group = groups(rows["event_date"], minutes)
    names = [_names(day, minute, metric, zone) for day, minute in cases(group, rows["event_date"], minutes)]
    return pa.array(names, pa.list_(pa.string())).take(pa.array(group))


def _names(day: date | None, minute: int | None, metric: MetricContract, zone: ZoneInfo) -> list[str]:
    """The names of the windows that contain a minute of an event day."""
    if day is None or day > _LAST_DAY:
        return []
    window = metric.event_window
    if isinstance(window, SessionWindow):
        return [f"{day}"]
    if window is None or minute is None:
        return [f"{day + timedelta(days=later)}" for later in range(metric.trailing_days)]
    moment, days = _EPOCH + minute * timedelta(minutes=1), [day - timedelta(days=1), day] if window.overlaps else [day]
    starts = (start for each in days for start in windows.starts(each, window.step, zone))
    return [windows.name(start, zone) for start in starts if start <= moment < start + window.size]


def _moments(rows: pa.Table) -> pa.Array:
    return rows["event_ts"].cast(TIME).cast(pa.int64()).combine_chunks()


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
