"""Lets one Spark driver at a time commit to a table in S3.

Delta commits by creating a file that must not exist yet. In S3, Delta for Spark looks whether it exists and writes it then: of
two drivers that do so at once, the second overwrites the commit of the first, whose rows are lost. (delta-rs creates it with
S3's conditional write; on other file systems Spark's creation is atomic as well.) Each commit of Spark therefore holds a lease:
Delta transactions in a table without rows below the table's folder, written through delta-rs, so that two drivers that take it
at once conflict. A lease is renewed while its process lives, and ends by itself soon after that was killed. The clocks of the
drivers may differ by less than the time in which it ends.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from lakehouse import object_store
from lakehouse.delta.partition_writer import commit_without_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.settings import Settings

#: Seconds after which a lease that is not renewed ends, between two renewals, and between two attempts to take it.
_ENDS, _RENEWED, _WAITS = 120.0, 30.0, 0.5
#: Below the table's folder; names with an underscore are hidden from readers and from VACUUM.
_FOLDER = "_commit_lease"
#: The Delta transactions: until when the lease was taken, and which of these leases has ended, in milliseconds.
_TAKEN, _ENDED = "taken", "ended"
_SCHEMA = pa.schema([("nothing", pa.bool_())])


@contextmanager
def held(settings: Settings, path: str) -> Iterator[None]:
    """Hold the lease of a table until the block ends; waits until no other driver does. Without effect outside of S3."""
    if not object_store.is_s3(path):
        yield
        return
    address, options = f"{path}/{_FOLDER}", dict(settings.storage_options)
    while not _take(address, options):
        time.sleep(_WAITS)
    ended = threading.Event()
    renewing = threading.Thread(target=_renew, args=(address, options, ended), daemon=True)
    renewing.start()
    try:
        yield
    finally:
        ended.set()
        renewing.join()
        leases = DeltaTable(address, storage_options=options)
        _record(leases, _ENDED, leases.transaction_version(_TAKEN) or 0)


def _take(address: str, options: Mapping[str, str]) -> bool:
    """Take the lease if it is free; gives whether it was."""
    if not DeltaTable.is_deltatable(address, dict(options)):
        with suppress(CommitFailedError):  # another driver creates it at this moment
            DeltaTable.create(address, _SCHEMA, mode="ignore", storage_options=dict(options))
    leases = DeltaTable(address, storage_options=dict(options))
    taken, ended = (leases.transaction_version(name) or 0 for name in (_TAKEN, _ENDED))
    if taken > ended and taken > time.time() * 1000:
        return False
    try:
        _record(leases, _TAKEN, max(_until(), taken + 1))
    except CommitFailedError:
        return False
    return True


def _renew(address: str, options: Mapping[str, str], ended: threading.Event) -> None:
    while not ended.wait(_RENEWED):
        _record(DeltaTable(address, storage_options=dict(options)), _TAKEN, _until())


def _until() -> int:
    return int((time.time() + _ENDS) * 1000)


def _record(leases: DeltaTable, event: str, milliseconds: int) -> None:
    commit_without_rows(leases, why={"lease": event}, transaction=(event, milliseconds))
