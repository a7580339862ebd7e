"""Lets one process at a time compact a Delta table.

delta-rs lets two compactions of the same files both commit, because it ignores files that another compaction has removed
(https://github.com/delta-io/delta-rs/pull/3982); each row would then be in the table twice. A process therefore claims a
table before it compacts it: in a Delta table without rows below the table's folder, where two claims at once conflict. This
works wherever Delta commits work, on object stores too. A claim expires, so that a killed process does not prevent
compaction for good. What is compacted, and when, is decided by the callers.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from lakehouse.delta.partition_writer import commit_without_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: How long a claim holds if its process does not end it: longer than any compaction takes.
CLAIM_EXPIRES = timedelta(hours=24)
#: Below the table's folder; names with an underscore are hidden from readers and from VACUUM.
_CLAIMS = "_compaction"
_CLAIMED, _ENDED = "claimed", "ended"
_SCHEMA = pa.schema([("nothing", pa.bool_())])


@contextmanager
def claimed(path: str, options: Mapping[str, str] | None = None, *, now: datetime | None = None) -> Iterator[bool]:
    """Claim a table for compaction until the block ends; gives False, to compact nothing, if another process has claimed it.

    A table that is opened in the block contains the compactions of all earlier processes.
    """
    number = claim(path, options, now=now)
    try:
        yield number is not None
    finally:
        if number is not None:
            with suppress(CommitFailedError):  # another process has ended a claim at this moment: this one had expired
                _record(_claims(path, options), _ENDED, number)


def claim(path: str, options: Mapping[str, str] | None = None, *, now: datetime | None = None) -> int | None:
    """Claim a table for compaction; None if another process has claimed it.

    :param now: the system time by default.
    """
    claims = _claims(path, options)
    last, ended = (claims.transaction_version(name) or 0 for name in (_CLAIMED, _ENDED))
    milliseconds = int((now or datetime.now(timezone.utc)).timestamp() * 1000)
    if last > ended and milliseconds - last < CLAIM_EXPIRES / timedelta(milliseconds=1):
        return None
    number = max(milliseconds, last + 1)
    try:
        _record(claims, _CLAIMED, number)
    except CommitFailedError:
        return None
    return number


def _claims(path: str, options: Mapping[str, str] | None) -> DeltaTable:
    address, storage_options = f"{path}/{_CLAIMS}", dict(options or {})
    if not DeltaTable.is_deltatable(address, storage_options):
        with suppress(CommitFailedError):  # another process creates it at this moment
            DeltaTable.create(address, _SCHEMA, mode="ignore", storage_options=storage_options)
    return DeltaTable(address, storage_options=storage_options)


def _record(claims: DeltaTable, event: str, number: int) -> None:
    """Record an event of a claim; it conflicts with the same event recorded since ``claims`` was opened."""
    commit_without_rows(claims, why={"compaction": event}, transaction=(event, number))
