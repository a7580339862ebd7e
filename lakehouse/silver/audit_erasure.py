"""Erasure: removes redacted values from the files of the audit. It is the only change of rows in this append-only table.

A redaction is a row of ``bronze/<source>_redactions``, with its author and reason; ``audit_log.read`` masks by it at once. The
commit that removes the values names it, and ``delta.appendOnly`` is lifted for that commit. Two Delta transactions of the audit
record the progress: the number of redactions of a source for which all rows are masked, and when values were last removed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import partition_writer, row_writer
from lakehouse.lake import table_io
from lakehouse.ledger import redactions
from lakehouse.silver import audit_log, audit_notifications

if TYPE_CHECKING:
    from collections.abc import Collection

    from deltalake import DeltaTable

    from lakehouse.lake import Lake
    from lakehouse.ledger.redactions import Redaction


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
            rows.select([*audit_notifications.AUDIT_ROW, *audit_log.VALUES]),
            audit_notifications.AUDIT_ROW,
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


def _unmasked(table: DeltaTable, source: str, entries: Collection[Redaction]) -> pa.Table:
    """The rows that show a redacted value, masked."""
    fields = audit_log.redacted_fields(entries)
    found = table_io.read_version(table, audit_log.SCHEMA.names, {"source": [source], "event_id": list(fields)})
    rows = found.cast(audit_log.SCHEMA).to_pylist()
    changed = [hidden for row in rows if (hidden := audit_log.masked(row, fields[row["event_id"]])) != row]
    return pa.Table.from_pylist(changed, schema=audit_log.SCHEMA)


def _why(source: str, entries: Collection[Redaction], rows: pa.Table) -> dict[str, Any]:
    """The metadata of an erasure: the redactions of the keys of ``rows``, each with author and reason."""
    keys = set(rows["event_id"].to_pylist())
    named = [entry for entry in entries if entry.record_key in keys]
    return {
        "erasure": source,
        "redactions": [{"id": entry.redaction_id, "by": entry.by, "reason": entry.reason} for entry in named],
    }
