"""Turns the batches of a Parquet file into columns of text: what Python writes for each value, and the JSON of each row.

The text of a row is the same as if its values had been given to ``json.dumps`` one by one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.bronze.columnar.conversion import without_words
from lakehouse.bronze.columnar.keys import as_texts, quoted, unescaped
from lakehouse.bronze.columnar.text_lines import Block
from lakehouse.bronze.file_formats import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow.parquet as pq

    from lakehouse.bronze.columnar.file_parts import Part
    from lakehouse.contracts.inputs.section import Source


def can_read(schema: pa.Schema, columns: list[str]) -> bool:
    """Whether the columns that the contract needs can be written as text all at once."""
    once = len(set(schema.names)) == len(schema.names) and set(columns) <= set(schema.names)
    return once and all(_is_plain(schema.field(column).type) for column in columns)


def parquet_blocks(file: pq.ParquetFile, source: Source, columns: list[str], part: Part | None = None) -> Iterator[Block]:
    """Every row of a file for which :func:`can_read` holds.

    :param columns: the columns that the contract needs.
    :param part: the row groups that are read; all by default.
    """
    first, groups = (1, None) if part is None else (part.before + 1, list(range(part.begin, part.end)))
    for batch in file.iter_batches(row_groups=groups):
        texts = {name: _texts(batch[name]) for name in batch.schema.names if _is_plain(batch[name].type)}
        values = {name: texts[name] for name in columns}
        for name in columns:
            if _is_text(batch[name].type):
                values[name] = without_words(values[name], source.null_values)
        numbers = pa.array(range(first, first + len(batch)), pa.int64())
        yield Block(values, numbers, _rows_as_json(batch, texts), _reader(batch, first), [])
        first += len(batch)


def record_of(number: int, values: dict[str, Any]) -> Record:
    """A row of a Parquet file; the raw text of a row is its JSON."""
    return Record(number, json.dumps(values, default=str, ensure_ascii=False), values)


def _reader(batch: pa.RecordBatch, first: int) -> Callable[[int], Record]:
    return lambda row: record_of(first + row, batch.slice(row, 1).to_pylist()[0])


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return bool(kind.unit != "ns" and kind.tz in {None, "UTC"})
    is_number = pa.types.is_integer(kind) or pa.types.is_float64(kind) or pa.types.is_decimal128(kind)
    return bool(is_number or _is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _texts(values: pa.Array) -> pa.StringArray:
    """Values of a plain type as Python writes them, but truth as JSON writes it."""
    if _is_text(values.type):
        return pc.cast(values, pa.string())
    if not pa.types.is_timestamp(values.type):
        return as_texts(values)
    in_utc = pc.cast(pc.cast(values, pa.timestamp("us", values.type.tz)), pa.timestamp("us"))
    written = pc.replace_substring_regex(pc.cast(in_utc, pa.string()), r"\.000000$", "")
    return pc.binary_join_element_wise(written, "+00:00", "") if values.type.tz else written


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
