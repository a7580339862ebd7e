"""The commits of a table: their metadata, a fingerprint of the state of tables, and the commits that a table has lost.

The metadata of commits is copied into a log, each commit once.

A table that is restored from a copy, or whose newest log entry is lost or emptied by a power failure, gives the same version
numbers to other commits. A follower of a table therefore stores an id of the commit with the version, and a table that has lost
commits gets another *lineage*: its followers start over, as with a table that was created again. Numbers of lost commits are not
reused, because logs of commits are kept by number.

The followed commits are recorded in ``ledger``; the recovery of a layer's lost commits belongs to that layer.
"""

from __future__ import annotations

import hashlib
import json
import logging
from datetime import date
from itertools import takewhile
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from lakehouse.delta import partition_writer, row_writer
from lakehouse.lake import table_folder
from lakehouse.lake.delta_rs_internals import commits_read, log_entries, log_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from deltalake import DeltaTable

    from lakehouse.lake import Table
    from lakehouse.lake.table_io import Within

    _Row = dict[str, Any]


#: In the metadata of a commit of files that were written here: how many rows were appended, None if files with other rows were
#: removed, too; delta-rs counts its own.
APPENDED = "appended_rows"
#: In the metadata of a commit to silver: the days whose rows it may have changed.
DAYS = "days"


