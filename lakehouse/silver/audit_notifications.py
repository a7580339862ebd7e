"""``ops/audit_notifications``: a row per audit row of whose change all consumers were notified: the time, and the notices.

Belongs here: the table. Which audit rows a delivered notice covers is decided in ``operations.notices.pending``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import partition_writer, row_writer
from lakehouse.lake import table_io

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakehouse.lake import Lake


#: The columns that identify an audit row: silver that was created again has the same versions, and so the same ids.
AUDIT_ROW = ["source", "audit_id", "audit_ts"]
_TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("audit_id", pa.string()),
        ("audit_ts", _TIME),
        ("silver_version", pa.int64()),
        ("notified_at", _TIME),
        ("notices", pa.string()),
    ]
)


@row_writer.retried_on_conflict
def record(lake: Lake, source: str, rows: pa.Table) -> int:
    """Record in one commit that consumers were notified of the audit rows ``rows``; recorded ones are unchanged.

    :param rows: of one source, with :data:`AUDIT_ROW`, ``silver_version`` and ``notices``, the ids of the messages as JSON.
    :returns: the number of rows appended.
    :raises CommitFailedError: when other writers win eight times in a row.
    """
    if not len(rows):
        return 0
    stored = locations.audit_notifications(lake)
    table = row_writer.open_or_create(stored, SCHEMA, ["source"], partition_writer.APPEND_ONLY)
    known = _of_version(table_io.read_version(table, AUDIT_ROW, _where(source, rows["silver_version"])))
    at = pa.repeat(pa.scalar(lake.now(), _TIME), len(rows))
    new = rows.append_column("notified_at", at).filter(pc.invert(_among(rows, known)))
    return row_writer.append_new(stored, table, [new.select(SCHEMA.names).cast(SCHEMA)], [f"notified:{source}"])


def are_recorded(lake: Lake, source: str, rows: pa.Table) -> pa.Array:
    """Whether, according to this table, consumers were notified of each of ``rows``.

    :param rows: of one source, with :data:`AUDIT_ROW` and ``silver_version``.
    :returns: a boolean per row.
    """
    where = _where(source, rows["silver_version"])
    found = locations.audit_notifications(lake).read(AUDIT_ROW, where)
    return _among(rows, None if found is None else _of_version(found))


def _where(source: str, versions: pa.ChunkedArray) -> dict[str, Collection[object] | pa.Array]:
    return {"source": [source], "silver_version": pc.unique(versions.combine_chunks())}


def _of_version(found: pa.Table) -> pa.Table:
    return found.cast(pa.schema([SCHEMA.field(name) for name in AUDIT_ROW]))


def _among(rows: pa.Table, known: pa.Table | None) -> pa.Array:
    """Whether each row is among ``known``, in the order of the rows."""
    if known is None or not len(known):
        return pa.repeat(pa.scalar(False), len(rows))
    places = pa.array(np.arange(len(rows)))
    hit = rows.select(AUDIT_ROW).append_column("place", places).join(known, AUDIT_ROW, join_type="left semi")["place"]
    return pc.is_in(places, value_set=hit.combine_chunks())
