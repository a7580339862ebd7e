"""Rows with equal values as numbers, and rows looked up by their ids: the building blocks of the rules on sets of rows.

A rule in plain Python runs once for each distinct case, and its result is spread over the rows of the case, so that no Python
object is created for a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.int64]
    Column: TypeAlias = pa.Array | pa.ChunkedArray

#: Less than the place of any value.
_BEFORE_ALL = -1
#: Above every line number of a file.
_LINES = 1 << 40


def groups(*columns: Column) -> Numbers:
    """The group of each row by its values in ``columns``; the groups are numbered from 0 by their first rows.

    NULL equals NULL. The time is that of hashing each column once, the memory 8 bytes per row and column.
    """
    first, *others = columns
    numbers = _distinct_values(first)
    for column in others:
        values = _distinct_values(column)
        numbers = _distinct_values(pa.array(numbers * (values.max(initial=0) + 1) + values))
    return numbers


def first_rows(numbers: Numbers) -> Numbers:
    """The position of the first row of each group."""
    first = np.empty(numbers.max(initial=-1) + 1, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # of several values for one place, the last one stays
    return first


def cases(numbers: Numbers, *columns: Column) -> Iterator[tuple[Any, ...]]:
    """The values of the first row of each group."""
    first = pa.array(first_rows(numbers))
    return zip(*(column.take(first).to_pylist() for column in columns))


def positions(rows: pa.Table, among: pa.Table) -> pa.Array:
    """The position of each row's id (``ingestion_id``, ``line_number``) in the table ``among``; NULL where it is missing."""
    ingestions = pc.unique(among["ingestion_id"])
    return pc.index_in(_row_numbers(rows, ingestions), value_set=_row_numbers(among, ingestions))


def content_numbers(rows: pa.Table) -> pa.Array:
    """A number for each row, equal for rows with equal values in all columns; NULL for a row that is equal to no other.

    A row with a NaN is equal to none, as NaN is not equal to itself. Columns are compared one after the other, each only for rows
    that have been equal to another one so far.
    """
    floats = [column for column in rows.columns if pa.types.is_floating(column.type)]
    comparable = np.ones(len(rows), bool)
    for column in floats:
        comparable &= ~numpy_of(pc.fill_null(pc.is_nan(column), False))
    equal, number = np.flatnonzero(comparable), np.zeros(int(comparable.sum()), np.int64)
    for column in sorted(rows.columns, key=lambda column: pa.types.is_string(column.type)):  # text costs most
        values = column if len(equal) == len(rows) else column.take(pa.array(equal))
        if pa.types.is_floating(column.type):
            values = pc.add(values, pa.scalar(0.0, column.type))  # -0.0 becomes 0.0, to which it is equal
        number = groups(pa.array(number), values)
        is_shared = np.bincount(number)[number] > 1 if len(number) else np.zeros(0, bool)
        equal, number = equal[is_shared], number[is_shared]
    numbers = np.full(len(rows), -1)
    numbers[equal] = number
    return pa.array(numbers, mask=numbers < 0)


def numpy_of(column: Column) -> NDArray[Any]:
    """A column of numbers, times or booleans without NULL; times are microseconds."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return cast("NDArray[Any]", column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy())


def sortable(column: Column) -> NDArray[Any]:
    """Numbers in the order of a column's values: texts are ordered by their UTF-8 bytes, NULL comes first."""
    if not (pa.types.is_string(column.type) or pa.types.is_null(column.type)):
        return numpy_of(column)
    if column.null_count == len(column):
        return np.zeros(len(column), np.int64)
    distinct = pc.unique(column).drop_null()
    in_order = distinct.take(pc.sort_indices(distinct))
    return numpy_of(pc.fill_null(pc.index_in(column, value_set=in_order), _BEFORE_ALL))


def _row_numbers(rows: pa.Table, ingestions: pa.Array) -> pa.Array:
    """A number for each row id; NULL for a row of another ingestion."""
    of_ingestion = pc.index_in(rows["ingestion_id"], value_set=ingestions).cast(pa.int64())
    numbers = pc.add(pc.multiply(of_ingestion, _LINES), rows["line_number"])
    return numbers.combine_chunks() if isinstance(numbers, pa.ChunkedArray) else numbers


def _distinct_values(column: Column) -> Numbers:
    """The number of each value among the distinct values of a column, by first appearance."""
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    chunks = encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
    parts = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in chunks]
    return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, np.int64)
