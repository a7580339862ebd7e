"""The lease that a driver holds while it commits to a table in S3; here the table is a folder."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakehouse import object_store
from lakehouse.delta import leases
from lakehouse.lake import Table

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(name="table")
def _table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.setattr(object_store, "is_s3", lambda _: True)
    monkeypatch.setattr(leases, "_WAITS", 0.01)
    return Table(str(tmp_path / "table"))


def test_one_driver_at_a_time_holds_the_lease(table: Table) -> None:
    inside, most, done = [], [], []

    def commit(number: int) -> None:
        for _ in range(3):
            with leases.alone(table):
                inside.append(number)
                most.append(len(inside))
                time.sleep(0.01)
                inside.remove(number)
                done.append(number)

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 12
    assert max(most) == 1


def ends_after(seconds: float) -> leases.Work:
    return replace(leases.COMMITS, expires=timedelta(seconds=seconds))


def taken_and_left(table: Table) -> None:
    """As a driver does that is killed while it commits."""
    assert leases.take(table, leases.COMMITS) is not None


def test_the_lease_of_a_killed_driver_ends(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "COMMITS", ends_after(0.6))
    taken_and_left(table)
    start = time.monotonic()
    with leases.alone(table):
        assert 0.3 < time.monotonic() - start < 30


def test_a_lease_is_renewed_while_its_driver_commits(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "COMMITS", ends_after(1.0))
    monkeypatch.setattr(leases, "_RENEWED", 0.1)
    with leases.alone(table):
        time.sleep(1.5)
        assert leases.take(table, leases.COMMITS) is None
    assert leases.take(table, leases.COMMITS) is not None


def test_a_commit_that_fails_gives_the_lease_back(table: Table) -> None:
    with pytest.raises(OSError, match="disk full"), leases.alone(table):
        raise OSError("disk full")
    assert leases.take(table, leases.COMMITS) is not None


def test_no_other_file_system_needs_a_lease(tmp_path: Path) -> None:
    with leases.alone(Table(str(tmp_path / "table"))):
        assert list(tmp_path.iterdir()) == []
