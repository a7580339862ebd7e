"""Turns the batches of a Parquet file into columns of text: each value as Python writes it, and the JSON of each row.

The text of a row is the same as if its values had been passed to ``json.dumps`` one by one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.bronze import line_limits
from lakehouse.bronze.column_values import PLAIN_SCALE, as_texts, quoted, unescaped, without_numbers, without_words
from lakehouse.bronze.csv_columns import Block
from lakehouse.bronze.file_formats import Record
from lakehouse.bronze.line_limits import CutLine
from lakehouse.bronze.parquet_rows import values_of
from lakehouse.bronze.type_conversion import null_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakehouse.bronze.csv_columns import Part
    from lakehouse.bronze.parquet_rows import ParquetRows
    from lakehouse.contracts.source import SourceContract


#: Outside of these bounds the text of a double may have an exponent; it is then read individually, except in a number column.
_LEAST, _GREATEST = 1e-4, 2.0**53


def can_read(schema: pa.Schema, columns: list[str]) -> bool:
    """Whether the columns that the contract needs can be written as text all at once."""
    once = len(set(schema.names)) == len(schema.names) and set(columns) <= set(schema.names)
    return once and all(_is_plain(schema.field(column).type) for column in columns)


def parquet_blocks(file: ParquetRows, contract: SourceContract, part: Part | None = None) -> Iterator[Block]:
    """Every row of a file for which :func:`can_read` holds.

    :param part: the row groups that are read; all by default.
    """
    first, groups = (1, None) if part is None else (part.before + 1, list(range(part.begin, part.end)))
    for batch in file.batches(groups):
        yield _block(batch, first, contract)
        first += len(batch)


def _block(batch: pa.RecordBatch, first: int, contract: SourceContract) -> Block:
    """:param first: the number of the batch's first row."""
    columns, nulls, whole = contract.columns_read, contract.source.nulls, len(batch)
    exactly = _reader(batch, first)
    numbers = pa.array(range(first, first + whole), pa.int64())
    doubtful = _doubtful(batch, contract)
    exact = [exactly(row) for row in np.flatnonzero(doubtful).tolist()]
    if exact:
        kept = pa.array(~doubtful)
        batch, numbers = batch.filter(kept), numbers.filter(kept)
    texts = {name: _texts(batch[name]) for name in batch.schema.names if _is_plain(batch[name].type)}
    values = {name: texts.get(name, pa.nulls(len(batch), pa.string())) for name in columns}
    for name in columns:
        kind = batch[name].type
        if not (_is_text(kind) or name in contract.number_columns or pa.types.is_date(kind)):
            values[name] = pc.replace_substring_regex(values[name], r"^(-?[0-9]+)\.(?:0|00|0000+)$", r"\1")
        values[name] = (without_words if _is_text(kind) else without_numbers)(values[name], nulls)
    place = (np.asarray(numbers) - first).tolist()
    return Block(values, numbers, _rows_as_json(batch, texts), lambda row: exactly(place[row]), exact)


def _doubtful(batch: pa.RecordBatch, contract: SourceContract) -> np.ndarray:
    """The rows with a value that the exact reader may convert to another text."""
    doubtful = (
        np.asarray(_lengths(batch)) > line_limits.MAX_RECORD_BYTES if _may_be_too_long(batch) else np.zeros(len(batch), bool)
    )
    for name in contract.columns_read:
        column = batch[name]
        if not _is_plain(column.type):
            doubtful[:] = True
        elif pa.types.is_floating(column.type):
            numbers = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
            sizes = np.abs(numbers)
            if name not in contract.number_columns or null_numbers(contract.source.nulls):
                doubtful |= np.where(sizes == 0, np.signbit(numbers), ~((sizes >= _LEAST) & (sizes <= _GREATEST)))
            else:
                doubtful |= ~np.isfinite(sizes)
        elif pa.types.is_decimal(column.type) and name not in contract.number_columns:
            sizes = np.abs(pc.fill_null(pc.cast(column, pa.float64()), 0).to_numpy(zero_copy_only=False))
            doubtful |= sizes >= _GREATEST
            if column.type.scale > PLAIN_SCALE:
                has_exponent = pc.fill_null(pc.match_substring(pc.cast(column, pa.string()), "E"), False)  # 0E-9
                doubtful |= np.asarray(has_exponent)
    return doubtful


def records_of(batch: pa.RecordBatch, first: int) -> Iterator[Record]:
    """The rows of a batch as records; the raw text of a row is its JSON.

    :param first: the number of the batch's first row.
    """
    lengths = _lengths(batch).to_pylist() if _may_be_too_long(batch) else [0] * len(batch)
    for number, (values, length) in enumerate(zip(values_of(batch), lengths), first):
        if length > line_limits.MAX_RECORD_BYTES:
            longest = max(values, key=lambda name: len(values[name]) if isinstance(values[name], (str, bytes)) else 0)
            line = CutLine.of(f"{values[longest]!s}".encode(), length)
            yield Record(number, line.decode(errors="replace"), None, line.problem)
        else:
            yield Record(number, json.dumps(values, default=str, ensure_ascii=False), values)


def _reader(batch: pa.RecordBatch, first: int) -> Callable[[int], Record]:
    return lambda row: next(records_of(batch.slice(row, 1), first + row))


def _may_be_too_long(batch: pa.RecordBatch) -> bool:
    return bool(batch.nbytes > line_limits.MAX_RECORD_BYTES)


def _lengths(batch: pa.RecordBatch) -> pa.Array:
    """The bytes of the texts of each row."""
    lengths = pa.array(np.zeros(len(batch), np.int64))
    for column in batch.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            lengths = pc.add(lengths, pc.fill_null(pc.binary_length(column), 0))
    return lengths


def _is_plain(kind: pa.DataType) -> bool:
    is_number = pa.types.is_integer(kind) or pa.types.is_float64(kind) or pa.types.is_decimal128(kind)
    return bool(is_number or _is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind))


def _texts(values: pa.Array) -> pa.StringArray:
    """Values of a plain type as Python writes them, but booleans as JSON writes them."""
    return as_texts(values)


def _rows_as_json(batch: pa.RecordBatch, texts: dict[str, pa.StringArray]) -> pa.StringArray:
    members = [
        pc.binary_join_element_wise(json.dumps(name, ensure_ascii=False), _as_json(batch[name], texts.get(name)), ": ")
        for name in batch.schema.names
    ]
    inner = pc.binary_join_element_wise(*members, ", ")
    return pc.binary_join_element_wise("{", inner, "}", "")


def _as_json(values: pa.Array, texts: pa.StringArray | None) -> pa.StringArray:
    """Each value as JSON; null where Python has None."""
    kind = values.type
    if texts is None or pa.types.is_floating(kind) or (_is_text(kind) and not pc.all(unescaped(texts), min_count=0).as_py()):
        return pa.array([json.dumps(value, default=str, ensure_ascii=False) for value in values.to_pylist()], pa.string())
    bare = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    return pc.fill_null(texts if bare else quoted(texts), "null")
