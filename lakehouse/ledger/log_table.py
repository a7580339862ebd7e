"""A log: a table whose rows are the entries of one dataclass, with a second copy of what people decided.

Every log of the product that reads its rows as Python objects is a :class:`LogTable`; its Arrow schema is derived from the class.
Tables with one row per row of Bronze (the key log, the dispositions, the audit) are processed as Arrow tables and define their
schema themselves.

The columns are the fields in the order of the class, all of them nullable:

==================================================  ==========================================================
Annotation (``... | None`` changes nothing)         Column
==================================================  ==========================================================
``str``, ``Literal``, an :class:`~enum.Enum`        string; the value of the enum
``int``, :data:`Int32`, ``bool``                    int64, int32, bool
``date``, ``datetime``                              date32, timestamp in microseconds, UTC
``list[...]`` of one of these                       list
``Mapping[...]``                                    string, the mapping as JSON
==================================================  ==========================================================

A field is named like its column, unless its metadata names another ``column``.

``ops/journal`` has the second copy, by table and commit. A file that was lost can be sent again; what a person decided is written
nowhere else. Each append to a log of decisions is therefore repeated in the journal, with the id of the log's commit. A log that
no longer holds this commit was restored from a copy, or its newest entry was lost or emptied: the missing entries are appended
again before anything is read. A damaged journal protects nothing, and harms nothing. Entries that were written before the journal
existed are not in it.
"""

from __future__ import annotations

import json
import logging
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from datetime import date, datetime, timezone
from enum import Enum
from functools import lru_cache, partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import commit_log, partition_writer, row_writer
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_io

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from deltalake import DeltaTable

    from lakehouse.lake import Lake, Table
    from lakehouse.lake.table_cache import Answer

Row = TypeVar("Row")
#: An integer that is stored in 32 bits.
Int32 = Annotated[int, pa.int32()]

_TYPES: dict[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    bool: pa.bool_(),
    date: pa.date32(),
    datetime: pa.timestamp("us", "UTC"),
}
#: Names that the modules of the entries import for type checking only.
_NAMES: dict[str, Any] = {"date": date, "datetime": datetime, "Mapping": Mapping, "Int32": Int32}


