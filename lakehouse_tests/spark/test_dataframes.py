"""Rows handed to Spark by this process all arrive, and are the same in whichever way they are read."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakehouse.delta import row_writer
from lakehouse.lake import Lake, Table
from lakehouse.settings import Settings
from lakehouse.spark import dataframes

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Row, SparkSession

    from lakehouse.lake.table_io import Where

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


@pytest.fixture
def table(tmp_path: Path) -> tuple[Lake, str]:
    """A table of two days: files of an older schema, of delta-rs's MERGE (string views), and of Spark-like plain writes."""
    path, day = f"{tmp_path}/silver/readings", date(2024, 3, 1)
    schema = pa.schema([("event_date", pa.date32()), ("key", pa.string()), ("kwh", pa.decimal128(12, 3))])
    at = pa.timestamp("us", "UTC")

    def rows(first: int, count: int, on: date) -> pa.Table:
        keys = [f"k{first + number}" for number in range(count)]
        return pa.table([[on] * count, keys, [Decimal(number) / 8 for number in range(count)]], schema=schema)

    row_writer.append(Table(path), rows(0, 40, day), partition_by=["event_date"])
    row_writer.append(Table(path), rows(40, 30, day + timedelta(days=1)))
    newer = rows(30, 20, day).append_column("seen", pa.array([datetime(1600, 1, 2, tzinfo=timezone.utc)] * 20, at))
    row_writer.upsert(Table(path), newer, ["event_date", "key"], partition_by="event_date")
    return Lake(Settings(root=str(tmp_path))), path


@pytest.mark.merge
@pytest.mark.parametrize(
    "where", [{}, {"event_date": [date(2024, 3, 1)]}, {"event_date": [date(2024, 3, 1)], "key": ["k3", "k45"]}]
)
def test_every_way_of_reading_gives_the_same_rows(
    spark: SparkSession, table: tuple[Lake, str], where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lake, path), columns = table, ["key", "kwh", "seen", "event_date", "newer"]

    def read(few_rows: int, local_rows: int) -> tuple[list[tuple[str, str]], list[Row]]:
        monkeypatch.setattr(dataframes, "FEW_ROWS", few_rows)
        sized = lake.with_settings(local_rows=local_rows)
        frame = dataframes.scan(spark, sized, Table(path), columns, where)
        return frame.dtypes, sorted(frame.collect())

    as_local, as_files, by_delta = read(1_000, 1_000), read(0, 1_000), read(0, 0)
    assert as_local[1]
    assert all(row.newer is None for row in as_local[1])
    assert as_local == as_files == by_delta
