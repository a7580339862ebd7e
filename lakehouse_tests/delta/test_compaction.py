"""Compaction changes no row, however many processes compact, append and update at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from threading import Barrier
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from lakehouse.delta import commit_log, compaction, row_writer, table_io

if TYPE_CHECKING:
    from pathlib import Path


def filled(tmp_path: Path, files: int = 4) -> str:
    """A table of so many files with a row each."""
    path = str(tmp_path / "table")
    for number in range(files):
        row_writer.append(path, pa.table({"number": pa.array([number], pa.int64())}))
    return path


def numbers(path: str) -> list[int]:
    return sorted(table_io.read(path)["number"].to_pylist())


def compacted_alone(path: str, **more: datetime) -> bool:
    """Compact the table if no other process does; whether it was done."""
    with compaction.claimed(path, **more) as is_ours:
        if is_ours:
            DeltaTable(path).optimize.compact()
    return is_ours


def test_two_compactions_at_once_keep_each_row_once(tmp_path: Path) -> None:
    path, start = filled(tmp_path), Barrier(8)

    def compact(_: int) -> bool:
        start.wait()
        return compacted_alone(path)

    with ThreadPoolExecutor(8) as threads:
        compacted = list(threads.map(compact, range(8)))
    assert any(compacted)
    assert numbers(path) == [0, 1, 2, 3]


def test_appends_that_compact_at_once_lose_and_repeat_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_writer, "_COMPACT_ABOVE_FILES", 3)
    path = filled(tmp_path, 1)

    def append(number: int) -> None:
        row_writer.append(path, pa.table({"number": pa.array([number], pa.int64())}), app_id=f"row:{number}")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(append, range(1, 40)))
    assert numbers(path) == list(range(40))
    assert "OPTIMIZE" in {commit["operation"] for commit in commit_log.history(DeltaTable(path), -1)}


def test_a_process_leaves_a_table_alone_that_another_one_compacts(tmp_path: Path) -> None:
    path = filled(tmp_path)
    claimed_at = datetime(2024, 1, 1, tzinfo=timezone.utc)
    assert compaction.claim(path, now=claimed_at) is not None
    for later, is_free in ((timedelta(0), False), (timedelta(hours=23), False), (timedelta(hours=25), True)):
        assert (compaction.claim(path, now=claimed_at + later) is not None) is is_free
    assert not compacted_alone(path, now=claimed_at + timedelta(hours=26)), "the second claim holds for a day as well"
    assert len(DeltaTable(path).file_uris()) == 4
    assert compacted_alone(path, now=claimed_at + timedelta(hours=50))
    assert len(DeltaTable(path).file_uris()) == 1


def fail_while_compacting(path: str) -> None:
    with compaction.claimed(path) as is_ours:
        assert is_ours
        raise OSError("disk full")


def test_a_compaction_that_fails_ends_its_claim(tmp_path: Path) -> None:
    path = filled(tmp_path)
    with pytest.raises(OSError, match="disk full"):
        fail_while_compacting(path)
    assert compacted_alone(path)
    assert numbers(path) == [0, 1, 2, 3]


def test_vacuum_does_not_take_claims_for_unused_files(tmp_path: Path) -> None:
    path = filled(tmp_path)
    assert compacted_alone(path)
    unused = DeltaTable(path).vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)
    assert len(unused) == 4
    assert [name for name in unused if "_compaction" in name] == []


def test_neither_an_append_nor_a_compaction_fails_if_the_end_of_the_claim_cannot_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, record = filled(tmp_path), compaction._record
    monkeypatch.setattr(row_writer, "_COMPACT_ABOVE_FILES", 3)

    def conflict_at_the_end(claims: DeltaTable, event: str, number: int) -> None:
        if event == compaction._ENDED:
            raise CommitFailedError("another process ended its claim at this moment")
        record(claims, event, number)

    monkeypatch.setattr(compaction, "_record", conflict_at_the_end)
    row_writer.append(path, pa.table({"number": pa.array([4], pa.int64())}))
    assert numbers(path) == [0, 1, 2, 3, 4]
    assert compacted_alone(filled(tmp_path / "other", files=2)), "as maintenance does it"