def commit_metadata(commit: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata that the product wrote into a commit; empty for a commit of another writer (no JSON object)."""
    try:
        metadata = json.loads(commit.get("userMetadata") or "{}")
    except ValueError:
        return {}
    return metadata if isinstance(metadata, dict) else {}


def history(table: DeltaTable, after: int) -> list[dict[str, Any]]:
    """The commits after version ``after`` up to the table's version, newest first, as far as the log still has them."""
    known, versions = commits_read(table), range(table.version(), after, -1)
    missing = [version for version in versions if version not in known]
    for begin in range(0, len(missing), _COMMITS):
        some = missing[begin : begin + _COMMITS]
        entries = {version: entry for version, entry in zip(some, log_entries(table, some)) if entry is not None}
        known.update({version: _commit(entry) | {"version": version} for version, entry in entries.items()})
        if len(entries) < len(some):
            break
    return [dict(known[version]) for version in takewhile(known.__contains__, versions)]


def added_files(table: DeltaTable, first: int, last: int) -> set[str]:
    """The paths of the data files that versions ``first`` through ``last`` added, as the log writes them."""
    return {path for entry in log_entries(table, range(first, last + 1)) if entry for path in table_folder.new_files(entry)}


def versions_with(table: DeltaTable, first: int, column: str, days: Within) -> Iterator[int]:
    """The versions from ``first`` on that may have changed rows of some days: those that name the days, and whose files may hold
    some, by the statistics of the log. A commit that names none may have changed any day.

    :param column: the column of days.
    """
    may_hold: dict[str, bool] = {}
    versions = range(first, table.version() + 1)
    for some in (versions[begin : begin + _COMMITS] for begin in range(0, len(versions), _COMMITS)):
        for version, entry in zip(some, log_entries(table, some)):
            changes, concerns = entry is None, True
            for kind, action in table_folder.actions_of(entry or b""):
                if kind == "add":
                    may_hold[action["path"]] = days(*_bounds(action, column))
                if kind in {"add", "remove"} and action.get("dataChange", True):
                    changes |= may_hold.get(action["path"], True)
                if kind == "commitInfo" and (named := commit_metadata(action).get(DAYS)):
                    concerns = any(days(day, day) for day in map(date.fromisoformat, named))
            if changes and concerns:
                yield version


def _bounds(added: Mapping[str, Any], column: str) -> tuple[date | None, date | None]:
    """The first and the last day of an added file; None where the log does not say."""
    if column in (values := added.get("partitionValues") or {}):
        both = [values[column]] * 2
    else:
        known = json.loads(added.get("stats") or "{}")
        both = [known.get(kind, {}).get(column) for kind in ("minValues", "maxValues")]
    low, high = (None if value is None else date.fromisoformat(value) for value in both)
    return low, high


#: The number of commits that are read at once.
_COMMITS = 100


def _commit(entry: bytes) -> dict[str, Any]:
    """The metadata of a commit, as its log entry has them."""
    lines = (json.loads(line) for line in entry.splitlines() if b'"commitInfo"' in line)
    return next((dict(action["commitInfo"]) for action in lines if "commitInfo" in action), {})


def copy_from_log(
    followed: Table, target: Table, app_id: str, schema: pa.Schema, row_of: Callable[[_Row, _Row], _Row | None]
) -> int:
    """Write a row for each commit that has none in the target yet; several processes may do so at once.

    :param followed: the table whose commits are copied.
    :param target: the log.
    :param app_id: the Delta transaction of the target whose version is the last version that was copied.
    :param row_of: the row for a commit and its metadata; None if the commit belongs to another log.
    :returns: how many rows were written.
    """
    written = 0
    table = followed.open()
    if table is None:
        return 0
    (partition, *_) = schema.names
    while True:
        done = target.transaction(app_id) or 0
        candidates = [row_of(commit, commit_metadata(commit)) for commit in history(table, done)]
        rows = sorted((row for row in candidates if row is not None), key=lambda row: row["gold_version"])
        if not rows:
            return written
        new, version = pa.Table.from_pylist(rows, schema=schema), table.version()
        if row_writer.append(target, new, partition_by=[partition], once=row_writer.Once(app_id, version, done)):
            written += len(rows)  # else another process has copied rows meanwhile


def state_of(tables: Iterable[Table], *more: str) -> str:
    """A digest that changes when any of the tables is written to, deleted, created again or restored.

    :param more: other texts that the digest depends on.
    """
    states = [f"{table} {_state(table)}" for table in tables]
    return hashlib.sha256("\n".join([*states, *more]).encode()).hexdigest()[:32]


def _state(table: Table) -> str:
    """The table's id, version and time of commit: a restored table may reach the same version again."""
    opened = table.open()
    if opened is None:
        return "none"

    def read() -> str:
        committed = [commit.get("timestamp") for commit in history(opened, opened.version() - 1)]  # the newest commit
        return f"{opened.metadata().id} {opened.version()} {committed}"

    return table.answer(opened, (table.address, "state"), read)


_LOG = logging.getLogger(__name__)
#: The table property that differs once commits were lost.
_LINEAGE = "lakehouse.lineage"
#: The key of the metadata of commits that take the place of lost ones.
_COMMIT_KEY = "lost_commits"


def commit_id(table: DeltaTable | None, version: int | None = None) -> str:
    """The id of a commit: a digest of its log entry. Empty if there is none, or the log was shortened.

    :param version: by default the version at which the table was opened.
    """
    entry = None if table is None else log_entry(table, table.version() if version is None else version)
    return "" if entry is None else hashlib.sha256(entry).hexdigest()[:16]


def are_lost(table: DeltaTable | None, version: int, commit: str | None) -> bool:
    """Whether a table no longer holds a commit.

    :param version: of the commit; -1 for none, which cannot be lost.
    :param commit: its id; None or empty if an older release recorded the version without one: then the answer is False.
    """
    if version < 0 or not commit:
        return False
    if table is None or version > table.version():
        return True
    return commit_id(table, version) not in {"", commit}  # an entry that maintenance has removed proves nothing


def lineage(table: DeltaTable | None) -> str:
    """The lineage of a table: versions of different lineages cannot be compared. Empty if the table has never lost a commit."""
    return "" if table is None else str(table.metadata().configuration.get(_LINEAGE, ""))


def is_kept(lineage: str, earlier: str, version: int) -> bool:
    """Whether a table with ``lineage`` still holds a version that it had under the lineage ``earlier``.

    Each loss adds a part to the lineage: the newest version that was kept, and a random name.
    """
    before, since = earlier.split(".") if earlier else [], lineage.split(".") if lineage else []
    kept = [int(part.split("~")[0]) for part in since[len(before) :]]
    return since[: len(before)] == before and all(version <= newest for newest in kept)


def is_closed(table: DeltaTable, followed: int, since: int) -> bool:
    """Whether :func:`close_gap` with these versions was the last change of a table's lineage."""
    return table.version() > followed and lineage(table).split(".")[-1].startswith(f"{since}~")


def identity(table: DeltaTable) -> str:
    """The id of a table, and its lineage if it has lost commits."""
    return ":".join(filter(None, (f"{table.metadata().id}", lineage(table))))


def close_gap(target: Table, followed: int, since: int) -> DeltaTable | None:
    """Give a table that has lost commits another lineage, and advance it to the newest version that was followed.

    :param followed: the newest version that was followed.
    :param since: the newest version that is known to be kept, -1 without one.
    :returns: the table; None if it no longer exists.
    """
    table = advance(target, followed)
    if table is not None:  # else the caller decides what that means
        begin_lineage(table, followed, since)
    return table


def advance(target: Table, followed: int) -> DeltaTable | None:
    """Advance a table that has lost commits to the newest version that was followed. The loss is detected until
    :func:`begin_lineage`.

    The arguments and the result are those of :func:`close_gap`.
    """
    table = target.snapshot()
    if table is None:
        return None
    _LOG.warning(
        "%s does not hold commit %d any more, which others have followed: it was restored from a copy, or its log was damaged. "
        "What it lost is made up for from the layer below.",
        target.name,
        followed,
    )
    while table.version() < followed:
        partition_writer.commit_without_rows(table, why={_COMMIT_KEY: {"followed": followed}})
        table.update_incremental()
    return table


def begin_lineage(table: DeltaTable, followed: int, since: int) -> None:
    """Give a table another lineage; see :func:`close_gap`."""
    why: dict[str, Any] = {_COMMIT_KEY: {"followed": followed, "kept": since}}
    new_lineage = ".".join(filter(None, (lineage(table), f"{since}~{uuid4().hex[:8]}")))
    partition_writer.set_properties(table, {_LINEAGE: new_lineage}, why)
    table.update_incremental()
