"""Histories of a small table, written as the change feeds that databases give of it.

:func:`table_after` is the model: what the table holds in the end. The formats follow their public documentation.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from lakehouse.contracts.record_changes import COMMIT_TIME
from lakehouse.contracts.source import SourceContract

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

DAYS = [date(2024, 1, day) for day in range(1, 5)]
KEYS = [1, 2, 3]
MOST_CHANGES = 9
#: A change is three records at most: what it deletes, a tombstone, what it creates.
MOST_RECORDS = 3 * MOST_CHANGES
MOST_FILES = 4
_WRITTEN_AT = datetime(2024, 1, 20, tzinfo=timezone.utc)
Values = dict[str, Any]


@dataclass(frozen=True)
class RowState:
    """A row of the table."""

    id: int
    amount: int
    day: date

    @property
    def values(self) -> Values:
        """As a database gives it."""
        return {"id": self.id, "amount": self.amount, "ordered_at": f"{self.day}T12:00:00Z"}


@dataclass(frozen=True)
class RowChange:
    """A statement about one row: ``before`` is None for an insert, ``after`` for a delete; an update may change the key.

    ``number`` counts the statements, ``transaction`` the transactions.
    """

    before: RowState | None
    after: RowState | None
    number: int
    transaction: int


def intervals_after(history: Iterable[RowChange]) -> set[tuple[str, datetime, datetime | None, int]]:
    """When which amount was in the table, by key: from a commit to the one that changes it."""
    closed: set[tuple[str, datetime, datetime | None, int]] = set()
    begun: dict[int, tuple[datetime, int]] = {}
    for change in history:
        at, kept = _committed(change), change.after.id if change.after else None
        for row in (change.before, change.after):
            if row and row.id in begun and not (row.id == kept and change.after and begun[row.id][1] == change.after.amount):
                since, amount = begun.pop(row.id)
                closed.add((f"{row.id}", since, at, amount))
        if change.after:
            begun.setdefault(change.after.id, (at, change.after.amount))
    return closed | {(f"{key}", since, None, amount) for key, (since, amount) in begun.items()}


def table_after(history: Iterable[RowChange]) -> dict[int, RowState]:
    """What the table holds in the end, by key."""
    table: dict[int, RowState] = {}
    for change in history:
        if change.before:
            del table[change.before.id]
        if change.after:
            table[change.after.id] = change.after
    return table


@st.composite
def row_histories(draw: st.DrawFn) -> list[RowChange]:
    """Inserts, updates, updates of the key and deletes of up to three rows; some share a transaction."""
    table: dict[int, RowState] = {}
    history: list[RowChange] = []
    transaction = 0
    for number in range(draw(st.integers(1, MOST_CHANGES))):
        transaction += draw(st.integers(0, 1))
        key = draw(st.sampled_from(KEYS))
        new = RowState(key, draw(st.integers(0, 3)), draw(st.sampled_from(DAYS)))
        before = table.pop(key, None)
        free = sorted({*KEYS} - table.keys() - {key})
        after: RowState | None = new
        if before:
            kind = draw(st.sampled_from(["update", "delete", "move"] if free else ["update", "delete"]))
            after = None if kind == "delete" else replace(new, id=draw(st.sampled_from(free))) if kind == "move" else new
        history.append(RowChange(before, after, number, transaction))
        if after:
            table[after.id] = after
    return history


@dataclass(frozen=True)
class Feed:
    """A way to write a history: ``records`` gives the records of a change, in the order of the database.

    A record is a JSON value; the columns of a flat one may also be written as CSV or Parquet.
    """

    envelope: str
    records: Callable[[RowChange], list[Any]]
    format: str = "json"

    @property
    def contract(self) -> SourceContract:
        """A source that reads it."""
        fields = [{"name": "id", "type": "int"}, {"name": "amount", "type": "int"}]
        return SourceContract.model_validate(
            {
                "dataset": "orders",
                "primary_key": ["id"],
                "model": {"fields": fields},
                "source": {"format": self.format, "envelope": self.envelope, "start_date": "2024-01-01"},
                "clocks": {"event": "ordered_at"},
            }
        )

    @property
    def dimension(self) -> SourceContract:
        """A dimension that reads it, whose changes begin with their commits."""
        plain = self.contract.model_dump(include={"dataset", "primary_key", "model", "source"})
        clocks = {"event": COMMIT_TIME[self.envelope] or "committed_at"}  # type: ignore[index]
        return SourceContract.model_validate({**plain, "kind": "dimension", "clocks": clocks, "dimension": {"buckets": 2}})

    def file(self, records: Sequence[Any]) -> bytes:
        """A file with these records."""
        if self.format == "json":
            return "".join(f"{json.dumps(record)}\n" for record in records).encode()
        names = list(dict.fromkeys(name for record in records for name in record))
        if self.format == "csv":
            rows = [",".join("" if record.get(name) is None else str(record[name]) for name in names) for record in records]
            return "".join(f"{line}\n" for line in (",".join(names), *rows)).encode()
        stream = io.BytesIO()
        pq.write_table(pa.table({name: [record.get(name) for record in records] for name in names}), stream)
        return stream.getvalue()


def postgres_source(change: RowChange) -> Values:
    """Debezium's ``source`` of PostgreSQL: each change has its place in the log."""
    return {"connector": "postgresql", "lsn": 24_023_128 + 56 * change.number, "txId": change.transaction, "ts_ms": _ms(change)}


