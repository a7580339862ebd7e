"""The audit as earlier releases wrote it: not append-only, notifications in its own column, statistics of values."""

from __future__ import annotations

from shutil import rmtree
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.delta import partition_writer, row_writer
from lakehouse.silver import audit_log as log
from lakehouse_tests.support.audit_reader import follow_audit

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakehouse.lake import Lake


def audit_of_earlier_release(lake: Lake, notified: Collection[str] = ()) -> None:
    """Write the audit of silver as an earlier release did.

    :param notified: the keys whose rows say that consumers were notified.
    """
    follow_audit(lake)
    stored = locations.audit_log(lake)
    rows = stored.read(log.SCHEMA.names)
    assert rows is not None
    table = DeltaTable(stored.address)
    followed = f"audit:events:{DeltaTable(locations.silver(lake, 'events').address).metadata().id}"
    version = table.transaction_version(followed)
    assert version is not None
    sent = pc.is_in(rows["event_id"], value_set=pa.array(notified, pa.string()))
    rows = rows.cast(log.SCHEMA).set_column(len(rows.column_names) - 1, log.SCHEMA.field("notification_sent"), sent)
    rmtree(stored.address)
    partition_writer.create(stored, log.SCHEMA, ["source"])
    row_writer.append(stored, rows, partition_by=["source"], once=row_writer.Once(followed, version))
    assert "delta.appendOnly" not in DeltaTable(stored.address).metadata().configuration
