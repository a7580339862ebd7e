"""The columns of the tables that a contract describes: as Spark DDL and Arrow, their widening, and their values as JSON.

The business days of many moments, and the first moments of many days, are computed for columns by the rules of ``calendar.days``.

The type of a column only becomes wider: int to bigint, and decimals with more digits before the point. polars reads no column
that becomes wider in another way. The type is changed in the table's log by one commit, and no data file is written again. Every
reader that the tables are meant for (Spark, delta-rs, DuckDB, polars) converts the values of older files as it reads them.
Delta's own table feature for this, ``typeWidening``, would shut out delta-rs and polars.

Values become JSON without loss: decimals, times, NaN and infinities become strings. :func:`json_texts` formats a whole column;
where Arrow cannot format a value, each distinct one is formatted once.
"""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, Schema

from lakehouse.calendar.days import BUSINESS_DAY_START, business_day_of, start_of_day
from lakehouse.contracts.base import is_only_wider
from lakehouse.contracts.inputs import OF_A_MESSAGE
from lakehouse.contracts.record_changes import OF_A_CHANGE
from lakehouse.lake import table_io, table_parts
from lakehouse.text import json_value

if TYPE_CHECKING:
    from collections.abc import Callable
    from zoneinfo import ZoneInfo

    from deltalake import DeltaTable

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


#: The digits of Arrow's widest decimal.
_DIGITS = 76


def summable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Integers and decimals in a type in which their sums do not wrap around; other values as they are."""
    if pa.types.is_integer(values.type):
        return values.cast(pa.decimal256(_DIGITS, 0))
    return values.cast(pa.decimal256(_DIGITS, values.type.scale)) if pa.types.is_decimal(values.type) else values


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


#: What the metadata of a commit calls the columns with another type.
WIDENED = "wider_columns"


def is_wider(before: pa.DataType, after: pa.DataType) -> bool:
    """Whether ``after`` only becomes wider than ``before``; the rule is that of contracts."""
    return is_only_wider(_name_in_contracts(before), _name_in_contracts(after))


def widen(table: DeltaTable, schema: pa.Schema) -> bool:
    """Give the columns of an open table the wider types of a schema, in one commit behind its newest version.

    :param schema: of rows that are to be written; other columns and types of it change nothing.
    :returns: whether a type was changed.
    :raises CommitFailedError: when another writer has changed the columns since ``table`` was opened.
    """
    columns = pa.schema(table.schema().to_arrow())
    wanted = {item.name: item.type for item in schema}
    wider = {item.name: wanted[item.name] for item in columns if is_wider(item.type, wanted.get(item.name, item.type))}
    by = table_parts.column(table)
    if not wider or by is None:  # every table with columns of a contract has one
        return False
    no_partition = "-1" if pa.types.is_integer(columns.field(by).type) else "0001-01-01"
    why = {WIDENED: {name: f"{kind}" for name, kind in wider.items()}}
    table_io.commit_files(
        table,
        [],
        mode="overwrite",  # a transaction that appends keeps the columns as they are
        schema=Schema.from_arrow(pa.schema([item.with_type(wider.get(item.name, item.type)) for item in columns])),
        partition_by=table.metadata().partition_columns,
        partition_filters=[(by, "=", no_partition)],  # no file is removed, whether or not the days share files
        commit_properties=CommitProperties(custom_metadata={"userMetadata": json.dumps(why)}),
    )
    return True


def _name_in_contracts(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return {pa.int32(): "int", pa.int64(): "bigint"}.get(kind, f"{kind}")


NULL = "null"
#: Characters that JSON escapes in a string; others stay as they are.
_ESCAPED = r'[\x00-\x1f"\\]'
#: Python writes smaller numbers with an exponent.
_LEAST_WITHOUT_EXPONENT = 1e-4
_JSON = json.JSONEncoder(ensure_ascii=False)


def json_text(value: Any) -> str:
    """One value as JSON."""
    if value is None:
        return NULL
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, date):  # a datetime is one, too
        return f'"{value.isoformat()}"'
    return _JSON.encode(json_value(value))


def json_texts(values: pa.Array) -> pa.Array:
    """Each value as JSON, as :func:`json_text` gives it; ``null`` for NULL, so that no text is missing."""
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        texts = values.cast(pa.string())
    elif pa.types.is_string(kind):
        texts = _with_exceptions(values, _quoted(values), pc.match_substring_regex(values, _ESCAPED))
    elif pa.types.is_decimal(kind):
        digits = values.cast(pa.string())
        texts = _with_exceptions(values, _quoted(digits), pc.match_substring(digits, "E"))  # 0E-8: 0.00000000
    elif kind == pa.float64():
        texts = _numbers(values)
    elif kind == pa.timestamp("us", "UTC"):
        texts = _moments(values)
    else:
        texts = of_distinct(values, json_text)
    return pc.fill_null(texts, NULL)


def of_distinct(values: pa.Array, text: Callable[[Any], str | None]) -> pa.Array:
    """The text of each value, computed once for each distinct value; NULL for NULL."""
    distinct, which = distinct_values(values)
    return pa.array([text(value) for value in distinct.to_pylist()], pa.string()).take(which)


def distinct_values(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The distinct values without NULL, and for each value its position among them, NULL for NULL."""
    bits = values.view(pa.int64()) if values.type == pa.float64() else values  # as numbers 0.0 and -0.0 are equal
    encoded = bits.dictionary_encode()
    return encoded.dictionary.view(values.type), encoded.indices


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _with_exceptions(values: pa.Array, texts: pa.Array, exceptions: pa.Array) -> pa.Array:
    """The texts, where the texts of exceptional values are computed individually."""
    special = pc.fill_null(exceptions, False)
    if not pc.any(special).as_py():
        return texts
    return pc.replace_with_mask(texts, special, of_distinct(values.filter(special), json_text))


def _numbers(values: pa.Array) -> pa.Array:
    """Numbers as Python writes them: Arrow writes the same digits, but 1 for 1.0, and uses the exponent for other numbers."""
    digits = values.cast(pa.string())
    points = pc.if_else(pc.match_substring(digits, "."), digits, pc.binary_join_element_wise(digits, ".0", ""))
    other = pc.or_(pc.match_substring_regex(digits, "[en]"), pc.less(pc.abs(values), _LEAST_WITHOUT_EXPONENT))
    return _with_exceptions(values, points, other)


def _moments(values: pa.Array) -> pa.Array:
    """Times in UTC as ISO texts, without microseconds where they are 0."""
    texts = pc.utf8_replace_slice(values.cast(pa.timestamp("us")).cast(pa.string()), 10, 11, "T")
    whole = pc.equal(pc.utf8_slice_codeunits(texts, 19, 26), ".000000")
    return _quoted(pc.binary_join_element_wise(pc.if_else(whole, pc.utf8_slice_codeunits(texts, 0, 19), texts), "+00:00", ""))
