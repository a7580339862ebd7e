"""The published numbers of a series in memory, as of one version of its table.

A period's rows stay in Arrow's form, beside a short index of its versions; what is asked for becomes Python when it is asked
for. A newer version of the table costs the periods that it changed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lakehouse.delta import data_files, table_io
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers import served_version
from lakehouse.gold.numbers.lifecycle import State

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

    from deltalake import DeltaTable

    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.comparison import Sides
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.settings import Settings

#: After so many seconds a table is opened anew: one that was made again in its place has other commits of the same numbers.
_REOPEN = 30.0
_HEAD = ("revision", "adjustment", "state", "published_at", "due_on", "dataset_version", "is_latest", "reason", "restated_on")


class Head(NamedTuple):
    """What a version tells of itself to be chosen, and where its rows are."""

    revision: int
    adjustment: int | None
    state: State
    published_at: datetime
    due_on: date | None
    dataset_version: int
    is_latest: bool
    reason: str
    restated_on: datetime | None
    first_row: int
    rows: int

    @property
    def restates(self) -> bool:
        """Whether it says something else than what was published before it."""
        return self.adjustment is not None or (self.revision > 1 and self.restated_on == self.published_at)


class Kept:
    """The versions of one period, oldest first."""

    def __init__(self, rows: pa.Table) -> None:
        names = zip(rows["revision"].to_pylist(), (number or 0 for number in rows["adjustment"].to_pylist()))
        order = [place for _, place in sorted((name, place) for place, name in enumerate(names))]
        self._rows = rows.take(pa.array(order, pa.int64())).combine_chunks()

    @cached_property
    def heads(self) -> list[Head]:
        """Every version, as little as is needed to choose one."""
        found: list[Head] = []
        for place, said in enumerate(zip(*(self._rows[name].to_pylist() for name in _HEAD))):
            if found and found[-1][:2] == said[:2]:
                found[-1] = found[-1]._replace(rows=found[-1].rows + 1)
            else:
                told = dict(zip(_HEAD, said)) | {"state": State(said[2])}
                found.append(Head(**told, first_row=place, rows=1))
        return found

    def version(self, series: Series, head: Head) -> PublishedVersion:
        """One version, whole."""
        ((version,),) = numbers_history.versions_in(series, self._rows.slice(head.first_row, head.rows)).values()
        return version

    def versions(self, series: Series) -> list[PublishedVersion]:
        """All versions, whole."""
        (found,) = numbers_history.versions_in(series, self._rows).values()
        return found

    def moved(self, series: Series, first: int, behind: int) -> list[tuple[PublishedVersion, dict[str, Sides]]]:
        """The versions from one place to before another, each with what it moved."""
        start = max(first - 1, 0)
        while self.heads[start].adjustment is not None:  # it comes on top of the revision and of those before it
            start -= 1
        versions = [self.version(series, head) for head in self.heads[start:behind]]
        return list(zip(versions, numbers_history.moved(series, versions)))[first - start :]


@dataclass(frozen=True)
class Snapshot:
    """All periods of a table at one version, -1 where there is none; ``serves`` is the dataset version that readers see."""

    version: int = -1
    serves: int = 1
    periods: Mapping[date, Kept] = field(default_factory=dict)
    files: Mapping[date, frozenset[str]] = field(default_factory=dict)
    table: DeltaTable | None = None
    opened: float = 0.0

    @cached_property
    def starts(self) -> list[date]:
        """The first days of the periods, in order."""
        return sorted(self.periods)


def read(settings: Settings, path: str, by: str, known: Snapshot | None) -> Snapshot:
    """The newest version of a table.

    :param by: the column of the periods' first days.
    :param known: what was read before: what has not changed since is taken from it.
    """
    known = known or Snapshot()
    if known.table is None or time.monotonic() - known.opened > _REOPEN:
        table, opened = table_io.open_snapshot(path, settings.storage_options), time.monotonic()
        if table is None:
            return Snapshot()
        if known.table is not None and table.metadata().id != known.table.metadata().id:
            known = Snapshot()
    else:
        table, opened = known.table, known.opened
        table.update_incremental()
    if table.version() == known.version:
        return known if table is known.table else replace(known, table=table, opened=opened)
    files_of = data_files.by_partition(table, by)
    system = data_files.system_of(table)
    periods = {
        start: known.periods[start] if known.files.get(start) == own else Kept(data_files.read(system, own, by, start))
        for start, own in files_of.items()
    }
    return Snapshot(table.version(), table.transaction_version(served_version.SERVED) or 1, periods, files_of, table, opened)
