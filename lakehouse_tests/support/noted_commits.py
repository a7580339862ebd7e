"""A pytest plugin: whatever a step takes from its cache must be the newest that this process has committed.

A writer that does not call :func:`lakehouse.lake.table_cache.note_commit` would hide its rows from the rest of its step.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.lake import table_cache
from lakehouse.lake.table_cache import TableCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from deltalake import DeltaTable


_uncompared: list[bool] = []

#: How long another thread may take between its commit and its note of it.
_SECONDS = 60


@contextmanager
def uncompared() -> Iterator[None]:
    """In the context, other processes commit, or are played by this one: their commits need not be seen."""
    _uncompared.append(True)
    try:
        yield
    finally:
        _uncompared.pop()


@pytest.fixture(autouse=True, scope="session")
def _commits_are_noted() -> Iterator[None]:
    """Compare each answer of a step with the log of its table, unless it is in an object store."""
    kept = TableCache.table

    def compared(
        cache: TableCache,
        path: str,
        default: Callable[[], DeltaTable | None],
        in_step: Callable[[], DeltaTable | None] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> DeltaTable | None:
        looks: list[Any] = []
        moment = table_cache.moment_of(path)
        table = kept(cache, path, lambda: looks.append(path) or default(), in_step, options)  # type: ignore[func-returns-value]
        if "://" not in path and not looks and not _uncompared:
            log = Path(path, "_delta_log")
            is_newest = not any(log.glob("*.json")) if table is None else not (log / f"{table.version() + 1:020}.json").exists()
            is_noted = is_newest or _is_noted_after(path, moment)
            assert is_noted, f"{path} has a commit that its writer did not note, see {table_cache.__name__}.note_commit"
        return table

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableCache, "table", compared)
        yield


def _is_noted_after(path: str, moment: int) -> bool:
    """Whether another thread, which has just committed, notes its commit."""
    end = time.monotonic() + _SECONDS * (threading.active_count() > 1)
    while table_cache.moment_of(path) == moment and time.monotonic() < end:
        time.sleep(0.01)
    return table_cache.moment_of(path) != moment
