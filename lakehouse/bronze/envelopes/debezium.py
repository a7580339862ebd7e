"""The events of Debezium: ``op``, the row ``before`` and ``after``, and the place of the change in the ``source``'s log.

Each line has one event, with or without Kafka Connect's ``schema`` and ``payload`` around it. The order of events is that of the
database's log: of PostgreSQL, MySQL or SQL Server.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, cast

from lakehouse.bronze.envelopes.change import Change, Op, hexadecimal, integer, required

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from lakehouse.bronze.envelopes.source_order import Parts
    from lakehouse.bronze.file_formats import Record

_OPS: dict[str, Op] = {"c": "insert", "r": "insert", "u": "correct", "d": "delete"}
_NO_ROW = {
    "t": "a truncation of the whole table, which names no row; delete its rows, or have the table sent again",
    "m": "a message of the database's log, which is about no row; leave it out of the topic",
}
#: At the same place of the log, the read of a snapshot comes first, and the end of a key before its new beginning.
_RANKS = {"r": "0", "d": "1", "c": "2", "u": "2"}
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


def unfold(values: Mapping[str, Any], columns: Collection[str]) -> Change:
    """The change in an event.

    :param columns: the columns that the contract needs. Among those of the row, ``__ts_ms`` and ``__source_ts_ms`` are the times
        at which the connector and the database handled the change.
    :raises ValueError: when it is no event about a row; the message names the field.
    """
    if "op" not in values and "payload" in values:
        values = _columns_of("payload", values["payload"])
    op = str(required("op", values.get("op")))
    if op in _NO_ROW:
        raise ValueError(f"op: {op!r} is {_NO_ROW[op]}")
    if op not in _OPS:
        raise ValueError(f"op: {op[:60]!r} is none of {', '.join(_OPS)}")
    side = "before" if op == "d" else "after"
    row = _columns_of(side, values.get(side))
    lacking = sorted(name for name in columns if row.get(name) == _UNAVAILABLE)
    if lacking:
        raise ValueError(f"{lacking[0]}: not in the event ({_UNAVAILABLE}); set REPLICA IDENTITY FULL for the table")
    source = _columns_of("source", values.get("source"))
    times = {"__ts_ms": ("ts_ms", values.get("ts_ms")), "__source_ts_ms": ("source.ts_ms", source.get("ts_ms"))}
    row = row | {name: _moment(*times[name]) for name in times if name in columns}
    former = values.get("before") if op == "u" else None
    former = None if former is None else _columns_of("before", former)
    return Change(_OPS[op], row, (*_place(source, op), _RANKS[op]), former)


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
