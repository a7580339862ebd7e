"""Tables of a dimension's intervals, written by hand: for tests of what follows from them."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import write_deltalake

from lakehouse import locations
from lakehouse.delta import partition_writer, row_writer
from lakehouse.delta.columns import arrow_type

if TYPE_CHECKING:
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

TIME = pa.timestamp("us", "UTC")


def schema(contract: SourceContract) -> pa.Schema:
    fields = [(field.name, arrow_type(field.type)) for field in contract.typed_fields]
    place = [("valid_from", TIME), ("valid_to", TIME), ("is_current", pa.bool_())]
    opened = [("record_key", pa.string()), ("arrival_ts", TIME), ("ingestion_id", pa.string()), ("line_number", pa.int64())]
    return pa.schema([("bucket", pa.int32()), ("dimension_key", pa.string()), *fields, *place, *opened])


def write(lake: Lake, contract: SourceContract, key: str, intervals: list[dict[str, Any]]) -> None:
    """Put the intervals of a key in place of those that it has, in one commit.

    :param intervals: with the fields of the contract, ``valid_from`` and ``valid_to``.
    """
    bucket = zlib.crc32(key.encode()) % contract.dimension.buckets
    own = {"bucket": bucket, "dimension_key": key}
    rows = [{**dict.fromkeys(schema(contract).names), **row, **own, "is_current": row["valid_to"] is None} for row in intervals]
    stored = locations.intervals(lake, contract.dataset)
    table = row_writer.open_or_create(stored, schema(contract), ["bucket"], partition_writer.CHANGE_FEED)
    table = stored.snapshot() or table
    predicate = f"bucket = {bucket} AND dimension_key = '{key}'"
    if rows:
        write_deltalake(table, pa.Table.from_pylist(rows, schema=schema(contract)), mode="overwrite", predicate=predicate)
    else:
        table.delete(predicate)
