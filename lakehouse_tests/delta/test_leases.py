"""One process at a time holds a lease; with one, compaction changes no row, however many processes work at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from threading import Barrier
from typing import TYPE_CHECKING

import psutil
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from lakehouse.delta import commit_log, leases, row_writer
from lakehouse.lake import Table
from lakehouse_tests.support.dead_process import dead_process

if TYPE_CHECKING:
    from pathlib import Path


def filled(tmp_path: Path, files: int = 4) -> str:
    """A table of so many files with a row each."""
    path = str(tmp_path / "table")
    for number in range(files):
        row_writer.append(Table(path), pa.table({"number": pa.array([number], pa.int64())}))
    return path


def numbers(path: str) -> list[int]:
    return sorted(Table(path).read()["number"].to_pylist())


def compacted_alone(path: str, **more: datetime) -> bool:
    """Compact the table if no other process does; whether it was done."""
    with leases.held(Table(path), leases.COMPACTION, **more) as is_ours:
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
        row_writer.append(
            Table(path), pa.table({"number": pa.array([number], pa.int64())}), once=row_writer.Once(f"row:{number}")
        )

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(append, range(1, 40)))
    assert numbers(path) == list(range(40))
    assert "OPTIMIZE" in {commit["operation"] for commit in commit_log.history(DeltaTable(path), -1)}


def test_a_process_leaves_a_table_alone_that_another_one_compacts(tmp_path: Path) -> None:
    path = filled(tmp_path)
    taken_at = datetime(2024, 1, 1, tzinfo=timezone.utc)
    assert leases.take(Table(path), leases.COMPACTION, now=taken_at) is not None
    for later, is_free in ((timedelta(0), False), (timedelta(hours=23), False), (timedelta(hours=25), True)):
        assert (leases.take(Table(path), leases.COMPACTION, now=taken_at + later) is not None) is is_free
    assert not compacted_alone(path, now=taken_at + timedelta(hours=26)), "the second lease holds for a day as well"
    assert len(DeltaTable(path).file_uris()) == 4
    assert compacted_alone(path, now=taken_at + timedelta(hours=50))
    assert len(DeltaTable(path).file_uris()) == 1


def fail_while_compacting(path: str) -> None:
    with leases.held(Table(path), leases.COMPACTION) as is_ours:
        assert is_ours
        raise OSError("disk full")


def test_a_compaction_that_fails_ends_its_lease(tmp_path: Path) -> None:
    path = filled(tmp_path)
    with pytest.raises(OSError, match="disk full"):
        fail_while_compacting(path)
    assert compacted_alone(path)
    assert numbers(path) == [0, 1, 2, 3]


def test_vacuum_does_not_take_leases_for_unused_files(tmp_path: Path) -> None:
    path = filled(tmp_path)
    assert compacted_alone(path)
    unused = DeltaTable(path).vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)
    assert len(unused) == 4
    assert [name for name in unused if "_compaction" in name] == []


def test_neither_an_append_nor_a_compaction_fails_if_the_end_of_the_lease_cannot_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, commit = filled(tmp_path), leases.commit_without_rows
    monkeypatch.setattr(row_writer, "_COMPACT_ABOVE_FILES", 3)

    def conflict_at_the_end(table: DeltaTable, *, why: dict[str, str], transaction: tuple[str, int], retries: int) -> None:
        if transaction[0] == leases._ENDED:
            raise CommitFailedError("another process ended its lease at this moment")
        commit(table, why=why, transaction=transaction, retries=retries)

    monkeypatch.setattr(leases, "commit_without_rows", conflict_at_the_end)
    row_writer.append(Table(path), pa.table({"number": pa.array([4], pa.int64())}))
    assert numbers(path) == [0, 1, 2, 3, 4]
    assert compacted_alone(filled(tmp_path / "other", files=2)), "as maintenance does it"


def test_a_lease_that_is_renewed_lasts_and_ends_by_its_last_number(tmp_path: Path) -> None:
    path, work = str(tmp_path / "table"), leases.Work("_work", timedelta(hours=1))
    first = leases.take(Table(path), work, now=datetime(2024, 1, 1, tzinfo=timezone.utc))
    assert first is not None
    second = leases.renew(Table(path), work, first)
    assert leases.renew(Table(path), work, first) is None, "it has another number now"
    assert leases.take(Table(path), work) is None
    leases.end(Table(path), work, first)
    assert leases.take(Table(path), work) is None
    leases.end(Table(path), work, second)
    assert leases.take(Table(path), work) is not None


def test_who_has_lost_an_expired_lease_does_not_end_the_one_of_another(tmp_path: Path) -> None:
    path, work = str(tmp_path / "table"), leases.Work("_work", timedelta(0))
    lost, now = leases.take(Table(path), work), leases.take(Table(path), work)
    assert leases.renew(Table(path), work, lost) is None
    leases.end(Table(path), work, lost)
    assert leases.take(Table(path), leases.Work("_work", timedelta(hours=1))) is None
    leases.end(Table(path), work, now)
    assert leases.take(Table(path), leases.Work("_work", timedelta(hours=1))) is not None


def test_the_late_end_of_a_lost_lease_does_not_disturb_the_one_that_followed(tmp_path: Path) -> None:
    path, work = str(tmp_path / "table"), leases.Work("_work", timedelta(hours=1))
    lost = leases.take(Table(path), work, now=datetime(2024, 1, 1, tzinfo=timezone.utc))
    now = leases.take(Table(path), work)
    assert lost is not None
    assert now is not None
    leases.end(Table(path), work, lost)
    assert leases.take(Table(path), work) is None
    leases.end(Table(path), work, now)
    assert leases.take(Table(path), work) is not None, "its end is recorded"


def lease_of(path: str, process: str, monkeypatch: pytest.MonkeyPatch) -> int | None:
    with monkeypatch.context() as patched:
        patched.setattr(leases, "this_process", lambda: process)
        return leases.take(Table(path), leases.COMPACTION)


def test_the_lease_of_a_process_that_was_killed_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the wait until it expires, which is a day for compaction; of a process on another machine nothing is known."""
    path = filled(tmp_path)
    assert lease_of(path, dead_process(), monkeypatch) is not None
    assert compacted_alone(path), "the same command again goes on at once"
    assert lease_of(path, "elsewhere 1 0.00", monkeypatch) is not None
    assert not compacted_alone(path)


@pytest.mark.parametrize("seconds", [0, 1, -3600])
def test_a_process_lives_when_the_clock_of_its_machine_is_set(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    """The start of a process as a time follows from the time of the boot, which is computed from the clock."""
    process = leases.this_process()
    at = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: at(self) + seconds)
    assert not leases.has_ended(process)
    host, pid, *_ = process.split(" ")
    assert leases.has_ended(f"{process}0"), "a later process with the same number is another one"
    earlier = f"{host} {pid} {psutil.Process().create_time():.2f}"
    assert not leases.has_ended(earlier), "as an earlier release has named it"
    assert leases.has_ended(f"{host} {pid} 1.00")


def test_a_lease_that_an_earlier_release_took_names_no_process_and_expires(tmp_path: Path) -> None:
    path = filled(tmp_path)
    table = leases._leases(Table(path), leases.COMPACTION)
    now = int(datetime.now(timezone.utc).timestamp() * 1000)
    leases.commit_without_rows(table, why={"lease": "claimed"}, transaction=("claimed", now))
    assert not compacted_alone(path)
