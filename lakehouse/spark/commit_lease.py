"""Lets one process at a time commit to Bronze and silver in S3.

Delta commits by creating a file that must not exist yet. In S3, Delta for Spark first checks whether the file exists and then
writes it: if two drivers do so at once, the second overwrites the first commit, whose rows are lost. (delta-rs creates the file
with S3's conditional write; on other file systems Spark's creation is atomic as well.) So each commit that Spark makes or could
overwrite holds a lease. The lease is renewed while its process lives, and expires soon after the process was killed. Leases are
defined in ``delta.leases``.
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
#: Seconds between renewals, and between attempts to take the lease.
_RENEWED, _WAITS = 30.0, 0.5


@contextmanager
def held(settings: Settings, path: str) -> Iterator[None]:
    """Hold the lease of a table within the context; wait for it while another process holds it. No effect outside S3."""
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
        """Renew the lease repeatedly; a lease of another process is never changed."""
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
