"""Both readers give the same rows: of every damaged file, and of generated contracts and files, whatever the block size."""

from __future__ import annotations

import io
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts.source import SourceContract
from lakehouse_tests.support import tried
from lakehouse_tests.support.both_readers import assert_same
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.laws import law, some
from lakehouse_tests.support.malformed_files import malformations
from lakehouse_tests.support.written_records import contracts, files


@pytest.mark.law
@pytest.mark.parametrize(("block_bytes", "every"), [(1, 7), (150, 3), (2**21, 1)])
@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_damaged_files_give_the_rows_of_the_exact_reader(file_format: str, block_bytes: int, every: int) -> None:
    source = contract(source={"landing": "arrival_date={arrival_date}*", "start_date": "2024-01-01", "format": file_format})
    damaged = [item for item in malformations() if item.format == file_format]
    assert len(damaged) > 1_000
    for item in some(damaged[::every], 100):
        tried.count("examples")
        assert_same(source, item.content, block_bytes)


@pytest.mark.parametrize("number", ["0", "0.000000001", "-1.000000001", "12"])
def test_a_decimal_with_many_decimals_is_the_same_text(number: str) -> None:
    """Python writes 0E-9 for a zero with nine decimals."""
    landing = {"landing": "arrival_date={arrival_date}*", "start_date": "2024-01-01", "format": "parquet"}
    source = contract(source=landing, changes={"is_correction": "fix", "corrected_by": "who", "correction_reason": "why"})
    values = {name: pa.array(["2024-01-02T10:00:00Z"]) for name in source.columns_read if name not in ("why", "fix")}
    values |= {"id": pa.array(["k"]), "amount": pa.array([1]), "fix": pa.array([True])}
    values |= {"why": pa.array([Decimal(number)], pa.decimal128(38, 9))}
    pq.write_table(pa.table(values), file := io.BytesIO())
    assert_same(source, file.getvalue(), 2**21)


@law(240, in_each_run=60)
@given(st.data())
def test_generated_files_give_the_rows_of_the_exact_reader(data: st.DataObject) -> None:
    source = SourceContract.model_validate(data.draw(contracts()))
    content = data.draw(files(source))
    assert_same(source, content, data.draw(st.sampled_from([1, 64, 300, 2**21])))
