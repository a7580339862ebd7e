"""The lock that a planned backfill holds on its source: it updates all layers itself, and sensors request no runs in the
meantime.

It is an operating system lock, which is released whenever the process ends. It is visible on one machine only. Sensors on another
machine continue during the backfill; the numbers are the same, but other runs produce them.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout
from platformdirs import user_state_path

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.settings import Settings

_PATIENCE_SECONDS = 5
#: The skip reason of sensors while a backfill runs.
BACKFILL_RUNNING = "a planned backfill is running on the source and updates all layers"


class BackfillRunningError(LakehouseError):
    """Another backfill holds the lock of the same source."""


@contextmanager
def backfill_lock(settings: Settings, source: str) -> Iterator[None]:
    """Hold the lock of a source.

    :raises BackfillRunningError: if another backfill holds it.
    """
    lock = _lock(settings, source)
    try:
        with lock.acquire(timeout=_PATIENCE_SECONDS):
            yield
    except Timeout:
        msg = f"another backfill is running on {source}; wait for it, or cancel it: 'lakehouse backfill status' lists it"
        raise BackfillRunningError(msg) from None


def is_backfill_running(settings: Settings, source: str) -> bool:
    """Whether a backfill holds the lock of a source, on this machine."""
    lock = _lock(settings, source)
    if not Path(lock.lock_file).is_file():
        return False
    try:
        with lock.acquire(blocking=False):
            return False
    except Timeout:
        return True


def _lock(settings: Settings, source: str) -> FileLock:
    name = hashlib.sha256(f"{settings.root}\n{source}".encode()).hexdigest()[:16]
    return FileLock(_folder() / f"backfill-{name}.lock")


def _folder() -> Path:
    """The folder of the lock files: the user's state folder, or the temporary folder if the former is not writable."""
    folder = user_state_path("lakehouse", appauthor=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(gettempdir())
    return folder
