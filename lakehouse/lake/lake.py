"""A deployment as one object: its settings, its clock, its addresses, and the tables that are kept open.

Below the frames (command line, server, orchestration, Spark's session) no code takes settings: it takes a lake, and asks it for
the time, for addresses and for the options of reads. A lake has no rules and no features: these are functions whose first
argument is a lake.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from lakehouse.lake import table_io
from lakehouse.lake.table import Table
from lakehouse.lake.table_cache import Opened, TableCache, newest_moment
from lakehouse.lake.table_io import CachedStorageOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping
    from contextlib import AbstractContextManager

    from lakehouse.settings import Settings


class SimulatedClock:
    """A clock that shows the moment it was last set to; a replay sets it to the end of each arrival day."""

    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def set(self, moment: datetime) -> None:
        """Set the clock to ``moment``, with a time zone; it may be earlier than the present one."""
        self._moment = moment

    def now(self) -> datetime:
        """The moment that the clock shows."""
        return self._moment


_TICK_SECONDS_OF_STORES = 15


class _Opened(threading.local):
    """What the steps of a thread have opened, by the root of the lake and the options of its store."""

    def __init__(self) -> None:
        self.by_store: dict[tuple[str, ...], Opened] = {}


_opened = _Opened()


class Quiet:
    """What tells that nobody writes to some tables, so that a cache need not look at each of them.

    :param covers: whether a table, by its address, is one of them.
    :param seconds: after so many, a table is looked at in any case.
    """

    def __init__(self, covers: Callable[[str], bool], seconds: float) -> None:
        self._covers, self._seconds = covers, seconds
        self._sign: Hashable = None
        self._looks: dict[str, tuple[Hashable, int, float]] = {}

    def is_at(self, sign: Hashable) -> None:
        """State what changes when somebody may have written; None if somebody may be writing now."""
        self._sign = sign
        if sign is None:
            self._looks.clear()

    def holds(self, path: str) -> bool:
        """Whether a table has not changed since the last look; False after :func:`look_again`."""
        sign, moment, looked_at = self._looks.get(path, (None, 0, -math.inf))
        is_same = sign is not None and (sign, moment) == (self._sign, newest_moment())
        return is_same and time.monotonic() - looked_at < self._seconds

    def looked(self, path: str, moment: int, *, is_new: bool) -> None:
        """Note a look at a table; one that finds a commit ends the quiet for all of them.

        :param moment: that before the look.
        """
        if is_new:
            self._looks.clear()
        if self._sign is not None and self._covers(path):
            self._looks[path] = self._sign, moment, time.monotonic()


@dataclass(frozen=True)
class Lake:
    """A deployment. Copies share its clock, and its open tables unless they are given others.

    :param settings: never changed; a lake with others is made by :meth:`with_settings`.
    :param clock: shows the time instead of the real clock and of ``LAKEHOUSE_NOW``.
    :param cache: the tables kept open; None if each read opens its table.
    """

    settings: Settings
    clock: SimulatedClock | None = None
    cache: TableCache | None = None

    @classmethod
    def open(cls, **changes: Any) -> Lake:
        """The lake of the environment, see ``docs/settings.md``.

        :param changes: settings that replace those of the environment.
        :raises InvalidSettingsError: for values that are not as documented.
        """
        from lakehouse.settings import Settings  # noqa: PLC0415 (loads pydantic, which few importers of this module need)

        return cls(Settings(**changes))

    @property
    def root(self) -> str:
        """The folder or URI that holds the tables."""
        return self.settings.root

    @property
    def storage_options(self) -> Mapping[str, str]:
        """The options of delta-rs for reads and writes, with the tables that are kept open."""
        options = self.settings.storage_options
        return options if self.cache is None else CachedStorageOptions(options, self.cache)

    def now(self) -> datetime:
        """The current time: of the lake's clock, else ``LAKEHOUSE_NOW``, else the real time in UTC."""
        if self.clock is not None:
            return self.clock.now()
        return self.settings.now or datetime.now(timezone.utc)

    def table(self, layer: str, name: str) -> Table:
        """A table, whether or not it exists; ``layer`` is bronze, silver, gold or ops."""
        return Table(f"{self.root}/{layer}/{name}", self.storage_options)

    def landing_of(self, dataset: str) -> str:
        """The folder or URI below which the files of ``dataset`` arrive."""
        return self.settings.landing or f"{self.root}/landing/{dataset}"

    @property
    def tick_seconds(self) -> int:
        """The least number of seconds between two ticks of a sensor; more of them where looks are requests."""
        is_set = "sensor_seconds" in self.settings.model_fields_set or "://" not in self.root
        return self.settings.sensor_seconds if is_set else _TICK_SECONDS_OF_STORES

    def at(self, clock: SimulatedClock) -> Lake:
        """The same lake with another clock."""
        return replace(self, clock=clock)

    def cached(self, cache: TableCache | None = None) -> Lake:
        """The same lake, which keeps tables open between reads.

        :param cache: the caller's own, to be used again later; by default that of this lake, else a new one.
        """
        if cache is None and self.cache is not None:
            return self
        return replace(self, cache=cache or TableCache())

    def step(self) -> AbstractContextManager[None]:
        """A context in which each table is looked at once, see :meth:`TableCache.step`; no effect in a lake without a cache."""
        return nullcontext() if self.cache is None else self.cache.step()

    def for_step(self) -> Lake:
        """The same lake with a cache of its own for one step, such as one asset of a run; a lake with a cache stays as it is.

        In an object store, to open a table takes a dozen requests, and to look for its new commits one: there a step goes on with
        the tables that earlier steps of the thread have opened.
        """
        if self.cache is not None:
            return self
        store = self.root, *(text for option in sorted(self.settings.storage_options.items()) for text in option)
        opened = _opened.by_store.setdefault(store, Opened()) if "://" in self.root else None
        return replace(self, cache=TableCache(is_of_one_step=True, opened=opened))

    def expect(self, tables: Iterable[Table]) -> None:
        """Begin to open tables that the running step will read; no effect on a local disk, where this takes a millisecond."""
        if self.cache is not None and "://" in self.root:
            paths = [table.address for table in tables]
            self.cache.expect(paths, partial(table_io.open_listed, options=self.storage_options))

    def with_settings(self, **changes: Any) -> Lake:
        """The same lake with some settings changed, as a stage or a replay needs them; open tables are kept."""
        return replace(self, settings=self.settings.model_copy(update=changes))

    def stage(self, name: str) -> Lake:
        """The lake of a stage, with its own tables and landing folder."""
        return self.with_settings(root=f"{self.root}/stages/{name}", landing=None)
