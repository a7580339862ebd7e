"""Tables whose partitions are replaced as a whole, each time in one commit that says why. Through delta-rs.

Rows that are added or put in the place of others are written by ``store``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date

#: Of every table with data, whoever makes it.
PROPERTIES = {
    "delta.checkpointInterval": "100",
    "delta.checkpointPolicy": "classic",
    "delta.enableDeletionVectors": "false",
    "delta.enableExpiredLogCleanup": "false",  # maintenance cleans logs, behind whoever follows them
}
#: Of every column: what is due is found by them, however many measures come before.
_STATISTICS = {"delta.dataSkippingNumIndexedCols": "-1"}


def create(path: str, schema: pa.Schema, partition_by: str, options: Mapping[str, str] | None = None) -> DeltaTable:
    """Make an empty table where there is none.

    :returns: the table, at its newest version.
    """
    return DeltaTable.create(
        path,
        pa.schema([pa.field(item.name, item.type) for item in schema]),
        mode="ignore",
        partition_by=[partition_by],
        configuration=PROPERTIES | _STATISTICS,
        storage_options=dict(options or {}),
    )


def replace(
    table: DeltaTable,
    rows: pa.Table,
    partitions: Collection[date],
    *,
    why: Mapping[str, Any] | None = None,
    transaction: tuple[str, int] | None = None,
) -> bool:
    """Make ``rows`` the whole content of some partitions, in one commit; new columns are added, missing ones are left empty.

    :param partitions: values of the column that the table is partitioned by; all rows lie in them.
    :param transaction: the Delta transaction, by id and number, that the commit moves on.
    :returns: whether there was anything to commit.
    :raises CommitFailedError: when somebody else has written into one of the partitions since ``table`` was opened.
    """
    (column,) = table.metadata().partition_columns
    predicate = f"{column} IN ({', '.join(repr(one.isoformat()) for one in sorted(partitions))})"
    properties = _properties(why, transaction)
    if not len(rows):
        return bool(table.delete(predicate, commit_properties=properties)["num_removed_files"])
    there = {item.name for item in table.schema().fields}
    mode: dict[str, Any] = {} if set(rows.column_names) == there else {"schema_mode": "merge"}
    write_deltalake(table, rows, mode="overwrite", predicate=predicate, commit_properties=properties, **mode)
    return True


def remark(table: DeltaTable, *, why: Mapping[str, Any], transaction: tuple[str, int] | None = None) -> None:
    """Say something in a commit without rows, and move a transaction on with it: see :func:`replace`."""
    nothing = pa.schema(table.schema().to_arrow()).empty_table()
    write_deltalake(table, nothing, mode="append", commit_properties=_properties(why, transaction))


def _properties(why: Mapping[str, Any] | None, transaction: tuple[str, int] | None) -> CommitProperties:
    said = {} if why is None else {"userMetadata": json.dumps(why, default=str)}
    moved = None if transaction is None else [Transaction(*transaction)]
    return CommitProperties(custom_metadata=said, app_transactions=moved)
