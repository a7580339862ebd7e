"""The business days of many moments, and the first moments of many days: the rules of ``calendar.event_day`` for columns."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.calendar.event_day import BUSINESS_DAY_START, business_day_of, start_of_day

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

#: The type of the clocks in Bronze.
MOMENT = pa.timestamp("us", "UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_HOUR = timedelta(hours=1) // _MICROSECOND
_DAY = timedelta(days=1) // _MICROSECOND
_DAY_START = timedelta(hours=BUSINESS_DAY_START.hour, minutes=BUSINESS_DAY_START.minute) // _MICROSECOND


def business_days(moments: pa.TimestampArray, zone: ZoneInfo) -> pa.Date32Array:
    """The business day of each moment; null for null.

    A zone's offset is looked up once per hour; within an hour in which clocks are changed, once per moment.
    """
    micros = pc.cast(pc.fill_null(moments, _EPOCH), pa.int64()).to_numpy()
    hours, hour_of = np.unique(micros // _HOUR, return_inverse=True)
    offsets = [_offset(int(hour), zone) for hour in hours]
    shift = np.array([0 if offset is None else offset for offset in offsets], np.int64)[hour_of]
    days = (micros + shift - _DAY_START) // _DAY
    changing = np.array([offset is None for offset in offsets], bool)[hour_of]
    for row in np.flatnonzero(changing):
        days[row] = (business_day_of(_moment(int(micros[row])), zone) - _EPOCH.date()).days
    return _masked(pa.array(days.astype(np.int32)).cast(pa.date32()), moments)


def starts_of_days(days: pa.Date32Array, zone: ZoneInfo) -> pa.TimestampArray:
    """The first moment of each business day; null for null."""
    numbers = pc.cast(pc.fill_null(days, _EPOCH.date()), pa.int32()).to_numpy()
    distinct, day_of = np.unique(numbers, return_inverse=True)
    starts = [(start_of_day(date.fromordinal(_EPOCH.toordinal() + int(day)), zone) - _EPOCH) // _MICROSECOND for day in distinct]
    return _masked(pa.array(np.array(starts, np.int64)[day_of]).cast(MOMENT), days)


def _masked(values: pa.Array, like: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_valid(like), values, None) if like.null_count else values


@lru_cache(maxsize=100_000)
def _offset(hour: int, zone: ZoneInfo) -> int | None:
    """The zone's offset in microseconds in an hour since 1970 (UTC); None if clocks are changed in it."""
    offsets = {_moment(micros).astimezone(zone).utcoffset() for micros in (hour * _HOUR, (hour + 1) * _HOUR - 1)}
    first = offsets.pop()
    return None if offsets or first is None else first // _MICROSECOND


def _moment(micros: int) -> datetime:
    return _EPOCH + micros * _MICROSECOND
