"""What people decided outlives its table: whatever a log loses, its readers and writers see every entry; without Spark."""

from __future__ import annotations

import logging
import shutil
from datetime import date, datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

import pytest
from deltalake import DeltaTable
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.delta import row_writer
from lakehouse.gold.publication import held_numbers
from lakehouse.gold.publication.held_numbers import RevertedPeriod, RevertEvent
from lakehouse.lake import Lake, Table, table_io
from lakehouse.ledger import decisions, log_table
from lakehouse.ledger.decisions import Decision
from lakehouse.ledger.row_states import StewardVerdict
from lakehouse.settings import Settings
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehouse.ledger.log_table import LogTable

Result = TypeVar("Result")
NOW = datetime(2024, 5, 1, 12, 0, 0, 123456, tzinfo=timezone.utc)
CUTS = ["deleted", "two deleted", "three deleted", "emptied", "halved", "one older", "two older", "gone"]


def reverted(number: int) -> RevertedPeriod:
    return RevertedPeriod("revenue", date(2024, 5, number), number, RevertEvent.REVERTED, "r1", "anna", "why", NOW)


def decided(number: int, day: date | None = None) -> Decision:
    days = [] if day is None else [day]
    return Decision("i", number, f"k{number}", StewardVerdict.ACCEPT, "anna", "why", NOW, number=number, touched_days=days)


class Reverts:
    """A log of reverts, with a copy of it as each entry left it."""

    def __init__(self, folder: str) -> None:
        self.lake = Lake(Settings(root=f"{folder}/lake"))
        self.folder, self.copies, self.written = Path(folder, "lake/ops/reverts"), Path(folder, "copies"), 0

    @property
    def log(self) -> LogTable[RevertedPeriod]:
        return held_numbers.revert_log(self.lake)

    def append(self) -> None:
        number = self.written + 1
        assert self.log.append([reverted(number)], app_id="reverts:revenue", app_version=number)
        self.written = number
        shutil.copytree(self.folder, self.copies / f"{self.written}")

    def seen(self) -> list[int]:
        return sorted(entry.number for entry in self.log.read({"series": ["revenue"]}))

    def walked(self, step: Callable[[], Result]) -> Result:
        """A step, after what a person does who is told that a log cannot be read."""
        for _ in CUTS:
            try:
                Table(f"{self.folder}").snapshot()
            except table_io.DamagedLogError:  # noqa: PERF203 (each step names one entry)
                max(self.folder.glob("_delta_log/*.json")).unlink()
        return step()

    def cut(self, how: str) -> None:
        log_table.forget()  # as another process
        entries = sorted(self.folder.glob("_delta_log/*.json"))
        count = {"deleted": 1, "two deleted": 2, "three deleted": 3}.get(how, 0)
        for entry in entries[len(entries) - count :] if count else []:
            entry.unlink()
        if how in {"emptied", "halved"} and entries:
            entries[-1].write_bytes(entries[-1].read_bytes()[: 0 if how == "emptied" else entries[-1].stat().st_size // 2])
        if how in {"one older", "two older"}:
            copy = self.copies / f"{self.written - (1 if how == 'one older' else 2)}"
            shutil.rmtree(self.folder, ignore_errors=True)
            if copy.exists():
                shutil.copytree(copy, self.folder)
        if how == "gone" or not list(self.folder.glob("_delta_log/*.json")):
            shutil.rmtree(self.folder, ignore_errors=True)


@law(200, in_each_run=5, shrinks=True)
@example(first=3, steps=["emptied", "append", "one older", "read", "append"])  # a number that was given again is not believed
@example(first=1, steps=["gone", "gone"])  # twice, and from nothing
@example(first=2, steps=["deleted", "append", "deleted"])  # the entry that was lost is written before the next one
@given(first=st.integers(1, 3), steps=st.lists(st.sampled_from([*CUTS, "append", "read"]), min_size=1, max_size=5))
def test_whatever_a_log_loses_every_entry_is_read(first: int, steps: list[str]) -> None:
    with TemporaryDirectory() as folder:
        reverts = Reverts(folder)
        for _ in range(first):
            reverts.append()
        for step in steps:
            if step == "append":
                reverts.walked(reverts.append)
            elif step == "read":
                assert reverts.walked(reverts.seen) == [*range(1, reverts.written + 1)]
            else:
                reverts.cut(step)
        assert reverts.walked(reverts.seen) == [*range(1, reverts.written + 1)]
        log_table.forget()
        assert reverts.seen() == [*range(1, reverts.written + 1)], "and again"


def test_entries_come_back_as_they_were(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    entries = [decided(1), decided(2, date(2024, 5, 2))]
    decision_id = decisions.record(lake, "events", entries)
    before = decisions.all_of(lake, "events")
    shutil.rmtree(f"{lake.root}/bronze/events_decisions")
    with caplog.at_level(logging.WARNING):
        assert decisions.all_of(lake, "events") == before
    assert "bronze/events_decisions does not hold commit 1 any more: its last 2 entries are written again" in caplog.text
    assert decisions.record(lake, "events", entries) == decision_id
    assert decisions.all_of(lake, "events") == before, "the same decision again is known"


def test_a_log_that_other_writers_compact_has_lost_nothing(lake: Lake) -> None:
    for number in (1, 2, 3):
        held_numbers.revert_log(lake).append([reverted(number)], app_id="reverts:revenue", app_version=number)
    path = f"{lake.root}/ops/reverts"
    DeltaTable(path).optimize.compact()
    log_table.forget()
    version = Table(path).version()
    assert len(held_numbers.revert_log(lake).read()) == 3
    assert Table(path).version() == version


def test_a_lost_or_damaged_journal_harms_nothing(lake: Lake) -> None:
    log = held_numbers.revert_log(lake)
    log.append([reverted(1)], app_id="reverts:revenue", app_version=1)
    shutil.rmtree(f"{lake.root}/ops/journal")
    log_table.forget()
    assert len(log.read()) == 1
    log.append([reverted(2)], app_id="reverts:revenue", app_version=2)
    newest = max(Path(f"{lake.root}/ops/journal").glob("_delta_log/*.json"))
    newest.write_text(newest.read_text()[:-40])
    log_table.forget()
    with pytest.raises(table_io.DamagedLogError, match=r"ops/journal: its Delta log cannot be read .*move the newest file"):
        log.read()
    newest.unlink()
    assert len(log.read()) == 2


def test_a_lake_that_cannot_be_written_says_what_is_lost(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    log = held_numbers.revert_log(lake)
    log.append([reverted(1)], app_id="reverts:revenue", app_version=1)
    shutil.rmtree(f"{lake.root}/ops/reverts")

    def refused(*_: object, **__: object) -> bool:
        raise PermissionError("read-only file system")

    monkeypatch.setattr(row_writer, "append", refused)
    with pytest.raises(
        log_table.LostEntriesError, match=r"ops/reverts has lost entries that ops/journal contains, and cannot be"
    ):
        log.read()
