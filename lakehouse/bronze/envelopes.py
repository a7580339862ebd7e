"""The changes that the envelopes of change feeds contain: one function for each envelope, and the source's order of changes.

The events of Debezium have ``op``, the row ``before`` and ``after``, and the place of the change in the ``source``'s log. The
change feed of a Delta table has the columns of the table, with ``_change_type`` and ``_commit_version``. The rows of SQL Server's
change tables have the columns of the table, with ``__$operation``, ``__$start_lsn`` and ``__$seqval``.

The order of changes is given by two columns that every engine compares alike: ``source_sequence`` and ``source_order``.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Literal, cast

from lakehouse.bronze.type_conversion import to_integer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from lakehouse.bronze.file_formats import Record
    from lakehouse.contracts.record_changes import Envelope


Op = Literal["insert", "correct", "delete"]


@dataclass(frozen=True)
class Change:
    """A change of a row.

    ``row`` has its columns: after the change, or before a delete. ``order`` is its place among the changes of the source.
    ``former`` has the columns of the row before the change as far as the envelope holds them: if they have another key, that key
    ends.
    """

    op: Op
    row: Mapping[str, Any]
    order: Parts
    former: Mapping[str, Any] | None = None


def required(name: str, value: Any) -> Any:
    """The value of a field of the envelope.

    :raises ValueError: when it is missing or empty.
    """
    if value is None or value == "":
        msg = f"{name}: missing from the envelope"
        raise ValueError(msg)
    return value


def integer(name: str, value: Any) -> int:
    """:raises ValueError: when it is missing, or no 64-bit integer."""
    try:
        return to_integer(required(name, value))
    except ValueError as error:
        raise ValueError(_named(name, error)) from None


def hexadecimal(name: str, value: Any, form: re.Pattern[str], wanted: str) -> str:
    """A number of a fixed width, in lower case, so that its text has its order.

    :param form: the form of the lower-case text without ``0x``; ``wanted`` describes it.
    :raises ValueError: when it is missing, or has another form.
    """
    text = str(required(name, value)).strip().lower().removeprefix("0x")
    if not form.fullmatch(text):
        msg = f"{name}: {str(value)[:60]!r} is not {wanted}"
        raise ValueError(msg)
    return text


def _named(name: str, error: ValueError) -> str:
    return str(error) if str(error).startswith(f"{name}: ") else f"{name}: {error}"


#: An integer or a text for each column of the order, the most significant first.
Parts = Sequence[int | str]
#: Ends a part. It comes before every character that a part may hold, so that a shorter text comes before its continuations.
_END = "\x1f"
#: Greater than every 64-bit integer, so that a sum with it has 20 digits or, for a negative one, 19.
_OFFSET = 10**19


def encoded(parts: Parts) -> tuple[int, str | None]:
    """The columns ``source_sequence`` and ``source_order``.

    :param parts: integers of 64 bits, and texts from :func:`order_text`.
    """
    leading, rest = (parts[0], parts[1:]) if parts and isinstance(parts[0], int) else (0, parts)
    return int(leading), _END.join(map(_encoded_part, rest)) if rest else None


def order_text(value: str) -> str:
    """A text as a part of an order.

    :raises ValueError: when it is empty, or holds a control character.
    """
    if not value or min(value) <= _END:
        msg = f"{value[:60]!r} holds a control character, which has no place in an order" if value else "empty"
        raise ValueError(msg)
    return value


def _encoded_part(part: int | str) -> str:
    return f"{part + _OFFSET:020d}" if isinstance(part, int) else part


_DEBEZIUM_OPS: dict[str, Op] = {"c": "insert", "r": "insert", "u": "correct", "d": "delete"}
_NO_ROW = {
    "t": "a truncation of the whole table, which names no row; delete its rows, or have the table sent again",
    "m": "a message of the database's log, which is about no row; leave it out of the topic",
}
#: At the same place of the log, the read of a snapshot comes first, and the end of a key before its new beginning.
_RANKS = {"r": "0", "d": "1", "c": "2", "u": "2"}
#: The type of decimals as bytes in the schema of a message, and the digits of the longest one.
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_EXACTLY = Context(prec=1_000)
#: The placeholder for a long value that an update did not change, where the database does not log it.
_UNAVAILABLE = "__debezium_unavailable_value"
_BINLOG = re.compile(r".*\.(\d{1,18})", re.ASCII)
_LSN = re.compile(r"[0-9a-f]{8}:[0-9a-f]{8}:[0-9a-f]{4}")
_LOWEST_LSN = "00000000:00000000:0000"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def without_tombstones(records: Iterable[Record]) -> Iterator[Record]:
    """The records without tombstones: messages without a value, by which Kafka removes a key from its log after a delete.

    As a line, such a message is ``null``: it holds no record, like a blank line.
    """
    return (record for record in records if not _is_tombstone(record))


def _is_tombstone(record: Record) -> bool:
    if record.values is None:
        return record.raw.strip() == "null"
    return record.values.keys() == {"schema", "payload"} and record.values["payload"] is None


def unfold_debezium(values: Mapping[str, Any], columns: Collection[str]) -> Change:
    """The change in an event.

    :param columns: the columns that the contract needs. Among those of the row, ``__ts_ms`` and ``__source_ts_ms`` are the times
        at which the connector and the database handled the change.
    :raises ValueError: when it is no event about a row; the message names the field.
    """
    scales: dict[str, int] = {}
    if "op" not in values and "payload" in values:
        scales = _scales(values.get("schema"))
        values = _columns_of("payload", values["payload"])
    op = str(required("op", values.get("op")))
    if op in _NO_ROW:
        raise ValueError(f"op: {op!r} is {_NO_ROW[op]}")
    if op not in _DEBEZIUM_OPS:
        raise ValueError(f"op: {op[:60]!r} is none of {', '.join(_DEBEZIUM_OPS)}")
    side = "before" if op == "d" else "after"
    row = _with_decimals(_columns_of(side, values.get(side)), scales)
    lacking = sorted(name for name in columns if row.get(name) == _UNAVAILABLE)
    if lacking:
        raise ValueError(f"{lacking[0]}: not in the event ({_UNAVAILABLE}); set REPLICA IDENTITY FULL for the table")
    source = _columns_of("source", values.get("source"))
    times = {"__ts_ms": ("ts_ms", values.get("ts_ms")), "__source_ts_ms": ("source.ts_ms", source.get("ts_ms"))}
    row = row | {name: _moment(*times[name]) for name in times if name in columns}
    former = values.get("before") if op == "u" else None
    former = None if former is None else _with_decimals(_columns_of("before", former), scales)
    return Change(_DEBEZIUM_OPS[op], row, (*_place(source, op), _RANKS[op]), former)


def _scales(schema: Any) -> dict[str, int]:
    """The places after the point of the columns that the schema of a message says to be decimals as bytes."""
    sides = schema.get("fields") if isinstance(schema, dict) else None
    columns = [
        column
        for side in (sides if isinstance(sides, list) else [])
        if isinstance(side, dict) and side.get("field") in ("before", "after") and isinstance(side.get("fields"), list)
        for column in side["fields"]
    ]
    return {
        f"{column.get('field')}": integer("schema: scale", (column.get("parameters") or {}).get("scale"))
        for column in columns
        if isinstance(column, dict) and column.get("name") == _DECIMAL
    }


def _with_decimals(row: Mapping[str, Any], scales: Mapping[str, int]) -> dict[str, Any]:
    """The row with decimals as numbers that Debezium writes as bytes: with the scale in the schema, or beside the bytes."""
    return {name: _decimal(name, value, scales.get(name)) for name, value in row.items()}


def _decimal(name: str, value: Any, scale: int | None) -> Any:
    if isinstance(value, dict) and value.keys() == {"scale", "value"} and isinstance(value["scale"], int):
        scale, value = value["scale"], value["value"]
    if scale is None or not isinstance(value, str):
        return value
    try:
        unscaled = int.from_bytes(base64.b64decode(value, validate=True), "big", signed=True)
    except ValueError:
        msg = f"{name}: {value[:60]!r} is no decimal in base64, as the message says"
        raise ValueError(msg) from None
    return Decimal(unscaled).scaleb(-scale, _EXACTLY)


def _columns_of(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(required(name, value), dict):
        msg = f"{name}: a JSON {type(value).__name__} where an object is expected"
        raise ValueError(msg)  # noqa: TRY004 (a mistake of the file, not of the caller)
    return cast("dict[str, Any]", value)


def _place(source: Mapping[str, Any], op: str) -> Parts:
    """The place of an event in its database's log."""
    if source.get("lsn") is not None:  # PostgreSQL
        return [integer("source.lsn", source["lsn"])]
    if source.get("file") is not None:  # MySQL: an event of the log may change several rows
        number = _BINLOG.fullmatch(str(source["file"]))
        if not number:
            raise ValueError(f"source.file: {str(source['file'])[:60]!r} does not end with the number of a log")
        row = 0 if source.get("row") is None else integer("source.row", source["row"])
        return [int(number[1]), integer("source.pos", source.get("pos")), row]
    if source.get("commit_lsn") is not None:  # SQL Server: a snapshot is taken between commits
        wanted = "three hexadecimal numbers of 8, 8 and 4 digits"
        change_lsn = _LOWEST_LSN if op == "r" and source.get("change_lsn") is None else source.get("change_lsn")
        serial = source.get("event_serial_no")
        return [
            hexadecimal("source.commit_lsn", source["commit_lsn"], _LSN, wanted),
            hexadecimal("source.change_lsn", change_lsn, _LSN, wanted),
            0 if serial is None else integer("source.event_serial_no", serial),
        ]
    msg = "source.lsn: missing, and so are source.file and source.commit_lsn: no order follows from the event"
    raise ValueError(msg)