def mysql_source(change: RowChange) -> Values:
    """Debezium's ``source`` of MySQL: the statements of a transaction are rows of one event; logs are changed on the way."""
    file = f"mysql-bin.{999_998 + change.transaction}"
    return {"connector": "mysql", "file": file, "pos": 4, "row": change.number, "ts_ms": _ms(change)}


def sql_server_source(change: RowChange) -> Values:
    """Debezium's ``source`` of SQL Server."""
    commit, own = (f"00000027:{place:08X}:0003" for place in (8 + change.transaction, 8 + change.number))
    return {"connector": "sqlserver", "commit_lsn": commit, "change_lsn": own, "event_serial_no": 1, "ts_ms": _ms(change)}


def debezium(
    source: Callable[[RowChange], Values],
    *,
    wrapped: bool = False,
    before: str = "full",
    moves: str = "two events",
    snapshot: int = 0,
) -> Feed:
    """Debezium's events.

    :param wrapped: whether with ``schema`` and ``payload``.
    :param before: what an event holds of the row before: ``full``, only its ``key``, or, of an update, ``nothing``.
    :param moves: an update of the key is ``two events`` or ``one event``, which needs the key before.
    :param snapshot: so many changes are read from the table by a snapshot if they are inserts.
    """

    def event(op: str, change: RowChange, old: RowState | None, new: RowState | None) -> Values:
        former = None if old is None or (op == "u" and before == "nothing") else old.values
        if former and before == "key":
            former = dict.fromkeys(former) | {"id": former["id"]}
        after = None if new is None else new.values
        values = {"before": former, "after": after, "source": source(change), "op": op, "ts_ms": _ms(change), "transaction": None}
        return {"schema": {"type": "struct"}, "payload": values} if wrapped else values

    def records(change: RowChange) -> list[Any]:
        old, new = change.before, change.after
        is_move = old is not None and new is not None and old.id != new.id
        if old is None or new is None or (is_move and moves == "two events"):
            created = [event("r" if change.number < snapshot else "c", change, None, new)] if new else []
            return [*([event("d", change, old, None), None] if old else []), *created]
        return [event("u", change, old, new)]

    return Feed("debezium", records)


def sql_server(form: str, *, moves: str = "3 and 4") -> Feed:
    """The rows of a change table.

    :param moves: the operations by which an update of the key is told: ``3 and 4`` or ``1 and 2``.
    """

    def records(change: RowChange) -> list[Any]:
        lsn = f"0x{1_000 + change.transaction:020x}" if form == "csv" else f"{1_000 + change.transaction:020X}"
        place = {"__$start_lsn": lsn, "__$seqval": f"0x{1_000 + change.number:020X}", "__$update_mask": "0x07"}
        place["committed_at"] = _committed(change).isoformat()
        is_update = change.before is not None and change.after is not None
        is_move = change.before is not None and change.after is not None and change.before.id != change.after.id
        operations = (3, 4) if is_update and not (is_move and moves == "1 and 2") else (1, 2)
        sides = zip(operations, (change.before, change.after))
        return [{**place, "__$operation": operation, **row.values} for operation, row in sides if row]

    return Feed("sqlserver", records, form)


