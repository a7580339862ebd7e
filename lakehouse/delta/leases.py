"""Leases: one process at a time works on a Delta table, until it ends its lease or the lease expires.

A lease is a Delta transaction in a table without rows below the table's folder: of two processes that take it at once, one
conflicts. This works wherever commits of delta-rs work, on object stores too. A lease names its process: the lease of a process
of this machine that has ended is free at once. Any lease expires, so that a process killed on another machine does not block
the work forever; the clocks of the machines must differ by less than that time. The callers decide which work needs a lease,
and when.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil
import pyarrow as pa
from deltalake.exceptions import CommitFailedError

from lakehouse import object_store
from lakehouse.delta.partition_writer import commit_without_rows
from lakehouse.lake import table_io
from lakehouse.lake.delta_rs_internals import log_entry, transaction_version
from lakehouse.lake.table_cache import look_again

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deltalake import DeltaTable

    from lakehouse.lake import Table

#: The Delta transactions of a lease: the last one that was taken or renewed, and the last one that was ended.
_TAKEN, _ENDED = "claimed", "ended"
#: The keys of the event and of the process in the metadata of its commit.
_LEASE, _PROCESS = "lease", "process"
#: The start time of a process is known to a hundredth of a second.
_SAME_START = 0.1
_SCHEMA = pa.schema([("nothing", pa.bool_())])
#: To open the table, all entries since the last checkpoint are read.
_PROPERTIES = {"delta.checkpointInterval": "20"}


@dataclass(frozen=True)
class Work:
    """A kind of work that needs a lease.

    ``folder`` is below the table's folder; names with an underscore are hidden from readers and from VACUUM. ``expires`` is the
    duration of a lease that is neither ended nor renewed.
    """

    folder: str
    expires: timedelta


#: delta-rs lets two compactions of the same files both commit, because it ignores files that another compaction has removed
#: (https://github.com/delta-io/delta-rs/pull/3982); each row would then be in the table twice. No compaction takes this long.
COMPACTION = Work("_compaction", timedelta(hours=24))


@contextmanager
def held(target: Table, work: Work, *, now: datetime | None = None) -> Iterator[bool]:
    """Hold the lease of a table until the block ends; yields False if another process holds it, and the block must then do no
    work.

    A table that is opened in the block contains everything that earlier holders committed.
    """
    number = take(target, work, now=now)
    try:
        yield number is not None
    finally:
        if number is not None:
            end(target, work, number)


def take(target: Table, work: Work, *, now: datetime | None = None) -> int | None:
    """Take the lease of a table.

    :param now: the system time by default.
    :returns: the number of the lease; None if another process holds it.
    """
    leases = _leases(target, work)
    last, milliseconds = _newest_event(leases), _milliseconds(now)
    is_taken = last.name == _TAKEN and milliseconds - last.number < work.expires / timedelta(milliseconds=1)
    if is_taken and not (last.process and has_ended(last.process)):
        return None
    look_again(target.address)  # earlier holders may have committed
    return _taken(target, work, leases, max(milliseconds, last.number + 1))


def renew(target: Table, work: Work, number: int) -> int | None:
    """Restart the duration of a lease.

    :returns: the new number of the lease; None if it had expired and another process has taken one since.
    """
    for leases in _of_holder(target, work, number):
        renewed = _taken(target, work, leases, max(_milliseconds(None), number + 1))
        if renewed is not None:
            return renewed
    return None


def end(target: Table, work: Work, number: int) -> None:
    """End the lease with this number; without effect if another process has taken one since."""
    for leases in _of_holder(target, work, number):
        if _recorded(leases, _ENDED, number) is not None:
            return


#: The leases of this process, each with its table as of then.
_held_ones: dict[tuple[str, str, int], DeltaTable] = {}


def _of_holder(target: Table, work: Work, number: int) -> Iterator[DeltaTable]:
    """The table of a lease as this process left it, and after a conflict as it is now, while the lease is this process's."""
    kept = _held_ones.pop((target.address, work.folder, number), None)
    if kept is not None:  # an event of another process conflicts
        yield kept
    for _ in range(2):
        leases = _leases(target, work)
        if _newest_event(leases)[:2] != (_TAKEN, number):
            return
        yield leases


def _taken(target: Table, work: Work, leases: DeltaTable, number: int) -> int | None:
    """Record that a lease was taken or renewed."""
    taken = _recorded(leases, _TAKEN, number)
    if taken is not None:
        _held_ones[target.address, work.folder, taken] = leases
    return taken


