"""``ops/journal``: a second copy of the entries that no other table contains, by table and commit.

A file that was lost can be sent again; what a person decided is written nowhere else. Each append to a log of decisions is
therefore repeated here, with the id of the log's commit. A log that no longer holds this commit was restored from a copy, or its
newest entry was lost or emptied: the missing entries are appended again before anything is read. A damaged journal protects
nothing, and harms nothing.

Entries that were written before the journal existed are not in it.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lakehouse.delta import lost_commits, partition_writer, row_writer
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_io

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from deltalake import DeltaTable

    from lakehouse.lake import Table

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


def note(log: Journaled, rows: Sequence[Mapping[str, Any]], app_id: str | None, app_version: int) -> None:
    """Repeat rows that were appended to a log just now."""
    table = log.table.snapshot()
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
        if newest is not None and lost_commits.are_lost(table, newest["table_version"], newest["commit_id"]):
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
    held = [row["table_version"] for row in known if not lost_commits.are_lost(table, row["table_version"], row["commit_id"])]
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
                app_id=row["app_id"] or f"journal:{row['table_version']}:{row['commit_id']}",
                app_version=row["app_version"],
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
        "commit_id": lost_commits.commit_id(table),
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
