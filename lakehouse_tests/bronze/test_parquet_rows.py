"""Times of INT96, whose range is that of the calendar and not that of nanoseconds."""

from __future__ import annotations

import io
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.bronze import parquet
from lakehouse.bronze.parquet import ParquetRows, values_of

#: The Julian number of 1970-01-01.
JULIAN = 2_440_588


def int96(days: int, nanos: int) -> bytes:
    return struct.pack("<qi", nanos, days + JULIAN)


def rows(*moments: tuple[int, int], metadata: dict[str, str] | None = None) -> list[object]:
    """What is read from a file with these times, as days since 1970 and nanoseconds of the day, in its INT96 column."""
    marks = [(1_000 + position) * 10**9 for position in range(len(moments))]
    table = pa.table({"t": pa.array(marks, pa.timestamp("ns"))}).replace_schema_metadata(metadata)
    options = {"use_dictionary": False, "compression": "none", "store_schema": metadata is not None, "write_statistics": False}
    pq.write_table(table, buffer := io.BytesIO(), use_deprecated_int96_timestamps=True, **options)
    content = buffer.getvalue()
    for mark, moment in zip(marks, moments):
        assert content.count(int96(0, mark)) == 1
        content = content.replace(int96(0, mark), int96(*moment))
    return [row["t"] for batch in ParquetRows(io.BytesIO(content)).batches() for row in values_of(batch)]


def test_times_outside_of_1677_to_2262_do_not_wrap_around() -> None:
    assert rows((2_932_896, 0), (-354_285, 3_600 * 10**9), (20_031, 5_000_000_000)) == [
        "9999-12-31 00:00:00",
        "1000-01-01 01:00:00",
        "2024-11-04 00:00:05",
    ]


def test_nanoseconds_are_kept_also_where_nanoseconds_wrap_around() -> None:
    assert rows((2_932_896, 1_001), (20_031, 999), (20_031, 1_000)) == [
        "9999-12-31 00:00:00.000001001",
        "2024-11-04 00:00:00.000000999",
        "2024-11-04 00:00:00.000001",
    ]


def test_a_time_of_spark_is_a_moment() -> None:
    assert rows((20_031, 0), metadata={"org.apache.spark.version": "3.5.0"}) == ["2024-11-04 00:00:00+00:00"]


@pytest.mark.parametrize(
    ("values", "batches"),
    [
        (["v" * 1_000] * 5_000, 5),  # stored once
        ([f"{number:01000}" for number in range(5_000)], 5),  # each stored
        (["short"] * 5_000, 1),
    ],
)
def test_large_values_are_read_a_few_at_a_time(values: list[str], batches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of some KB may hold one text of megabytes in each row."""
    monkeypatch.setattr(parquet, "_BATCH_BYTES", 2**20)
    pq.write_table(pa.table({"t": values, "n": list(range(5_000))}), buffer := io.BytesIO(), compression="zstd")
    read = list(ParquetRows(io.BytesIO(buffer.getvalue())).batches())
    assert batches <= len(read) <= batches + 1
    whole = pa.Table.from_batches(read)
    assert whole["t"].to_pylist() == values
    assert whole["n"].to_pylist() == list(range(5_000))
