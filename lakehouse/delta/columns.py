"""The columns of the tables that a contract describes, as Spark DDL and as Arrow.

The business days of many moments, and the first moments of many days: the rules of ``calendar.days`` for columns.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.calendar.days import BUSINESS_DAY_START, business_day_of, start_of_day
from lakehouse.contracts.inputs import OF_A_MESSAGE
from lakehouse.contracts.record_changes import OF_A_CHANGE

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from lakehouse.contracts.source import SourceContract


#: The origin of a row and the operation that it carried; rows that differ only here have the same content (rule R6).
PROVENANCE = (
    ("arrival_ts", "timestamp"),
    ("arrival_date", "date"),
    ("source_file", "string"),
    ("ingestion_id", "string"),
    ("line_number", "bigint"),
    ("source_sequence", "bigint"),
    ("source_order", "string"),
    ("change_op", "string"),
    ("is_correction", "boolean"),
    ("corrects_key", "string"),
    ("corrected_by", "string"),
    ("correction_reason", "string"),
    ("corrected_field", "string"),
)
_AS_READ = (("raw_payload", "string"), ("malformed_reason", "string"))
#: The total order of R2, most significant first: never the order of ingestion. Text is compared by its UTF-8 bytes; a row
#: without ``source_order`` (see ``bronze.envelopes``) comes before those with one. ``ordered_at`` and ``delivery``
#: are of ``dispositions.deliveries``.
ORDER = ("source_sequence", "source_order", "ordered_at", "delivery", "line_number")

_ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}

Columns = tuple[tuple[str, str], ...]


def content_columns(contract: SourceContract) -> Columns:
    """The content of a silver row, as (name, Spark type); for a dimension, the content of a change."""
    typed = tuple((field.name, field.type) for field in contract.typed_fields)
    of_kind = OF_A_CHANGE if contract.is_dimension else ()
    clocks = (("event_ts", "timestamp"), ("event_date", "date"))
    return (("record_key", "string"), *typed, *of_kind, *clocks, ("source_system", "string"))


def silver_columns(contract: SourceContract) -> Columns:
    """The content of a silver row and its provenance."""
    return (*content_columns(contract), *PROVENANCE)


def bronze_columns(contract: SourceContract) -> Columns:
    """The columns of a silver row, the record as it was read, and the reason if it is malformed; for a message also its place in
    the topic.
    """
    return (*silver_columns(contract), *_AS_READ, *(OF_A_MESSAGE if contract.source.kafka else ()))


def ddl(columns: Columns) -> str:
    """The columns as Spark's DDL."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns)


def arrow_schema(columns: Columns) -> pa.Schema:
    """The columns as an Arrow schema."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in columns])


def arrow_type(kind: str) -> pa.DataType:
    if kind.startswith("decimal"):
        precision, scale = (int(part) for part in kind.removeprefix("decimal(").rstrip(")").split(","))
        return pa.decimal128(precision, scale)
    return _ARROW[kind]


def is_number(kind: pa.DataType) -> bool:
    """Whether the values of a type are numbers; truth values are not."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


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
