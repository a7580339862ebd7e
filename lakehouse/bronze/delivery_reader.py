"""Reads a landing file into rows of Bronze, as Arrow batches.

This module selects the reader for the file's format and parses its records. It needs no Spark: previews and Spark tasks both use
it. Committing the rows belongs in ``table``.
"""

from __future__ import annotations

from functools import partial
from itertools import islice, starmap
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from lakehouse.bronze.columnar.csv_blocks import can_split, csv_blocks
from lakehouse.bronze.columnar.file_parts import row_group_parts, section, text_parts
from lakehouse.bronze.columnar.json_blocks import json_blocks
from lakehouse.bronze.columnar.merge import rows_of_blocks
from lakehouse.bronze.columnar.parquet_blocks import can_read, parquet_blocks, record_of
from lakehouse.bronze.file_formats import read_records, unzipped
from lakehouse.bronze.landing import open_file
from lakehouse.bronze.parquet_rows import ParquetRows, values_of
from lakehouse.bronze.row_parser import RowParser
from lakehouse.delta.columns import arrow_schema, bronze_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakehouse.bronze.columnar.file_parts import Part
    from lakehouse.bronze.columnar.text_lines import Block
    from lakehouse.bronze.file_formats import Record
    from lakehouse.contracts.source import SourceContract
    from lakehouse.ledger.row_ids import DeliveredFile
    from lakehouse.settings import Settings

#: The bytes of a text file that are read at once, unless a record is longer.
BLOCK_BYTES = 2**21
_BATCH_ROWS = 10_000


def delivery_rows(
    settings: Settings, contract: SourceContract, delivery: DeliveredFile, file_path: str, part: Part | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one delivery, in file order, as Arrow batches of :func:`bronze_columns`.

    :param file_path: the full path of the landing file.
    :param part: one of :func:`delivery_parts`; the whole file by default.
    :raises FileProblem: when the file as a whole cannot be read; batches may have been yielded before.
    """
    with open_file(settings, contract, file_path, seekable=part is not None) as stream:
        yield from rows_by_columns(contract, delivery, stream, part=part)


def delivery_parts(settings: Settings, contract: SourceContract, file_path: str, size: int) -> Sequence[Part | None]:
    """Parts of a landing file of about ``size`` bytes, which together have all its rows; one None if it must be read whole.

    A text file is read once to count its lines.
    """
    with open_file(settings, contract, file_path, seekable=True) as stream:
        return parts_of(contract, stream, size)


def parts_of(contract: SourceContract, stream: BinaryIO, size: int) -> Sequence[Part | None]:
    """The result of :func:`delivery_parts` for an open file."""
    source = contract.source
    if not can_read_by_columns(contract):  # only a line of JSON is a record for certain
        return (source.format == "json" and not source.array and text_parts(stream, source, size)) or [None]
    if source.format == "parquet":
        rows = ParquetRows(stream)
        return (can_read(rows.schema, contract.columns_read) and row_group_parts(rows.file, size)) or [None]
    is_read_by_columns = source.format == "json" or can_split(source)
    return (is_read_by_columns and text_parts(stream, source, size)) or [None]


def rows_by_columns(
    contract: SourceContract,
    delivery: DeliveredFile,
    stream: BinaryIO,
    block_bytes: int = BLOCK_BYTES,
    part: Part | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of :func:`exact_rows`, read by columns where the result is certain to be the same.

    :param block_bytes: the size of a block of a text file; several blocks are in memory at once.
    :param part: one of :func:`parts_of`; its rows only.
    :raises FileProblem: as :func:`delivery_rows`.
    """
    source, columns = contract.source, contract.columns_read
    blocks: Iterator[Block] | None = None
    if not can_read_by_columns(contract):
        stream, before = (stream, 0) if part is None else (section(stream, part), part.before)
        yield from exact_rows(contract, delivery, stream, before)
        return
    if source.format == "parquet":
        rows = ParquetRows(stream)
        if can_read(rows.schema, columns):
            blocks = parquet_blocks(rows, contract, part)
    elif source.format == "json":
        content, before = (unzipped(stream), 0) if part is None else (section(stream, part), part.before)
        blocks = json_blocks(content, contract, block_bytes, before)
    elif can_split(source) and part and part.begin:
        blocks = csv_blocks(unzipped(stream), source, columns, block_bytes, (partial(section, stream, part), part.before))
    elif can_split(source):
        blocks = csv_blocks(section(stream, part) if part else unzipped(stream), source, columns, block_bytes)
    yield from exact_rows(contract, delivery, stream) if blocks is None else rows_of_blocks(contract, delivery, blocks)


def can_read_by_columns(contract: SourceContract) -> bool:
    """Whether the reader by columns supports the format of the contract's records and changes."""
    order, source = contract.order, contract.source
    return source.is_plain and source.envelope is None and (not order.sequence or order.is_one_integer)


def exact_rows(contract: SourceContract, delivery: DeliveredFile, stream: BinaryIO, before: int = 0) -> Iterator[pa.RecordBatch]:
    """The rows, each parsed individually.

    :param before: the number of lines in a text file before the stream.
    :raises FileProblem: as :func:`delivery_rows`.
    """
    schema = arrow_schema(bronze_columns(contract))
    if contract.source.format == "parquet":
        records = _parquet_records(ParquetRows(stream))
    else:
        records = read_records(stream, contract.source, contract.columns_read, before)
    rows = RowParser(contract, delivery).rows(records)
    while batch := list(islice(rows, _BATCH_ROWS)):
        yield pa.RecordBatch.from_pylist(batch, schema=schema)


def _parquet_records(file: ParquetRows) -> Iterator[Record]:
    rows = (values for batch in file.batches() for values in values_of(batch))
    return starmap(record_of, enumerate(rows, start=1))