class _Event(NamedTuple):
    """What happened to a lease: it was taken or renewed, or it was ended. An earlier release named no process."""

    name: str
    number: int
    process: str | None = None


def _newest_event(leases: DeltaTable) -> _Event:
    """The newest event, from the newest entry of the log: no event is recorded beside another one."""
    entry = log_entry(leases, leases.version()) or b""
    actions = {kind: action for line in entry.splitlines() for kind, action in json.loads(line).items()}
    transaction = actions.get("txn")
    if transaction is None:  # that of the table, or of another writer
        taken, ended = (transaction_version(leases, name) or 0 for name in (_TAKEN, _ENDED))
        return _Event(_TAKEN, taken) if taken > ended else _Event(_ENDED, max(taken, ended))
    why = json.loads(actions["commitInfo"].get("userMetadata") or "{}")
    return _Event(transaction["appId"], transaction["version"], why.get(_PROCESS))


def _milliseconds(moment: datetime | None) -> int:
    return int((moment or datetime.now(timezone.utc)).timestamp() * 1000)


def _leases(target: Table, work: Work) -> DeltaTable:
    address, options = f"{target.address}/{work.folder}", dict(target.options)
    while (table := table_io.open_snapshot(address, options)) is None:
        with suppress(CommitFailedError):  # another process creates it at this moment
            return table_io.create(address, options, schema=_SCHEMA, configuration=_PROPERTIES)
    return table


def _recorded(leases: DeltaTable, event: str, number: int) -> int | None:
    """Record an event; None if any event has been recorded since ``leases`` was opened."""
    try:
        why = {_LEASE: event, _PROCESS: this_process()}
        commit_without_rows(leases, why=why, transaction=(event, number), retries=0)
    except CommitFailedError:
        return None
    return number


def this_process() -> str:
    """The current process, as named in entries."""
    return f"{this_host()} {os.getpid()} {_start_of(psutil.Process())}"


def _start_of(process: psutil.Process) -> str:
    """The boot of the machine and the ticks since then: no clock that is set moves them. Elsewhere than on Linux, the time."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return f"{process.create_time():.2f}"
    return f"{boot} {fields[19]}"  # the ticks from the boot to its start


def this_host() -> str:
    """The current machine, as named in entries."""
    return socket.gethostname()


def has_ended(process: str) -> bool:
    """Whether a process named by :func:`this_process` has ended. A process on another host is assumed to be alive."""
    host, pid, *boot, start = process.split(" ")
    if host != this_host():
        return False
    try:
        running = psutil.Process(int(pid))
        if running.status() == psutil.STATUS_ZOMBIE:
            return True
        if boot:
            return _start_of(running) != f"{boot[0]} {start}"
        return abs(running.create_time() - float(start)) >= _SAME_START  # named by an earlier release, or elsewhere than on Linux
    except psutil.NoSuchProcess:
        return True


#: Commits to a table to which one process at a time may commit in S3, because Spark writes it.
COMMITS = Work("_commit_lease", timedelta(minutes=2))
#: Seconds between renewals, and between attempts to take the lease.
_RENEWED, _WAITS = 30.0, 0.5


@contextmanager
def alone(target: Table, *, is_noted: bool = False) -> Iterator[None]:
    """Hold the lease of a table within the context, for a commit; wait for it while another process holds it.

    Outside S3, tables need no lease.

    :param is_noted: whether the block notes its commit itself, as one by delta-rs; else it is noted at the end.
    """
    try:
        with _leased(target):
            yield
    finally:
        if not is_noted:
            target.committed()


@contextmanager
def _leased(target: Table) -> Iterator[None]:
    if not object_store.is_s3(target.address):
        yield
        return
    while (number := take(target, COMMITS)) is None:
        time.sleep(_WAITS)
    renewal = _Renewal(target, number)
    renewal.start()
    try:
        yield
    finally:
        renewal.end()


class _Renewal(threading.Thread):
    """Renews a lease until it is ended."""

    def __init__(self, target: Table, number: int) -> None:
        super().__init__(daemon=True)
        self._target, self._number = target, number
        self._ended = threading.Event()

    def run(self) -> None:
        """Renew the lease repeatedly; a lease of another process is never changed."""
        while not self._ended.wait(_RENEWED):
            number = renew(self._target, COMMITS, self._number)
            if number is None:
                return
            self._number = number

    def end(self) -> None:
        """Stop renewing the lease and end it."""
        self._ended.set()
        self.join()
        end(self._target, COMMITS, self._number)