class LogTable(Generic[Row]):
    """The log of one entry type at one address.

    :param table: the table, see :mod:`lakehouse.locations`.
    :param partition_by: the column that the table is partitioned by. If it is a property of the entry instead of a field, it
        is the first column of the table.
    :param sort_keys: whether the JSON of mappings has its keys in alphabetical order.
    :param journaled: whether the entries are repeated in ``ops/journal``, from which lost ones are restored.
    """

    def __init__(
        self,
        row: type[Row],
        lake: Lake,
        table: Table,
        *,
        partition_by: str | None = None,
        sort_keys: bool = True,
        journaled: bool = False,
    ) -> None:
        self.table = table
        self._row, self._partition_by = row, partition_by
        self._encode_mapping = partial(json.dumps, default=str, sort_keys=sort_keys)
        self._columns = _columns_of(cast("Hashable", row), partition_by)
        self._journaled: Journaled | None = None
        if journaled:
            partitions = [partition_by] if partition_by else None
            self._journaled = Journaled(table, locations.journal(lake), self.schema, partitions)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return pa.schema([(column.name, column.type) for column in self._columns])

    def to_row(self, entry: Row) -> dict[str, Any]:
        """The values of an entry as they are stored, by column."""
        return {column.name: self._stored(column, column.value_of(entry)) for column in self._columns}

    def append(
        self, entries: Iterable[Row], *, app_id: str | None = None, app_version: int = 1, since: int | None = None
    ) -> bool:
        """Append entries in one commit; see :func:`lakehouse.delta.row_writer.append`.

        :returns: whether they were written: an ``app_id`` is written once.
        """
        self._ensure_whole()
        rows = [self.to_row(entry) for entry in entries]
        is_written = row_writer.append(
            self.table,
            pa.Table.from_pylist(rows, schema=self.schema),
            partition_by=[self._partition_by] if self._partition_by else None,
            once=None if app_id is None else row_writer.Once(app_id, app_version, since),
        )
        if is_written and self._journaled is not None:
            note_in_journal(self._journaled, rows, app_id, app_version)
        return is_written

    def _ensure_whole(self) -> None:
        if self._journaled is not None:
            ensure_whole(self._journaled)

    @row_writer.retried_on_conflict
    def append_missing(self, entries: Iterable[Row], app_id_of: Callable[[Row], str], where: table_io.Where) -> None:
        """Append in one commit the entries that the table does not contain, identified by their ids.

        :param where: selects the rows that may have one of the ids, as in :meth:`read`.
        :raises CommitFailedError: when other writers win eight times in a row.
        """
        partitions = [self._partition_by] if self._partition_by else None
        table = row_writer.open_or_create(self.table, self.schema, partitions)
        rows = table_io.read_version(table, self.schema.names, where).cast(self.schema)
        recorded = {app_id_of(entry) for entry in self.entries(rows)}
        missing = {app_id_of(entry): self.to_row(entry) for entry in entries if app_id_of(entry) not in recorded}
        new = pa.Table.from_pylist(list(missing.values()), schema=self.schema)
        row_writer.append_new(self.table, table, [new], missing)

    def read(self, where: table_io.Where | None = None) -> list[Row]:
        """The entries that meet ``where`` (see :func:`lakehouse.lake.Table.read`), in no particular order."""
        return list(self.derived("entries", lambda: self._parsed(where or {}), where))

    def _parsed(self, where: table_io.Where) -> list[Row]:
        is_of_partitions = where.keys() <= {self._partition_by}
        if not is_of_partitions:
            return self.entries(self.select(None, where))
        table = self.table.open()
        schema = self.schema
        if table is None:
            return self.entries(schema.empty_table())
        return self.table.parsed(table, where, lambda rows: self.entries(table_io.with_columns(rows, schema.names).cast(schema)))

    def derived(
        self, name: str, compute: Callable[[], Answer], where: table_io.Where | None = None, also: Hashable = None
    ) -> Answer:
        """The result of ``compute``, computed from the rows that meet ``where``; a table cache keeps it until the table changes.

        :param name: distinguishes the result from other results that are computed from the same rows.
        :param also: anything else that the result depends on, such as the version of another table.
        """
        self._ensure_whole()
        table = self.table.open()
        if table is None:
            return compute()
        return self.table.answer(table, table_io.question(self.table.address, None, where, name), compute, also)

    def select(self, columns: Sequence[str] | None = None, where: table_io.Where | None = None) -> pa.Table:
        """The rows that meet ``where`` as an Arrow table of ``columns`` (default: all); empty if the table does not exist."""
        self._ensure_whole()
        schema = self.schema
        names = schema.names if columns is None else list(columns)
        wanted = pa.schema([schema.field(name) for name in names])
        rows = self.table.read(names, where)
        return wanted.empty_table() if rows is None else rows.cast(wanted)

    def entries(self, rows: pa.Table) -> list[Row]:
        """The entries of rows with all columns."""
        columns = {column.field: column for column in self._columns if column.field is not None}
        values = [column.values_in(rows[column.name].combine_chunks()) for column in columns.values()]
        return [self._row(**dict(zip(columns, entry))) for entry in zip(*values)]

    def _stored(self, column: _Column, value: Any) -> Any:
        if isinstance(value, Enum):
            return value.value
        return self._encode_mapping(value) if column.is_json and value is not None else value


@dataclass(frozen=True)
class _Column:
    """A column, and the field that it stores; ``field`` is None if it stores a property of the entry."""

    name: str
    type: pa.DataType
    field: str | None
    value_of: Callable[[Any], Any]
    decode: Callable[[Any], Any] | None = None
    is_json: bool = False
    default: Callable[[], Any] | None = None

    def values_in(self, stored: pa.Array) -> list[Any]:
        """The values of the field; NULL becomes the field's default, because its column may have been added later."""
        values = _objects(stored, self.decode)
        if self.default is None or not stored.null_count:
            return values
        return [self.default() if value is None else value for value in values]


