"""Lets one process at a time commit to Bronze and silver in S3.

Delta commits by creating a file that must not exist yet. In S3, Delta for Spark looks whether it exists and writes it then: of
two drivers that do so at once, the second overwrites the commit of the first, whose rows are lost. (delta-rs creates it with
S3's conditional write; on other file systems Spark's creation is atomic as well.) Each commit that Spark makes or could overwrite
therefore holds a lease, which is renewed while its process lives, and ends by itself soon after that was killed. What a lease
is, is in ``delta.leases``.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from lakehouse import object_store
from lakehouse.delta import leases

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.settings import Settings

WORK = leases.Work("_commit_lease", timedelta(minutes=2))
#: Seconds between two renewals, and between two attempts to take the lease.
_RENEWED, _WAITS = 30.0, 0.5


@contextmanager
def held(settings: Settings, path: str) -> Iterator[None]:
    """Hold the lease of a table until the block ends; waits until no other process does. Without effect outside of S3."""
    if not object_store.is_s3(path):
        yield
        return
    while (number := leases.take(path, WORK, settings.storage_options)) is None:
        time.sleep(_WAITS)
    renewal = _Renewal(path, number, settings.storage_options)
    renewal.start()
    try:
        yield
    finally:
        renewal.end()


class _Renewal(threading.Thread):
    """Renews a lease until it is ended."""

    def __init__(self, path: str, number: int, options: Mapping[str, str]) -> None:
        super().__init__(daemon=True)
        self._path, self._number, self._options = path, number, options
        self._ended = threading.Event()

    def run(self) -> None:
        """Renew the lease again and again; that of another process is left alone."""
        while not self._ended.wait(_RENEWED):
            number = leases.renew(self._path, WORK, self._number, self._options)
            if number is None:
                return
            self._number = number

    def end(self) -> None:
        """Stop renewing the lease and end it."""
        self._ended.set()
        self.join()
        leases.end(self._path, WORK, self._number, self._options)
