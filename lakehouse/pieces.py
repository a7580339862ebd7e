"""Work on tables in pieces, so that only a few pieces are in memory at a time: in threads, with progress reports.

The code that runs long work registers a listener: a command shows a line below its bar, an asset writes to the log of its run.
Without listeners nothing is reported. The reader of a table decides what a piece is.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

#: Is called with the name of the work, the number done, and the total, if that is known.
Listener = Callable[[str, int, "int | None"], None]
T = TypeVar("T")
_THREADS = min(4, os.cpu_count() or 1)
_LISTENERS: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())


def mapped(function: Callable[[pa.Table], T], rows: Iterable[pa.Table]) -> Iterator[T]:
    """The results of ``function`` for each piece, in order; while one is used, other threads compute the next ones.

    :param function: must call neither delta-rs nor Spark; Arrow and NumPy release the interpreter for other threads meanwhile.
    """
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(_THREADS) as threads:
        for piece in rows:
            waiting.append(threads.submit(function, piece))
            if len(waiting) > _THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def ahead(rows: Iterable[T]) -> Iterator[T]:
    """The same pieces, none of them None; while one is used, another thread makes the next one.

    :param rows: are made by calls that may run in another thread, see :func:`mapped`.
    """
    rest = iter(rows)
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, rest, None)
        while (piece := coming.result()) is not None:
            coming = thread.submit(next, rest, None)
            yield piece


def together(rows: Iterable[pa.Table], count: int) -> Iterator[pa.Table]:
    """The same rows in as few pieces as possible, of about ``count`` rows each, so that few commits write them; none without
    rows.
    """
    import pyarrow as pa  # noqa: PLC0415 (this module is imported by those that need no Arrow)

    held: list[pa.Table] = []
    held_rows = 0
    for piece in rows:
        held.append(piece)
        held_rows += len(piece)
        if held_rows >= count:
            yield pa.concat_tables(held)
            held, held_rows = [], 0
    if held_rows:
        yield pa.concat_tables(held)


@contextmanager
def listened_to_by(listener: Listener, every: float = 5) -> Iterator[None]:
    """Within the context, report the progress of long work to ``listener``, in addition to the listeners of outer contexts.

    :param every: seconds between two reports to the listener; shorter work is not reported.
    """
    before = _LISTENERS.set((*_LISTENERS.get(), _Patient(listener, every)))
    try:
        yield
    finally:
        _LISTENERS.reset(before)


def is_listened_to() -> bool:
    """Whether there is a listener for progress reports."""
    return bool(_LISTENERS.get())


def report(work: str, done: int, total: int | None = None) -> None:
    """Report the progress of ``work`` to the listeners."""
    for listener in _LISTENERS.get():
        listener(work, done, total)


def counted(work: str, rows: Iterable[pa.Table], total: int | None = None) -> Iterator[pa.Table]:
    """The same pieces; after each of them the number of rows done is reported to the listeners."""
    done = 0
    for piece in rows:
        yield piece
        done += len(piece)
        report(work, done, total)


def sentence(work: str, done: int, total: int | None) -> str:
    """A report for people: ``rows judged: 524,288 of 1,000,000``."""
    return f"{work}: {done:,}" + ("" if total is None else f" of {total:,}")


class _Patient:
    """Limits a progress listener to one call per ``every`` seconds, including the first."""

    def __init__(self, listener: Listener, every: float) -> None:
        self._listener, self._every = listener, every
        self._told = time.monotonic()

    def __call__(self, work: str, done: int, total: int | None) -> None:
        if time.monotonic() - self._told >= self._every:
            self._told = time.monotonic()
            self._listener(work, done, total)