def _moment(name: str, value: Any) -> datetime | None:
    if value is None:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=integer(name, value))
    except OverflowError:
        raise ValueError(f"{name}: {value} is no time in milliseconds since 1970") from None


_DELTA_FEED_OPS: dict[str, Op] = {
    "insert": "insert",
    "update_preimage": "delete",
    "update_postimage": "correct",
    "delete": "delete",
}


def unfold_delta_feed(values: Mapping[str, Any], _: Collection[str]) -> Change:
    """The change in a row of a change feed.

    :raises ValueError: when one of the two columns has no valid value; the message names the column.
    """
    kind = str(required("_change_type", values.get("_change_type")))
    if kind not in _DELTA_FEED_OPS:
        raise ValueError(f"_change_type: {kind[:60]!r} is none of {', '.join(_DELTA_FEED_OPS)}")
    op = _DELTA_FEED_OPS[kind]
    return Change(op, values, [integer("_commit_version", values.get("_commit_version")), "0" if op == "delete" else "1"])


_OPS: dict[int, Op] = {1: "delete", 2: "insert", 3: "delete", 4: "correct"}
_SQL_SERVER_LSN = re.compile(r"[0-9a-f]{20}")
_WANTED = "20 hexadecimal digits"


def unfold_sql_server(values: Mapping[str, Any], _: Collection[str]) -> Change:
    """The change in a row of a change table.

    :raises ValueError: when one of the three columns has no valid value; the message names the column.
    """
    operation = integer("__$operation", values.get("__$operation"))
    if operation not in _OPS:
        raise ValueError(f"__$operation: {operation} is none of {', '.join(map(str, _OPS))}")
    order = [hexadecimal(name, values.get(name), _SQL_SERVER_LSN, _WANTED) for name in ("__$start_lsn", "__$seqval")]
    return Change(_OPS[operation], values, [*order, str(operation)])


#: By envelope, the function from the values of a record, and the columns that the contract needs, to the change.
UNFOLD: dict[Envelope, Callable[[Mapping[str, Any], Collection[str]], Change]] = {
    "debezium": unfold_debezium,
    "sqlserver": unfold_sql_server,
    "delta_feed": unfold_delta_feed,
}
