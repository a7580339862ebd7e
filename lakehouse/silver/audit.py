"""Follows silver's log: the audit rows of each commit, computed from its change feed; and erases redacted values from them.

The rows are computed in ``audit_rows``, and stored, read and masked in ``audit_log``. The reason for a commit is taken from its
metadata.

The erasure is the only change of rows in this append-only table: it removes redacted values from the files. A redaction is a row
of ``bronze/<source>_redactions``, with its author and reason; ``audit_log.read`` masks by it at once. The commit that removes the
values names it, and ``delta.appendOnly`` is lifted for that commit. Two Delta transactions of the audit record the progress: the
number of redactions of a source for which all rows are masked, and when values were last removed.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse import locations, pieces
from lakehouse.delta import change_feed, commit_log, partition_writer, row_writer
from lakehouse.lake import table_io
from lakehouse.lateness import historical_rows as lateness_history
from lakehouse.ledger import ingestions, redactions
from lakehouse.silver import audit_log
from lakehouse.silver.audit_rows import AuditedCommit, audit_rows, needed_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from deltalake import DeltaTable

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

_log = logging.getLogger(__name__)
#: Up to this many newest versions without audit rows are read again each time; for more, an empty commit records the version.
_LOOKED_AT_AGAIN = 8


def follow(lake: Lake, contract: SourceContract, metrics: Collection[MetricContract]) -> int:
    """Audit every version of silver that has not been audited yet, each in one commit.

    :returns: the number of rows written.
    """
    lake = lake.cached()
    source = contract.dataset
    stored = locations.silver(lake, source)
    stored.newest_version()  # what is read after the table has to be as new
    table = stored.open()
    if table is None:
        return 0
    silver_id, newest = commit_log.identity(table), table.version()
    done = audit_log.followed(lake, source, silver_id)
    if done >= newest:
        return 0
    known = redactions.all_of(lake, source)  # read after the table: it contains all redactions that the commits list
    commits = {commit["version"]: commit for commit in commit_log.history(table, done)}
    lost = newest - done - len(commits)
    entries = ingestions.ingested(ingestions.all_of(lake, source)).values()
    firsts, since = _first_arrivals(entries), lateness_history.followed_since(entries)
    written, marked = 0, done
    for version, commit in sorted(commits.items()):
        cause = audit_log.cause(lake, source, commit_log.commit_metadata(commit), known)
        audited = AuditedCommit(contract, metrics, cause, known, version, lake.now(), firsts, since)
        try:
            parts = pieces.counted("changes audited", _parts(table, contract, version))
            rows = pa.concat_tables(pieces.mapped(partial(audit_rows, commit=audited), parts))
        except change_feed.ForgottenFeedError:
            lost += 1
            continue
        if len(rows):
            written += audit_log.append(lake, source, silver_id, version, rows, len(known))
            marked = version
    if lost:
        _log.warning("%d versions of silver/%s are gone from its log or its files: they are not audited", lost, source)
    if newest - marked > _LOOKED_AT_AGAIN:
        audit_log.append(lake, source, silver_id, newest, audit_log.SCHEMA.empty_table())
    erase(lake, source)  # redactions recorded during this run, or by a process that was stopped before it erased
    return written


def _parts(table: DeltaTable, contract: SourceContract, version: int) -> Iterator[pa.Table]:
    """The change feed of a version in parts, see ``change_feed.parts_of_feed``.

    :raises ForgottenFeedError: when its files are gone.
    """
    columns = needed_columns(contract, [*(field.name for field in table.schema().fields), "_change_type"])
    return change_feed.parts_of_feed(table, version, version, columns)


def _first_arrivals(entries: Collection[ingestions.Ingestion]) -> pa.Table:
    """The first arrival day of each event day, from the ledger: all rows in silver belong to recorded ingestions."""
    brought = {
        (day, entry.arrival_date) for entry in entries for day, rows in zip(entry.touched_days, entry.touched_rows) if rows
    }
    days, arrivals = ([pair[place] for pair in brought] for place in range(2))
    return lateness_history.first_arrivals(pa.table([days, arrivals], schema=lateness_history.FIRST_ARRIVALS))


_LIFTED = {**audit_log.PROPERTIES, "delta.appendOnly": "false"}
_ERASED = "audit erased"
_HOUR = 3600


@row_writer.retried_on_conflict
def erase(lake: Lake, source: str) -> int:
    """Mask the redacted fields of a source in all rows that show one, in one commit; repeating it writes nothing.

    Files with the values then no longer belong to the table; maintenance deletes them, see :func:`hours_since`.

    :returns: the number of rows rewritten.
    :raises CommitFailedError: when other writers win eight times in a row.
    """
    stored = locations.audit_log(lake)
    known = stored.open()
    entries = [] if known is None else redactions.all_of(lake, source)
    if known is None or (known.transaction_version(audit_log.masked_id(source)) or 0) >= len(entries):
        return 0
    table = stored.snapshot()
    assert table is not None  # noqa: S101 (it was just open)
    masked = (audit_log.masked_id(source), len(entries))
    why = _why(source, entries, _unmasked(table, source, entries))
    if not why["redactions"]:
        partition_writer.commit_without_rows(table, why=why, transaction=masked)
        return 0
    try:
        partition_writer.set_properties(table, _LIFTED, why)
        rows = _unmasked(table, source, entries)  # again: the table is at its newest version only now
        erased = (_ERASED, int(time.time()))
        row_writer.merge(
            table,
            rows.select([*audit_log.AUDIT_ROW, *audit_log.VALUES]),
            audit_log.AUDIT_ROW,
            partition_by="source",
            properties=partition_writer.commit_properties(_why(source, entries, rows), masked, erased),
        )
    finally:
        _restore(lake)
    return len(rows)


def erase_all(lake: Lake) -> None:
    """Run :func:`erase` for every source in the audit, also after a process was stopped while ``delta.appendOnly`` was lifted."""
    table = locations.audit_log(lake).open()
    for partition in [] if table is None else table.partitions():
        erase(lake, partition["source"])
    _restore(lake)


def hours_since(table: DeltaTable) -> int | None:
    """The age in hours from which files that left the audit may hold erased values; None if nothing was ever erased.

    It includes a margin of one hour, because the commit of an erasure is a little later than the time that it records.
    """
    erased = table.transaction_version(_ERASED)
    return None if erased is None else max(0, int(time.time() - erased) // _HOUR - 1)


@row_writer.retried_on_conflict
def _restore(lake: Lake) -> None:
    table = locations.audit_log(lake).snapshot()
    if table is not None:
        partition_writer.set_properties(table, audit_log.PROPERTIES)


def _unmasked(table: DeltaTable, source: str, entries: Collection[redactions.Redaction]) -> pa.Table:
    """The rows that show a redacted value, masked."""
    fields = audit_log.redacted_fields(entries)
    found = table_io.read_version(table, audit_log.SCHEMA.names, {"source": [source], "event_id": list(fields)})
    rows = found.cast(audit_log.SCHEMA).to_pylist()
    changed = [hidden for row in rows if (hidden := audit_log.masked(row, fields[row["event_id"]])) != row]
    return pa.Table.from_pylist(changed, schema=audit_log.SCHEMA)


def _why(source: str, entries: Collection[redactions.Redaction], rows: pa.Table) -> dict[str, Any]:
    """The metadata of an erasure: the redactions of the keys of ``rows``, each with author and reason."""
    keys = set(rows["event_id"].to_pylist())
    named = [entry for entry in entries if entry.record_key in keys]
    return {
        "erasure": source,
        "redactions": [{"id": entry.redaction_id, "by": entry.by, "reason": entry.reason} for entry in named],
    }
