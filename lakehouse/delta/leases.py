"""Leases: one process at a time works on a Delta table, until it ends its lease or the lease expires.

A lease is a Delta transaction in a table without rows below the table's folder: of two processes that take it at once, one
conflicts. This works wherever commits of delta-rs work, on object stores too. A lease expires, so that a killed process does not
block the work forever; the clocks of the processes must differ by less than that time. The callers decide which work needs a
lease, and when.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from lakehouse.delta.partition_writer import commit_without_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The Delta transactions of a lease: the last one that was taken or renewed, and the last one that was ended.
_TAKEN, _ENDED = "claimed", "ended"
_SCHEMA = pa.schema([("nothing", pa.bool_())])


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
def held(path: str, work: Work, options: Mapping[str, str] | None = None, *, now: datetime | None = None) -> Iterator[bool]:
    """Hold the lease of a table until the block ends; yields False if another process holds it, and the block must then do no
    work.

    A table that is opened in the block contains everything that earlier holders committed.
    """
    number = take(path, work, options, now=now)
    try:
        yield number is not None
    finally:
        if number is not None:
            end(path, work, number, options)


def take(path: str, work: Work, options: Mapping[str, str] | None = None, *, now: datetime | None = None) -> int | None:
    """Take the lease of a table.

    :param now: the system time by default.
    :returns: the number of the lease; None if another process holds it.
    """
    leases = _leases(path, work, options)
    last, ended = (leases.transaction_version(name) or 0 for name in (_TAKEN, _ENDED))
    milliseconds = _milliseconds(now)
    if last > ended and milliseconds - last < work.expires / timedelta(milliseconds=1):
        return None
    return _recorded(leases, _TAKEN, max(milliseconds, last + 1))


def renew(path: str, work: Work, number: int, options: Mapping[str, str] | None = None) -> int | None:
    """Restart the duration of a lease.

    :returns: the new number of the lease; None if it had expired and another process has taken one since.
    """
    leases = _leases(path, work, options)
    if leases.transaction_version(_TAKEN) != number:
        return None
    return _recorded(leases, _TAKEN, max(_milliseconds(None), number + 1))


def end(path: str, work: Work, number: int, options: Mapping[str, str] | None = None) -> None:
    """End the lease with this number; without effect if another process has taken one since."""
    leases = _leases(path, work, options)
    if leases.transaction_version(_TAKEN) == number:
        _recorded(leases, _ENDED, number)


def _milliseconds(moment: datetime | None) -> int:
    return int((moment or datetime.now(timezone.utc)).timestamp() * 1000)


def _leases(path: str, work: Work, options: Mapping[str, str] | None) -> DeltaTable:
    address, storage_options = f"{path}/{work.folder}", dict(options or {})
    if not DeltaTable.is_deltatable(address, storage_options):
        with suppress(CommitFailedError):  # another process creates it at this moment
            DeltaTable.create(address, _SCHEMA, mode="ignore", storage_options=storage_options)
    return DeltaTable(address, storage_options=storage_options)


def _recorded(leases: DeltaTable, event: str, number: int) -> int | None:
    """Record an event; None if the same event has been recorded since ``leases`` was opened."""
    try:
        commit_without_rows(leases, why={"lease": event}, transaction=(event, number))
    except CommitFailedError:
        return None
    return number
