"""Whether a backfill is at work on a source: it brings all layers up to date itself, and sensors leave them to it meanwhile.

A lock of the operating system says so, which ends with its process however that ends. It is seen on one machine; elsewhere the
sensors go on beside the backfill, which changes no number, only who made it.
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
#: What a sensor says then.
BACKFILL_AT_WORK = "a planned backfill is at work on the source: it brings all layers up to date"


class AtWorkError(LakehouseError):
    """Another backfill is at work on the same source. Its text says what to do."""


@contextmanager
def at_work(settings: Settings, source: str) -> Iterator[None]:
    """Be the one that works on a source.

    :raises AtWorkError: where another one is.
    """
    lock = _lock(settings, source)
    try:
        with lock.acquire(timeout=_PATIENCE_SECONDS):
            yield
    except Timeout:
        msg = f"another backfill is at work on {source}; wait for it, or end it: 'lakehouse backfill status' shows it"
        raise AtWorkError(msg) from None


def is_at_work(settings: Settings, source: str) -> bool:
    """Whether somebody is."""
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
    """Where locks lie: the user's state, or the temporary folder where nobody has one."""
    folder = user_state_path("lakehouse", appauthor=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(gettempdir())
    return folder
