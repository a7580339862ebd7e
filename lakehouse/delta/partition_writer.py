"""Creates tables and replaces whole parts of them, days or buckets, through delta-rs, in one commit that names its reason.

Appends and upserts of rows are in ``row_writer``.
"""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from lakehouse.calendar import days as day_conditions
from lakehouse.delta import columns
from lakehouse.lake import table_io, table_parts
from lakehouse.lake.table_cache import committing

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from deltalake import DeltaTable

    from lakehouse.lake import Table

#: The properties of every table but leases, which are short.
PROPERTIES = {
    "delta.checkpointInterval": "20",  # to open a table, the commits since its last checkpoint are read, half a millisecond each
    "delta.checkpointPolicy": "classic",
    "delta.enableDeletionVectors": "false",
    "delta.enableExpiredLogCleanup": "false",  # maintenance cleans logs, after all readers of the change feed
}
#: Further properties. Statistics of all columns instead of the first 32; a change data feed.
ALL_STATISTICS = {"delta.dataSkippingNumIndexedCols": "-1"}
CHANGE_FEED = {"delta.enableChangeDataFeed": "true"}
#: Every writer refuses to change or delete rows; files may be compacted.
APPEND_ONLY = {"delta.appendOnly": "true"}


def create(
    target: Table,
    schema: pa.Schema,
    partition_by: str | Sequence[str] | None = None,
    *,
    properties: Mapping[str, str] | None = None,
) -> DeltaTable:
    """Create an empty table unless it exists.

    :param properties: in addition to :data:`PROPERTIES`.
    :returns: the table, at its newest version.
    """
    table = table_io.create(
        target.address,
        target.options,
        schema=pa.schema([pa.field(item.name, item.type) for item in schema]),
        partition_by=partition_by if isinstance(partition_by, str) else list(partition_by or []),
        configuration={**PROPERTIES, **(properties or {})},
        raise_if_key_not_exists=False,  # some properties are this project's
    )
    target.committed()
    return table


def replace(
    table: DeltaTable,
    rows: pa.Table,
    partitions: Collection[date] | Collection[str],
    *,
    why: Mapping[str, Any] | None = None,
    transaction: tuple[str, int] | None = None,
) -> bool:
    """Make ``rows`` the whole content of ``partitions``, in one commit; new columns are added, missing ones are left empty.

    :param partitions: values of the column by which the table is addressed, days or names; all rows lie in them.
    :param transaction: the Delta transaction, by id and version, that the commit records.
    :returns: whether there was anything to commit.
    :raises CommitFailedError: when another writer has changed a file with one of the partitions since ``table`` was opened, and
        once columns of the table have got the wider types of the rows: what the rows were computed from has to be read again.
    """
    column = table_parts.column(table)
    assert column is not None  # noqa: S101 (such a table is never written in parts)
    days = [value for value in partitions if isinstance(value, date)]
    if len(days) == len(partitions):
        predicate = day_conditions.condition_among(column, days, "'{}'")
    else:
        predicate = f"{column} IN ({', '.join(repr(value) for value in sorted(f'{value}' for value in partitions))})"
    properties = commit_properties(why, transaction)
    table_io.bring(table, {column: partitions})
    if not len(rows):
        with committing(table):
            return bool(table.delete(predicate, commit_properties=properties)["num_removed_files"])
    if columns.widen(table, rows.schema):
        msg = f"columns of {table.table_uri} have become wider"
        raise CommitFailedError(msg)
    existing = {item.name for item in table.schema().fields}
    mode: dict[str, Any] = {} if set(rows.column_names) == existing else {"schema_mode": "merge"}
    with committing(table):
        write_deltalake(table, rows, mode="overwrite", predicate=predicate, commit_properties=properties, **mode)
    return True


def commit_without_rows(
    table: DeltaTable, *, why: Mapping[str, Any], transaction: tuple[str, int] | None = None, retries: int | None = None
) -> None:
    """Commit metadata and the version of a transaction without changing any row; see :func:`replace`.

    :param retries: how often delta-rs tries again after commits of others; with 0 each of them is a conflict.
    """
    nothing = pa.schema(table.schema().to_arrow()).empty_table()
    properties = commit_properties(why, transaction)
    properties.max_commit_retries = retries
    with committing(table):
        write_deltalake(table, nothing, mode="append", commit_properties=properties)


def set_properties(table: DeltaTable, properties: Mapping[str, str], why: Mapping[str, Any] | None = None) -> bool:
    """Set those ``properties`` that an open table lacks, in one commit after its newest version.

    :returns: whether it lacked any.
    :raises CommitFailedError: when another writer has changed its properties since ``table`` was opened.
    """
    lacking = properties.items() - table.metadata().configuration.items()
    if lacking:
        with committing(table):
            table.alter.set_table_properties(dict(lacking), raise_if_not_exists=False, commit_properties=commit_properties(why))
    return bool(lacking)


def commit_properties(
    why: Mapping[str, Any] | None, *transactions: tuple[str, int] | None, is_alone: bool = False
) -> CommitProperties:
    """The cause of a commit, and the Delta transactions that it records; see :func:`replace`.

    :param is_alone: whether any other commit since the table was opened is a conflict, and not only one that is about the same.
    """
    metadata = {} if why is None else {"userMetadata": json.dumps(why, default=str)}
    recorded = [Transaction(*transaction) for transaction in transactions if transaction is not None]
    retries = 0 if is_alone else None
    return CommitProperties(custom_metadata=metadata, max_commit_retries=retries, app_transactions=recorded or None)
