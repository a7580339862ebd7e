"""Columns whose type only becomes wider: int to bigint, and decimals with more digits before the point.

The type is changed in the table's log by one commit, and no data file is written again. Every reader that the tables are meant
for (Spark, delta-rs, DuckDB, polars) converts the values of older files as it reads them. Delta's own table feature for this,
``typeWidening``, would shut out delta-rs and polars.

polars reads no column that becomes wider in another way.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import CommitProperties, Schema

from lakehouse.contracts.base import is_only_wider

if TYPE_CHECKING:
    from deltalake import DeltaTable

#: What the metadata of a commit calls the columns with another type.
WIDENED = "wider_columns"


def is_wider(before: pa.DataType, after: pa.DataType) -> bool:
    """Whether ``after`` only becomes wider than ``before``; the rule is that of contracts."""
    return is_only_wider(_name_in_contracts(before), _name_in_contracts(after))


def widen(table: DeltaTable, schema: pa.Schema) -> bool:
    """Give the columns of an open table the wider types of a schema, in one commit behind its newest version.

    :param schema: of rows that are to be written; other columns and types of it change nothing.
    :returns: whether a type was changed.
    :raises CommitFailedError: when another writer has changed the columns since ``table`` was opened.
    """
    columns = pa.schema(table.schema().to_arrow())
    wanted = {item.name: item.type for item in schema}
    wider = {item.name: wanted[item.name] for item in columns if is_wider(item.type, wanted.get(item.name, item.type))}
    if not wider or not table.metadata().partition_columns:  # every table with columns of a contract has some
        return False
    (by, *_) = table.metadata().partition_columns
    no_partition = "-1" if pa.types.is_integer(columns.field(by).type) else "0001-01-01"
    why = {WIDENED: {name: f"{kind}" for name, kind in wider.items()}}
    table.create_write_transaction(
        [],
        mode="overwrite",  # a transaction that appends keeps the columns as they are
        schema=Schema.from_arrow(pa.schema([item.with_type(wider.get(item.name, item.type)) for item in columns])),
        partition_by=table.metadata().partition_columns,
        partition_filters=[(by, "=", no_partition)],  # no file is removed
        commit_properties=CommitProperties(custom_metadata={"userMetadata": json.dumps(why)}),
    )
    table.update_incremental()
    return True


def _name_in_contracts(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return {pa.int32(): "int", pa.int64(): "bigint"}.get(kind, f"{kind}")
