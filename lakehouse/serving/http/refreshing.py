"""A value that is read again when it is no longer fresh, by one reader for all who ask."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_LOG = logging.getLogger(__name__)


class Fresh(Generic[T]):
    """Keeps what ``read`` gives.

    Whoever asks when the value is older than ``after`` seconds has it read again in a thread; until that is done others are
    given the old one, but never one older than ``at_most``: they wait. The value is exchanged whole, so that all that a
    request takes from it fits together. Belongs to one event loop.

    :param read: gets the value that is there, None at first.
    """

    def __init__(self, read: Callable[[T | None], T], after: float, at_most: float) -> None:
        self._read, self._after, self._at_most = read, after, at_most
        self._value: T | None = None
        self._looked_at = float("-inf")
        self._reading: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """The value.

        :raises Exception: what ``read`` raises, where there is nothing young enough.
        """
        age = monotonic() - self._looked_at
        if self._value is not None and age <= self._after:
            return self._value
        if self._reading is None:
            self._reading = asyncio.create_task(self._again())
            self._reading.add_done_callback(_told)
        if self._value is not None and age <= self._at_most:
            return self._value
        return await asyncio.shield(self._reading)  # who goes away does not take the others' answer with him

    async def _again(self) -> T:
        started = monotonic()
        try:
            self._value = await asyncio.to_thread(self._read, self._value)
            self._looked_at = started
            return self._value
        finally:
            self._reading = None


def _told(reading: asyncio.Task[T]) -> None:
    """A failure that nobody waits for is told, too."""
    if not reading.cancelled() and (problem := reading.exception()) is not None:
        _LOG.warning("cannot be read again: %s", problem)
