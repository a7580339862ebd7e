"""A file as the reader by columns and the exact reader give it."""

from __future__ import annotations

import io
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.bronze.file_formats import FileProblem
from lakehouse.bronze.reader import exact_rows, rows_by_columns
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.ledger.ids import DeliveredFile

if TYPE_CHECKING:
    from lakehouse.contracts.source import SourceContract

DELIVERY = DeliveredFile(
    "landing/events.part", "0123456789abcdef", date(2024, 2, 1), datetime(2024, 2, 1, 6, tzinfo=timezone.utc)
)


def outcome(reader: Any, source: SourceContract, content: bytes, *more: Any) -> pa.Table | str:
    """The rows of a file, or why it cannot be read."""
    try:
        batches = list(reader(source, DELIVERY, io.BytesIO(content), *more))
    except FileProblem as problem:
        return str(problem)
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches, arrow_schema(bronze_columns(source)))


def assert_same(source: SourceContract, content: bytes, block_bytes: int) -> None:
    found, expected = outcome(rows_by_columns, source, content, block_bytes), outcome(exact_rows, source, content)
    if isinstance(found, str) or isinstance(expected, str):
        assert found == expected
    else:
        assert [repr(row) for row in found.to_pylist()] == [repr(row) for row in expected.to_pylist()]