def delta_feed(form: str) -> Feed:
    """The rows of a Delta table's change feed; each change is a commit."""

    def records(change: RowChange) -> list[Any]:
        is_update = change.before is not None and change.after is not None
        kinds = ("update_preimage", "update_postimage") if is_update else ("delete", "insert")
        commit = {"_commit_version": change.number, "_commit_timestamp": f"{_committed(change)}"}
        sides = zip(kinds, (change.before, change.after))
        return [{**row.values, "_change_type": kind, **commit} for kind, row in sides if row]

    return Feed("delta_feed", records, form)


#: Every way to write a history, by name.
FEEDS = {
    "debezium of postgresql": debezium(postgres_source),
    "debezium of postgresql, wrapped, after a snapshot": debezium(postgres_source, wrapped=True, snapshot=3),
    "debezium of postgresql, keys only": debezium(postgres_source, before="key", moves="one event"),
    "debezium of postgresql, nothing before": debezium(postgres_source, before="nothing"),
    "debezium of mysql": debezium(mysql_source),
    "debezium of sql server": debezium(sql_server_source, moves="one event", snapshot=2),
    "sql server, csv": sql_server("csv"),
    "sql server, json": sql_server("json", moves="1 and 2"),
    "sql server, parquet": sql_server("parquet"),
    "delta feed, csv": delta_feed("csv"),
    "delta feed, json": delta_feed("json"),
    "delta feed, parquet": delta_feed("parquet"),
}


@dataclass(frozen=True)
class SentHistory:
    """A history whose records are sent in any order, some of them twice, in up to four files.

    :param again: the places of the records that are sent twice.
    :param order: the rank of each record; there are more ranks than records.
    :param cuts: where a file ends, in twelfths of the records.
    """

    history: list[RowChange]
    again: Sequence[int]
    order: Sequence[int]
    cuts: Sequence[int]

    def files(self, feed: Feed) -> list[bytes]:
        """The files of a feed that sends the history."""
        records = [record for change in self.history for record in feed.records(change)]
        records += [records[place % len(records)] for place in self.again]
        shuffled = [record for _, record in sorted(zip(self.order, records), key=itemgetter(0))]
        cuts = [len(shuffled) * cut // 12 for cut in sorted(self.cuts)]
        parts = [shuffled[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(shuffled)])]
        return list(dict.fromkeys(feed.file(part) for part in parts if part))


_TABLE = [RowState(1, 1, DAYS[0]), RowState(2, 1, DAYS[1]), RowState(1, 2, DAYS[2]), RowState(3, 1, DAYS[1])]
#: Two rows are inserted at once; one moves to another day, the other one to another key; the first is deleted and comes again at
#: once. The records come backwards, in two files, the first one also at the end.
BACKWARD = SentHistory(
    [
        RowChange(None, _TABLE[0], 0, 0),
        RowChange(None, _TABLE[1], 1, 0),
        RowChange(_TABLE[0], _TABLE[2], 2, 1),
        RowChange(_TABLE[1], _TABLE[3], 3, 1),
        RowChange(_TABLE[2], None, 4, 2),
        RowChange(None, _TABLE[0], 5, 2),
    ],
    again=[0],
    order=range(MOST_RECORDS + 2, 0, -1),
    cuts=[6],
)


def sent_histories() -> st.SearchStrategy[SentHistory]:
    """Any history, sent in any way."""
    return st.builds(
        SentHistory,
        row_histories(),
        again=st.lists(st.integers(0, MOST_RECORDS), max_size=2),
        order=st.permutations(range(MOST_RECORDS + 2)),
        cuts=st.lists(st.integers(0, 12), max_size=MOST_FILES - 1),
    )


def _committed(change: RowChange) -> datetime:
    return _WRITTEN_AT + timedelta(minutes=change.number)


def _ms(change: RowChange) -> int:
    return int(_committed(change).timestamp() * 1000)
