"""Rows handed to Spark by this process all arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakehouse.spark import dataframes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("chunks", [[[], [1, 2]], [[1], [], [2]], [[], []], [[1, 2], []]])
def test_no_chunk_of_a_table_is_lost(spark: SparkSession, chunks: list[list[int]]) -> None:
    table = pa.table({"n": pa.chunked_array([pa.array(chunk, pa.int64()) for chunk in chunks])})
    found = [row.n for row in dataframes.local(spark, table).collect()]
    assert found == [number for chunk in chunks for number in chunk]


def test_a_table_without_rows_keeps_its_types(spark: SparkSession) -> None:
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("day", pa.date32()), ("amount", pa.decimal128(12, 2))])
    assert dataframes.local(spark, schema.empty_table()).dtypes == [
        ("at", "timestamp"),
        ("day", "date"),
        ("amount", "decimal(12,2)"),
    ]