@lru_cache(maxsize=64)
def _columns_of(row: Any, partition_by: str | None) -> tuple[_Column, ...]:
    """:raises TypeError: for a field whose type no column can hold."""
    hints = get_type_hints(row, localns=_NAMES, include_extras=True)
    columns = [_column(item, hints[item.name]) for item in fields(row)]
    if partition_by is not None and partition_by not in {column.name for column in columns}:
        columns.insert(0, _Column(partition_by, pa.string(), None, attrgetter(partition_by)))
    return tuple(columns)


def _column(item: Field[Any], hint: Any) -> _Column:
    optional = get_origin(hint) in {Union, types.UnionType}
    (kind, *others) = [part for part in get_args(hint) if part is not type(None)] if optional else [hint]
    origin = get_origin(kind) or kind
    if others or (stored := _stored_type(kind, origin)) is None:
        msg = f"no column holds the field {item.name} of type {hint}; see the table in lakehouse.ledger.log_table"
        raise TypeError(msg)
    is_json, is_enum = origin is Mapping, isinstance(origin, type) and issubclass(origin, Enum)
    return _Column(
        name=item.metadata.get("column", item.name),
        type=stored,
        field=item.name,
        value_of=attrgetter(item.name),
        decode=json.loads if is_json else origin if is_enum else None,
        is_json=is_json,
        default=_default_of(item),
    )


def _default_of(item: Field[Any]) -> Callable[[], Any] | None:
    if item.default_factory is not MISSING:
        return item.default_factory
    return None if item.default is MISSING else lambda: item.default


def _objects(values: pa.Array, decode: Callable[[Any], Any] | None = None) -> list[Any]:
    """The values as Python objects. Equal values share one object: creating dates would otherwise take most of the time of
    reading a log.

    :param decode: makes the value of a field from a stored value, which is not None.
    """
    if pa.types.is_list(values.type):
        members = iter(_objects(values.flatten()))
        return [None if length is None else list(islice(members, length)) for length in values.value_lengths().to_pylist()]
    coded = values.dictionary_encode(null_encoding="encode")
    distinct = _times(coded.dictionary) if pa.types.is_timestamp(values.type) else coded.dictionary.to_pylist()
    if decode is not None:
        distinct = [None if value is None else decode(value) for value in distinct]
    return [distinct[code] for code in coded.indices.to_pylist()]


def _times(values: pa.Array) -> list[datetime | None]:
    """Times in UTC, converted through NumPy: Arrow would look up the time zone of each."""
    plain = values.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False).tolist()
    return [None if time is None else time.replace(tzinfo=timezone.utc) for time in plain]


def _stored_type(kind: Any, origin: Any) -> pa.DataType | None:
    if origin is Annotated:
        return next(extra for extra in get_args(kind)[1:] if isinstance(extra, pa.DataType))
    if origin is list:
        (member,) = get_args(kind)
        inner = _stored_type(member, get_origin(member) or member)
        return None if inner is None else pa.list_(inner)
    if origin in {Literal, Mapping} or (isinstance(origin, type) and issubclass(origin, Enum)):
        return pa.string()
    return _TYPES.get(kind)


_LOG = logging.getLogger(__name__)
_WHY = {"lost_commits": "entries of ops/journal were written again"}
_SCHEMA = pa.schema(
    [
        ("table_name", pa.string()),
        ("table_version", pa.int64()),
        ("commit_id", pa.string()),
        ("app_id", pa.string()),
        ("app_version", pa.int64()),
        ("entries", pa.list_(pa.string())),
    ]
)
#: Per address the state in which this process found a log whole.
_WHOLE: dict[str, Hashable] = {}


class LostEntriesError(LakehouseError):
    """A log has lost entries that cannot be written again. The message names the table and what to do."""


class Journaled(NamedTuple):
    """A log with a copy of its entries: both tables, and its columns."""

    table: Table
    journal: Table
    schema: pa.Schema
    partition_by: Sequence[str] | None

    @property
    def name(self) -> str:
        """Layer and name."""
        return self.table.name


def note_in_journal(log: Journaled, rows: Sequence[Mapping[str, Any]], app_id: str | None, app_version: int) -> None:
    """Repeat rows that were appended to a log just now."""
    table = log.table.open()
    if table is not None:
        _write(log, table, [json.dumps(row, default=str) for row in rows], app_id, app_version)


