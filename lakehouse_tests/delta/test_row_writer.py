"""Rows that are appended while they are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from lakehouse.delta import row_writer
from lakehouse.delta.data_files import Storage
from lakehouse.lake import Table, table_io

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = pa.schema([("number", pa.int64())])


def piece(*numbers: int) -> pa.Table:
    return pa.table({"number": pa.array(numbers, pa.int64())})


def numbers(path: str) -> list[int]:
    rows = Table(path).read()
    assert rows is not None
    return sorted(rows["number"].to_pylist())


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.mark.parametrize("pieces", [[], [()], [(1, 2)], [(1,), (), (2, 3), (4,)]])
def test_all_pieces_are_in_one_commit(path: str, pieces: list[tuple[int, ...]]) -> None:
    table = row_writer.open_or_create(Table(path), SCHEMA)
    expected = sorted(number for one_piece in pieces for number in one_piece)
    assert row_writer.append_new(Table(path), table, (piece(*one_piece) for one_piece in pieces), ["all"], None) == len(expected)
    assert numbers(path) == expected
    assert DeltaTable(path).version() == (1 if expected else 0)


def test_pieces_may_be_computed_from_tables(path: str) -> None:
    """delta-rs must not be called from within its own call: it would stop the process."""
    table = row_writer.open_or_create(Table(path), SCHEMA)
    row_writer.append(Table(path), piece(1))

    def pieces() -> Iterator[pa.Table]:
        for number in range(2, 5):
            read = Table(path).snapshot()
            assert read is not None
            assert table_io.read_version(read)["number"].to_pylist() == [1]
            yield piece(number)

    row_writer.append_new(Table(path), table, pieces(), ["computed"], None)
    assert numbers(path) == [1, 2, 3, 4]


def test_nothing_is_committed_where_a_piece_cannot_be_computed(path: str) -> None:
    table = row_writer.open_or_create(Table(path), SCHEMA)

    def pieces() -> Iterator[pa.Table]:
        yield piece(1)
        yield piece(2)
        msg = "no third piece"
        raise LookupError(msg)

    with pytest.raises(LookupError, match="no third piece"):
        row_writer.append_new(Table(path), table, pieces(), ["stopped"], None)
    assert numbers(path) == []


def test_a_writer_that_fails_ends_the_computation(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = row_writer.open_or_create(Table(path), SCHEMA)
    computed = []

    def pieces() -> Iterator[pa.Table]:
        for number in range(1_000):
            computed.append(number)
            yield piece(number)

    def full(_table: DeltaTable, data: pa.RecordBatchReader, **_more: object) -> None:
        data.read_next_batch()
        raise OSError("disk full")

    monkeypatch.setattr(row_writer, "write_deltalake", full)
    with pytest.raises(OSError, match="disk full"):
        row_writer.append_new(Table(path), table, pieces(), ["full"], None)
    assert len(computed) < 1_000
    assert numbers(path) == []


def test_a_piece_with_other_columns_commits_nothing(path: str) -> None:
    table = row_writer.open_or_create(Table(path), SCHEMA)
    pieces = [piece(1), piece(2), pa.table({"number": ["no number"]})]
    with pytest.raises(pa.ArrowInvalid):
        row_writer.append_new(Table(path), table, pieces, ["wrong"], None)
    assert numbers(path) == []


def test_of_two_appends_of_the_same_rows_one_is_refused(path: str) -> None:
    row_writer.open_or_create(Table(path), SCHEMA)
    first, second = DeltaTable(path), DeltaTable(path)
    row_writer.append_new(Table(path), first, [piece(1), piece(2)], ["the same"], None)
    with pytest.raises(CommitFailedError):
        row_writer.append_new(Table(path), second, [piece(1), piece(2)], ["the same"], None)
    assert numbers(path) == [1, 2]


def test_a_table_has_a_checkpoint_before_its_log_is_long(path: str) -> None:
    for number in range(45):
        row_writer.append(Table(path), piece(number))
    checkpoints = sorted(entry.version for entry in Storage(path, {}).log if entry.is_checkpoint)
    assert checkpoints == [19, 39]
    assert numbers(path) == list(range(45))
