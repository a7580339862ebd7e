"""Both readers give the same rows: of every damaged file, and of generated contracts and files, whatever the block size."""

from __future__ import annotations

import io
from datetime import date, datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.bronze.delivery_reader import exact_rows, rows_by_columns
from lakehouse.bronze.file_formats import FileProblem
from lakehouse.contracts.source import SourceContract
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.ledger.row_ids import Delivery
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.malformed_files import malformations
from lakehouse_tests.support.written_records import contracts, files

DELIVERY = Delivery("landing/events.part", "0123456789abcdef", date(2024, 2, 1), datetime(2024, 2, 1, 6, tzinfo=timezone.utc))


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


@pytest.mark.parametrize(("block_bytes", "every"), [(1, 7), (150, 3), (2**21, 1)])
@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_damaged_files_give_the_rows_of_the_exact_reader(file_format: str, block_bytes: int, every: int) -> None:
    source = contract(source={"landing": "arrival_date={arrival_date}*", "start_date": "2024-01-01", "format": file_format})
    damaged = [item for item in malformations() if item.format == file_format]
    assert len(damaged) > 1_000
    for item in damaged[::every]:
        assert_same(source, item.content, block_bytes)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_generated_files_give_the_rows_of_the_exact_reader(data: st.DataObject) -> None:
    source = SourceContract.model_validate(data.draw(contracts()))
    content = data.draw(files(source))
    assert_same(source, content, data.draw(st.sampled_from([1, 64, 300, 2**21])))
