"""Columns that become wider in a table's log: every reader has the same rows as before, and larger values fit."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import duckdb_extension_delta
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import CommitFailedError

from lakehouse.delta import change_feed, columns, partition_writer, row_writer
from lakehouse.lake import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

BEFORE = pa.schema([("day", pa.date32()), ("pieces", pa.int32()), ("amount", pa.decimal128(12, 2)), ("name", pa.string())])
AFTER = pa.schema([("day", pa.date32()), ("pieces", pa.int64()), ("amount", pa.decimal128(22, 2)), ("name", pa.string())])
SMALL = {"day": date(2024, 1, 1), "pieces": 7, "amount": Decimal("1.10"), "name": "a"}
LARGE = {"day": date(2024, 1, 2), "pieces": 2**40, "amount": Decimal("12345678901234567890.12"), "name": "b"}


def table_of(folder: Path, properties: Mapping[str, str] = partition_writer.CHANGE_FEED) -> DeltaTable:
    partition_writer.create(Table(f"{folder}"), BEFORE, ["day"], properties=properties)
    row_writer.append(Table(f"{folder}"), pa.Table.from_pylist([SMALL], BEFORE))
    return DeltaTable(folder)


@pytest.mark.parametrize(
    ("before", "after", "wider"),
    [
        (pa.int32(), pa.int64(), True),
        (pa.int64(), pa.int32(), False),
        (pa.int32(), pa.int32(), False),
        (pa.decimal128(12, 2), pa.decimal128(14, 2), True),
        (pa.decimal128(14, 2), pa.decimal128(12, 2), False),
        (pa.decimal128(12, 2), pa.decimal128(14, 4), False),
        (pa.int32(), pa.decimal128(12, 0), False),
        (pa.int32(), pa.float64(), False),
        (pa.date32(), pa.timestamp("us", "UTC"), False),
        (pa.string(), pa.int64(), False),
    ],
    ids=str,
)
def test_a_type_becomes_wider_if_each_value_keeps_its_text(before: pa.DataType, after: pa.DataType, wider: bool) -> None:
    assert columns.is_wider(before, after) is wider


def test_every_reader_has_older_and_larger_values(tmp_path: Path) -> None:
    table = table_of(tmp_path, partition_writer.APPEND_ONLY | partition_writer.CHANGE_FEED)
    assert columns.widen(table, AFTER)
    assert not columns.widen(table, AFTER), "it has these types already"
    assert not columns.widen(table, BEFORE), "nothing becomes narrower"
    row_writer.append(Table(f"{tmp_path}"), pa.Table.from_pylist([LARGE], AFTER))
    table = DeltaTable(tmp_path)
    extension = next(Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension"))
    duck = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    duck.execute(f"LOAD '{extension}'")
    query = "SELECT day, pieces, amount, name FROM t ORDER BY day"
    by_readers = {
        "the product": Table(f"{tmp_path}").read().sort_by("day").to_pylist(),
        "delta-rs": table.to_pyarrow_table().sort_by("day").to_pylist(),
        "DataFusion": pa.table(QueryBuilder().register("t", table).execute(query).read_all()).to_pylist(),
        "polars": pl.read_delta(f"{tmp_path}").sort("day").to_dicts(),
        "DuckDB": duck.execute(query.replace(" t ", f" delta_scan('{tmp_path}') ")).to_arrow_table().to_pylist(),
    }
    assert by_readers == {reader: [SMALL, LARGE] for reader in by_readers}
    assert Table(f"{tmp_path}").read(["name"], {"pieces": [7]}).to_pylist() == [{"name": "a"}]
    feed = pa.table(table.load_cdf(0).read_all())
    assert sorted(feed["amount"].to_pylist()) == [SMALL["amount"], LARGE["amount"]]
    assert table.protocol().min_reader_version == 1
    assert [change_feed._appended_rows(commit) for commit in table.history()] == [1, 0, 1, 0], "the feed is read in parts"


def test_a_table_by_numbered_partitions_becomes_wider_too(tmp_path: Path) -> None:
    schema = pa.schema([("bucket", pa.int32()), ("pieces", pa.int32())])
    partition_writer.create(Table(f"{tmp_path}"), schema, ["bucket"])
    row_writer.append(Table(f"{tmp_path}"), pa.table({"bucket": [0, 1], "pieces": [5, 6]}, schema))
    assert columns.widen(DeltaTable(tmp_path), pa.schema([("pieces", pa.int64())]))
    rows = DeltaTable(tmp_path).to_pyarrow_table()
    assert sorted(rows["pieces"].to_pylist()) == [5, 6]
    assert rows.schema.field("bucket").type == pa.int32()


def test_writers_widen_the_table_first(tmp_path: Path) -> None:
    table = table_of(tmp_path / "replaced")
    large = pa.Table.from_pylist([LARGE], AFTER)
    with pytest.raises(CommitFailedError, match="have become wider"):
        partition_writer.replace(table, large, [date(2024, 1, 2)])
    assert partition_writer.replace(DeltaTable(tmp_path / "replaced"), large, [date(2024, 1, 2)])
    table_of(tmp_path / "merged")
    assert row_writer.upsert(Table(f"{tmp_path / 'merged'}"), large, ["day"], partition_by="day")
    for each in ("replaced", "merged"):
        assert Table(f"{tmp_path / each}").read().sort_by("day").to_pylist() == [SMALL, LARGE]


def test_a_writer_with_the_former_types_fails_instead_of_losing_the_new_ones(tmp_path: Path) -> None:
    stale, newest = table_of(tmp_path), DeltaTable(tmp_path)
    assert columns.widen(newest, AFTER)
    with pytest.raises(CommitFailedError):
        columns.widen(stale, AFTER)
    row_writer.append(Table(f"{tmp_path}"), pa.Table.from_pylist([SMALL], BEFORE))
    assert pa.schema(DeltaTable(tmp_path).schema().to_arrow()).equals(AFTER)
