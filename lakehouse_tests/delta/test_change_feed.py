"""The parts in which a change feed is read. What it says about keys is tested in ``impact/test_row_changes``."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.delta import change_feed, partition_writer
from lakehouse.lake import Table
from lakehouse_tests.support.small_pieces import pieces_of

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema([("event_date", pa.date32()), ("record_key", pa.string())])


def test_a_feed_of_appends_comes_day_by_day_from_the_creation_of_its_table_on(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    partition_writer.create(Table(path), SCHEMA, ["event_date"], properties=partition_writer.CHANGE_FEED)
    for number in (1, 2):
        rows = [{"event_date": date(2024, 1, day), "record_key": f"k{number}{day}"} for day in (1, 2, 3)]
        write_deltalake(path, pa.Table.from_pylist(rows, schema=SCHEMA), mode="append")
    table = DeltaTable(path)
    table.optimize.compact()
    table.update_incremental()
    assert table.history()[0]["operation"] == "OPTIMIZE"
    with pieces_of(2):
        parts = [*change_feed.parts_of_feed(table, 0, table.version(), ["event_date", "record_key"])]
    assert [sorted(part["record_key"].to_pylist()) for part in parts] == [[f"k1{day}", f"k2{day}"] for day in (1, 2, 3)]


def test_a_feed_of_later_appends_has_their_rows_only_and_names_files_that_are_gone(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    partition_writer.create(Table(path), SCHEMA, ["event_date"], properties=partition_writer.CHANGE_FEED)
    for number in (1, 2, 3):
        rows = [{"event_date": date(2024, 1, day), "record_key": f"k{number}{day}"} for day in (1, 2, 3)]
        write_deltalake(path, pa.Table.from_pylist(rows, schema=SCHEMA), mode="append")
    table = DeltaTable(path)
    with pieces_of(2):
        parts = [*change_feed.parts_of_feed(table, 2, 2, ["_change_type", "record_key"])]
    assert [sorted(part["record_key"].to_pylist()) for part in parts] == [["k21", "k22"], ["k23"]]
    assert {change for part in parts for change in part["_change_type"].to_pylist()} == {"insert"}
    table.delete("record_key = 'k21'")
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pieces_of(2), pytest.raises(change_feed.ForgottenFeedError, match="are gone"):
        [*change_feed.parts_of_feed(DeltaTable(path), 2, 2, ["_change_type", "record_key"])]


def test_a_feed_with_a_removal_is_one_part(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    partition_writer.create(Table(path), SCHEMA, ["event_date"], properties=partition_writer.CHANGE_FEED)
    rows = [{"event_date": date(2024, 1, day), "record_key": f"k{day}"} for day in (1, 2, 3)]
    write_deltalake(path, pa.Table.from_pylist(rows, schema=SCHEMA), mode="append")
    DeltaTable(path).delete("record_key = 'k2'")
    with pieces_of(2):
        parts = [*change_feed.parts_of_feed(DeltaTable(path), 0, 2, ["event_date", "record_key", "_change_type"])]
    assert [sorted(part["record_key"].to_pylist()) for part in parts] == [["k1", "k2", "k2", "k3"]]
