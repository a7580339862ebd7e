"""The metadata of a table's commits: copied into a log, each commit once, and as a fingerprint of the state of tables."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.delta import row_writer
from lakehouse.lake.delta_rs_internals import newest_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from deltalake import DeltaTable

    from lakehouse.lake import Table

    _Row = dict[str, Any]


def commit_metadata(commit: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata that the product wrote into a commit; empty for a commit of another writer (no JSON object)."""
    try:
        metadata = json.loads(commit.get("userMetadata") or "{}")
    except ValueError:
        return {}
    return metadata if isinstance(metadata, dict) else {}


def history(table: DeltaTable, after: int) -> list[dict[str, Any]]:
    """The commits after version ``after`` up to the table's version, newest first, as far as the log still has them.

    delta-rs begins with the newest commit of the log but counts down from the version at which the table was opened: if
    others have committed since, each commit would get the number of an older one.
    """
    opened, before = table.version(), -1
    while before != (newest := newest_version(table)):
        before = newest
        commits = table.history(newest - after) if newest > after else []
    numbered = [commit | {"version": newest - place} for place, commit in enumerate(commits)]
    return [commit for commit in numbered if after < commit["version"] <= opened]


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
        log = target.open()
        done = (log.transaction_version(app_id) if log is not None else None) or 0
        candidates = [row_of(commit, commit_metadata(commit)) for commit in history(table, done)]
        rows = sorted((row for row in candidates if row is not None), key=lambda row: row["gold_version"])
        if not rows:
            return written
        new, version = pa.Table.from_pylist(rows, schema=schema), table.version()
        if row_writer.append(target, new, partition_by=[partition], app_id=app_id, app_version=version, since=done):
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
    committed = [commit.get("timestamp") for commit in opened.history(1)]  # the newest commit
    return f"{opened.metadata().id} {opened.version()} {committed}"
