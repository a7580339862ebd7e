"""A value that one reader refreshes for all requests when it is too old."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_LOG = logging.getLogger(__name__)


class RefreshedValue(Generic[T]):
    """Caches the result of ``read``.

    The first request after the value is older than ``after`` seconds starts a thread that reads it again. In the meantime,
    requests get the old value; if it is older than ``at_most`` seconds, they wait. The value is replaced as a whole, so
    everything that a request reads from it is consistent. An instance belongs to one event loop.

    :param read: returns the new value; its argument is the cached value, None at first.
    """

    def __init__(self, read: Callable[[T | None], T], after: float, at_most: float) -> None:
        self._read, self._after, self._at_most = read, after, at_most
        self._value: T | None = None
        self._read_at = float("-inf")
        self._reading: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """Return the value, refreshed if necessary.

        :raises Exception: the error of ``read``, if no value is recent enough.
        """
        age = monotonic() - self._read_at
        if self._value is not None and age <= self._after:
            return self._value
        if self._reading is None:
            self._reading = asyncio.create_task(self._refresh())
            self._reading.add_done_callback(_log_failure)
        if self._value is not None and age <= self._at_most:
            return self._value
        return await asyncio.shield(self._reading)  # a cancelled request does not cancel the read for the others

    async def _refresh(self) -> T:
        started = monotonic()
        try:
            self._value = await asyncio.to_thread(self._read, self._value)
            self._read_at = started
            return self._value
        finally:
            self._reading = None


def _log_failure(reading: asyncio.Task[T]) -> None:
    """Log a failure even if no request waits for the value."""
    if not reading.cancelled() and (problem := reading.exception()) is not None:
        _LOG.warning("cannot be read again: %s", problem)