def ensure_whole(log: Journaled) -> None:
    """Append the entries again that a log has lost.

    On an object store this is checked once per process, because every look costs a request.

    :raises LostEntriesError: if the log cannot be written.
    """
    if "://" in log.table.address and log.table.address in _WHOLE:
        return
    table = log.table.open()
    state = _state(log.table.address, table)
    if log.table.address in _WHOLE and _WHOLE[log.table.address] == state:
        return
    journal = log.journal.open()
    if journal is not None:
        where = {"table_name": [log.name]}
        known = table_io.read_version(journal, ["table_version", "commit_id"], where).to_pylist()
        newest = max(known, key=lambda row: row["table_version"], default=None)
        if newest is not None and commit_log.are_lost(table, newest["table_version"], newest["commit_id"]):
            log.table.newest_version()  # it may have been looked at before the commit that the journal names
            table = log.table.open()
        if newest is not None and commit_log.are_lost(table, newest["table_version"], newest["commit_id"]):
            try:
                table = _restore(log, table, table_io.read_version(journal, _SCHEMA.names, where).to_pylist())
            except OSError as problem:
                msg = (
                    f"{log.name} has lost entries that ops/journal contains, and cannot be written ({problem}): run the command "
                )
                raise LostEntriesError(f"{msg}with the right to write the lake, or restore a newer copy of the table") from None
            state = _state(log.table.address, table)
    _WHOLE[log.table.address] = state


def forget() -> None:
    """Look at all logs again, as a new process does."""
    _WHOLE.clear()


def _restore(log: Journaled, table: DeltaTable | None, known: Sequence[Mapping[str, Any]]) -> DeltaTable:
    """Append the lost entries, commit by commit as they were, and go on behind the versions that were followed."""
    held = [row["table_version"] for row in known if not commit_log.are_lost(table, row["table_version"], row["commit_id"])]
    followed, kept = max(row["table_version"] for row in known), max(held, default=-1)
    lost = sorted((row for row in known if row["table_version"] > kept), key=lambda row: row["table_version"])
    count = sum(len(row["entries"]) for row in lost)
    _LOG.warning("%s does not hold commit %d any more: its last %d entries are written again", log.name, followed, count)
    for row in lost:
        if row["entries"]:
            row_writer.append(
                log.table,
                _rows(row["entries"], log.schema),
                partition_by=log.partition_by,
                once=row_writer.Once(row["app_id"] or f"journal:{row['table_version']}:{row['commit_id']}", row["app_version"]),
            )
    whole = row_writer.open_or_create(log.table, log.schema, log.partition_by)
    whole.update_incremental()
    while whole.version() <= followed:  # no number is given a second time
        partition_writer.commit_without_rows(whole, why=_WHY)
        whole.update_incremental()
    _write(log, whole, [], None, 1)
    return whole


def _write(log: Journaled, table: DeltaTable, entries: list[str], app_id: str | None, app_version: int) -> None:
    row = {
        "table_name": log.name,
        "table_version": table.version(),
        "commit_id": commit_log.commit_id(table),
        "app_id": app_id,
        "app_version": app_version,
        "entries": entries,
    }
    rows = pa.Table.from_pylist([row], schema=_SCHEMA)
    row_writer.append(log.journal, rows, partition_by=["table_name"])
    _WHOLE[log.table.address] = _state(log.table.address, table)


def _rows(entries: Sequence[str], schema: pa.Schema) -> pa.Table:
    values = [json.loads(entry) for entry in entries]
    columns = [pa.array([row.get(item.name) for row in values]).cast(item.type) for item in schema]
    return pa.table(columns, schema=schema)


def _state(path: str, table: DeltaTable | None) -> Hashable:
    """What changes when a log gets or loses a commit, also when its newest entry is emptied."""
    if table is None or "://" in path:
        return None
    entry = Path(path, "_delta_log", f"{table.version():020}.json")
    seen = entry.stat() if entry.exists() else None
    return table.version(), seen and (seen.st_mtime_ns, seen.st_size)
