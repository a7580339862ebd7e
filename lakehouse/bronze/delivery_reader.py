"""Reads a landing file into rows of Bronze, as Arrow batches.

This module selects the reader for the file's format and parses its records. It needs no Spark: previews and Spark tasks both
use it. Committing the rows belongs in ``table``.
"""

from __future__ import annotations

from itertools import islice, starmap
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.bronze.columnar.csv_blocks import can_split, csv_blocks
from lakehouse.bronze.columnar.json_blocks import json_blocks
from lakehouse.bronze.columnar.merge import rows_of_blocks
from lakehouse.bronze.columnar.parquet_blocks import can_read, parquet_blocks, record_of
from lakehouse.bronze.file_formats import read_records, unzipped
from lakehouse.bronze.landing import open_file
from lakehouse.bronze.row_parser import RowParser
from lakehouse.delta.columns import arrow_schema, bronze_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.bronze.file_formats import Record
    from lakehouse.contracts.source import SourceContract
    from lakehouse.ledger.row_ids import Delivery
    from lakehouse.settings import Settings

#: Bytes of a text file that are read at once, unless a record is longer.
BLOCK_BYTES = 2**21
_BATCH_ROWS = 10_000


def delivery_rows(settings: Settings, contract: SourceContract, delivery: Delivery, file_path: str) -> Iterator[pa.RecordBatch]:
    """The rows of one delivery, in file order, as Arrow batches of :func:`bronze_columns`.

    :param file_path: the full path of the landing file.
    :raises FileProblem: when the file as a whole cannot be read; batches may have been yielded before.
    """
    with open_file(settings, contract, file_path) as stream:
        yield from rows_by_columns(contract, delivery, stream)


def rows_by_columns(
    contract: SourceContract, delivery: Delivery, stream: BinaryIO, block_bytes: int = BLOCK_BYTES
) -> Iterator[pa.RecordBatch]:
    """The rows of :func:`exact_rows`, read by columns where that is certain to give the same.

    :param block_bytes: how much of a text file is held in memory at once, several times over.
    :raises FileProblem: as :func:`delivery_rows`.
    """
    source, columns = contract.source, contract.columns_read
    if source.format == "parquet":
        file = pq.ParquetFile(stream)
        blocks = parquet_blocks(file, source, columns) if can_read(file.schema_arrow, columns) else None
    elif source.format == "json":
        blocks = json_blocks(unzipped(stream), source, columns, block_bytes)
    else:
        blocks = csv_blocks(unzipped(stream), source, columns, block_bytes) if can_split(source) else None
    yield from exact_rows(contract, delivery, stream) if blocks is None else rows_of_blocks(contract, delivery, blocks)


def exact_rows(contract: SourceContract, delivery: Delivery, stream: BinaryIO) -> Iterator[pa.RecordBatch]:
    """The rows, each parsed by itself.

    :raises FileProblem: as :func:`delivery_rows`.
    """
    schema = arrow_schema(bronze_columns(contract))
    if contract.source.format == "parquet":
        records = _parquet_records(pq.ParquetFile(stream))
    else:
        records = read_records(stream, contract.source, contract.columns_read)
    rows = RowParser(contract, delivery).rows(records)
    while batch := list(islice(rows, _BATCH_ROWS)):
        yield pa.RecordBatch.from_pylist(batch, schema=schema)


def _parquet_records(file: pq.ParquetFile) -> Iterator[Record]:
    rows = (values for batch in file.iter_batches() for values in batch.to_pylist())
    return starmap(record_of, enumerate(rows, start=1))
