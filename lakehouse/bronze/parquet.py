"""Reads Parquet files: one type for the physical types that writers choose for a value, and rows as columns of text.

Plain batches have texts, integers, doubles, decimals, booleans and days; a time becomes its text with all digits, so that no
reader cuts or wraps it. In columns of text, each value is as Python writes it, and the text of a row is the same as if its values
had been passed to ``json.dumps`` one by one. The meaning of a value is decided in ``row_parser``, as for every format.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.bronze import line_limits
from lakehouse.bronze.column_values import PLAIN_SCALE, as_texts, quoted, unescaped, without_numbers, without_words
from lakehouse.bronze.csv_columns import Block
from lakehouse.bronze.file_formats import Record
from lakehouse.bronze.line_limits import CutLine
from lakehouse.bronze.type_conversion import null_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakehouse.bronze.csv_columns import Part
    from lakehouse.contracts.source import SourceContract

#: Spark writes this into its files. Its INT96 values are moments; INT96 values of other writers are times without a zone.
_BY_SPARK = b"org.apache.spark.version"
#: Days outside of the calendar stay texts: years 1 to 9999, as days since 1970.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
#: The rows and the bytes of texts in a batch. A row is several times as large while it is read.
_BATCH_ROWS, _BATCH_BYTES = 2**16, 2**26
#: Bytes of a row in a column whose values are stored once and referred to by number.
_OF_A_NUMBER = 8
_TEXTS = (pa.string(), pa.binary())


class ParquetRows:
    """The rows of a Parquet file, in plain types."""

    def __init__(self, stream: BinaryIO) -> None:
        """Read the file's footer.

        :raises pyarrow.ArrowException: when the stream is no Parquet file.
        """
        source = stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="r")
        self.file, self._source = pq.ParquetFile(source, coerce_int96_timestamp_unit="us"), source
        leaves = [self.file.schema.column(position) for position in range(len(self.file.schema.names))]
        self._int96 = [leaf.path for leaf in leaves if leaf.physical_type == "INT96" and "." not in leaf.path]
        self._are_moments = _BY_SPARK in (self.file.metadata.metadata or {})
        self._in_nanoseconds = pq.ParquetFile(source, coerce_int96_timestamp_unit="ns") if self._int96 else None

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches, provided that all texts are UTF-8."""
        columns = self.file.schema_arrow
        return plain(pa.RecordBatch.from_arrays([pa.array([], field.type) for field in columns], schema=columns)).schema

    def batches(self, row_groups: Sequence[int] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows in file order, of ``row_groups`` or of all."""
        means = self._mean_bytes(row_groups)
        size = max(1, min(_BATCH_ROWS, int(_BATCH_BYTES / max([1, *means.values()]))))
        # A value that is stored once may be large, and be repeated in every row.
        repeated = [name for name, mean in means.items() if mean < _OF_A_NUMBER]
        file = pq.ParquetFile(
            self._source, coerce_int96_timestamp_unit="us", read_dictionary=repeated, metadata=self.file.metadata
        )
        batches = file.iter_batches(size, row_groups=row_groups)
        if self._in_nanoseconds is not None:
            finer = self._in_nanoseconds.iter_batches(size, row_groups=row_groups, columns=self._int96)
            batches = map(self._with_int96, batches, finer)
        for batch in batches:
            yield from map(plain, _in_pieces(batch))

    def _mean_bytes(self, row_groups: Sequence[int] | None) -> dict[str, float]:
        """The bytes of a row in each column of texts or bytes; the mean of the row group with the largest."""
        metadata, means = self.file.metadata, dict[str, float]()
        kinds = [field.name for field in self.file.schema_arrow if field.type in _TEXTS]
        for group in range(metadata.num_row_groups) if row_groups is None else row_groups:
            for column in map(metadata.row_group(group).column, range(metadata.num_columns)):
                name = column.path_in_schema
                if name in kinds and column.num_values:
                    means[name] = max(means.get(name, 0), column.total_uncompressed_size / column.num_values)
        return means

    def _with_int96(self, batch: pa.RecordBatch, nanoseconds: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the texts of its INT96 columns.

        As nanoseconds these wrap around outside of 1677 to 2262; their part below a microsecond is correct all the same.
        """
        for name in self._int96:
            values = batch[name]
            micros, nanos = (pc.fill_null(pc.cast(column, pa.int64()), 0).to_numpy() for column in (values, nanoseconds[name]))
            texts = _moments(values, nanos - micros * 1000, is_moment=self._are_moments)
            batch = batch.set_column(batch.schema.get_field_index(name), name, texts)
        return batch


def _in_pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch; in pieces of limited size, where values that are stored once would be large in every row."""
    repeated = [column for column in batch.columns if pa.types.is_dictionary(column.type)]
    lengths = [pc.fill_null(pc.binary_length(column.dictionary).take(column.indices), 0) for column in repeated]
    total = sum(pc.sum(column).as_py() or 0 for column in lengths)
    rows = max(1, int(len(batch) * _BATCH_BYTES / total)) if total > _BATCH_BYTES else max(1, len(batch))
    for first in range(0, len(batch), rows):
        yield batch.slice(first, rows)


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch in plain types; a column without a plain type is unchanged."""
    return pa.RecordBatch.from_arrays([_plain(column) for column in batch.columns], names=batch.schema.names)


def values_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a plain batch as values of Python."""
    columns = [_python_values(column) for column in batch.columns]
    return [dict(zip(batch.schema.names, row)) for row in zip(*columns)] if columns else [{}] * len(batch)


def _plain(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _plain(values.dictionary_decode())
    if isinstance(kind, pa.BaseExtensionType) and not isinstance(kind, pa.UuidType):
        return _plain(values.storage)
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pc.cast(values, pa.decimal128(kind.precision, kind.scale))
    return next((convert(values) for is_kind, convert in _CONVERSIONS if is_kind(kind)), values)


def _moments(values: pa.TimestampArray, nanos: np.ndarray | None = None, *, is_moment: bool = False) -> pa.StringArray:
    """Times as Python writes them, with nine digits where a value has nanoseconds.

    :param nanos: the nanoseconds of each value in addition to its microseconds.
    :param is_moment: whether times without a zone are in UTC.
    """
    kind = values.type
    is_moment = is_moment or kind.tz is not None
    in_utc = pc.cast(pc.cast(values, pa.timestamp(kind.unit, "UTC")), pa.timestamp(kind.unit)) if kind.tz else values
    texts = _digits(in_utc, pa.timestamp("us"))
    if nanos is not None and nanos.any():
        texts = pc.binary_join_element_wise(texts, pa.array([f"{nano:03d}" for nano in nanos.tolist()]), "")
    texts = pc.replace_substring_regex(texts, r"(\.[0-9]{6})000$", r"\1")
    texts = pc.replace_substring_regex(texts, r"\.000000$", "")
    return pc.binary_join_element_wise(texts, "+00:00", "") if is_moment else texts


def _times_of_day(values: pa.Array) -> pa.StringArray:
    texts = pc.replace_substring_regex(_digits(values, pa.time64("us")), r"(\.[0-9]{6})000$", r"\1")
    return pc.replace_substring_regex(texts, r"\.000000$", "")


def _days(values: pa.Array) -> pa.Array:
    """Days of the calendar; texts if one of them lies outside of it."""
    numbers = pc.cast(pc.cast(values, pa.date32()), pa.int32())
    within = pc.and_(pc.greater_equal(numbers, _FIRST_DAY), pc.less_equal(numbers, _LAST_DAY))
    days = pc.cast(numbers, pa.date32())
    return days if pc.all(within, min_count=0).as_py() else pc.cast(days, pa.string())


def _as_written(values: pa.Array) -> pa.DoubleArray:
    """The doubles that a text file of the same writer would have: 0.1 instead of the nearest 32-bit number."""
    return pc.cast(pc.cast(values, pa.string()), pa.float64())


def _digits(values: pa.Array, micros: pa.DataType) -> pa.StringArray:
    """The text of times, with six digits, or nine for nanoseconds."""
    if values.type.unit in {"s", "ms"}:
        with suppress(pa.ArrowInvalid):  # out of the range of microseconds, and of the calendar
            values = pc.cast(values, micros)
    return pc.cast(values, pa.string())


def _decoded(values: pa.Array) -> pa.Array:
    """Bytes as text, if all of them are text."""
    content = pc.cast(values, pa.binary())
    try:
        return pc.cast(content, pa.string())
    except pa.ArrowInvalid:
        return content


def _python_values(values: pa.Array) -> list[Any]:
    """The values as Python objects; a value that Python cannot represent becomes the text that Arrow writes."""
    if pa.types.is_binary(values.type):
        return [_text_or_bytes(value) for value in values.to_pylist()]
    try:
        return list(values.to_pylist())
    except (ValueError, OverflowError):
        return [_python_value(value) for value in values]


def _python_value(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return str(value)


def _text_or_bytes(value: bytes | None) -> str | bytes | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return value


_CONVERSIONS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (pa.types.is_large_string, lambda values: pc.cast(values, pa.string())),
    (pa.types.is_string_view, lambda values: pc.cast(values, pa.string())),
    (pa.types.is_binary, _decoded),
    (pa.types.is_large_binary, _decoded),
    (pa.types.is_binary_view, _decoded),
    (pa.types.is_fixed_size_binary, _decoded),
    (pa.types.is_float16, lambda values: pc.cast(values, pa.float64())),
    (pa.types.is_float32, _as_written),
    (pa.types.is_timestamp, _moments),
    (pa.types.is_time, _times_of_day),
    (pa.types.is_date, _days),
)


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
