"""The published numbers of a series in memory, as of one version of its table.

A period's rows stay in Arrow format, with a short index of its versions; a version is converted to Python objects on request. For
a newer version of the table, only the changed periods are read.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.delta import commit_log
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers import lifecycle, served_version
from lakehouse.gold.numbers.lifecycle import RevisionReason, State
from lakehouse.lake import table_io, table_parts
from lakehouse.lake.delta_rs_internals import listed_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

    from deltalake import DeltaTable

    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.comparison import Sides
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.lake import Table

#: Seconds after which a table in an object store is reopened: it may have been replaced by one with equal version numbers.
_REOPEN = 30.0
_SUMMARY = ("revision", "adjustment", "state", "published_at", "due_on", "dataset_version", "is_latest", "reason", "restated_on")


class VersionSummary(NamedTuple):
    """The fields that select a version, and the position of its rows."""

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
    def label(self) -> str:
        """The version's name within the period, such as ``r3`` or ``r3.a1``."""
        return lifecycle.label(self.revision, self.adjustment)

    @property
    def restates(self) -> bool:
        """Whether the version replaces a number that readers had; growth and a change of state do not."""
        restates = lifecycle.is_restatement(RevisionReason(self.reason), self.state, self.published_at, self.restated_on)
        return self.adjustment is not None or (self.revision > 1 and restates)


class PeriodVersions:
    """The versions of one period, oldest first."""

    def __init__(self, rows: pa.Table) -> None:
        names = zip(rows["revision"].to_pylist(), (number or 0 for number in rows["adjustment"].to_pylist()))
        order = [place for _, place in sorted((name, place) for place, name in enumerate(names))]
        self._rows = rows.take(pa.array(order, pa.int64())).combine_chunks()

    @cached_property
    def last_restated_at(self) -> datetime | None:
        """The time of the last restatement; None without one."""
        changed: datetime | None = pc.max(self._rows["restated_on"]).as_py()
        return changed

    @cached_property
    def summaries(self) -> list[VersionSummary]:
        """A summary of every version."""
        summaries: list[VersionSummary] = []
        for place, row in enumerate(zip(*(self._rows[name].to_pylist() for name in _SUMMARY))):
            if summaries and summaries[-1][:2] == row[:2]:
                summaries[-1] = summaries[-1]._replace(rows=summaries[-1].rows + 1)
            else:
                values = dict(zip(_SUMMARY, row)) | {"state": State(row[2])}
                summaries.append(VersionSummary(**values, first_row=place, rows=1))
        return summaries

    @property
    def newest_revision(self) -> VersionSummary:
        """The newest revision: of a closed number with adjustments, the closed number itself."""
        return next(one for one in reversed(self.summaries) if one.adjustment is None)

    def version(self, series: Series, summary: VersionSummary) -> PublishedVersion:
        """One version with its content."""
        ((version,),) = numbers_history.versions_in(series, self._rows.slice(summary.first_row, summary.rows)).values()
        return version

    def versions(self, series: Series) -> list[PublishedVersion]:
        """All versions with their content."""
        (versions,) = numbers_history.versions_in(series, self._rows).values()
        return versions

    def moved(self, series: Series, first: int, end: int) -> list[tuple[PublishedVersion, dict[str, Sides]]]:
        """The versions from position ``first`` up to, not including, ``end``, each with its changes."""
        start = max(first - 1, 0)
        while self.summaries[start].adjustment is not None:  # an adjustment is added to its revision and those before it
            start -= 1
        versions = [self.version(series, summary) for summary in self.summaries[start:end]]
        return list(zip(versions, numbers_history.moved(series, versions)))[first - start :]


@dataclass(frozen=True)
class Snapshot:
    """All periods of a table at one version, -1 if there is none; ``serves`` is the dataset version that readers see."""

    version: int = -1
    serves: int = 1
    periods: Mapping[date, PeriodVersions] = field(default_factory=dict)
    files: Mapping[date, frozenset[str]] = field(default_factory=dict)
    table: DeltaTable | None = None
    opened: float = 0.0

    @cached_property
    def last_restated_at(self) -> datetime | None:
        """The time at which the content of a period last changed; None if none ever has."""
        return max(filter(None, (versions.last_restated_at for versions in self.periods.values())), default=None)

    @cached_property
    def open_starts(self) -> list[date]:
        """The first days of the periods whose newest number is not final, in order."""
        return sorted(
            start
            for start, versions in self.periods.items()
            if any(summary.is_latest and summary.state is not State.FINAL for summary in versions.summaries)
        )

    @cached_property
    def starts(self) -> list[date]:
        """The first days of the periods, in order."""
        return sorted(self.periods)


def read(of: Table, by: str, before: Snapshot | None) -> Snapshot:
    """Read the newest version of a table.

    :param by: the column with the first days of periods.
    :param before: the previous snapshot, whose unchanged periods are reused.
    """
    before = before or Snapshot()
    table, opened = _newest(of, before)
    if table is None:
        return Snapshot()
    if table is not before.table and before.table is not None and commit_log.identity(table) != commit_log.identity(before.table):
        before = Snapshot()
    if table.version() == before.version:
        return before if (table, opened) == (before.table, before.opened) else replace(before, table=table, opened=opened)
    files_of = table_parts.files(table)
    changed = {start: paths for start, paths in files_of.items() if before.files.get(start) != paths}
    periods = {start: before.periods[start] for start in files_of.keys() - changed.keys()}
    if changed:
        listed = listed_files(table)
        rows = table_io.read_files(table, listed.filter(pc.is_in(listed["path"], pa.array({*chain(*changed.values())}))))
        periods |= {start: PeriodVersions(own) for start, own in table_io.split(rows, by).items() if start in changed}
    return Snapshot(table.version(), served_version.number_in(table), periods, files_of, table, opened)


def _newest(of: Table, before: Snapshot) -> tuple[DeltaTable | None, float]:
    """The table at its newest version, and when it was opened; on a local disk, a cache notices that a table was replaced."""
    if "://" not in of.address:
        return of.open(), 0.0
    if before.table is None or time.monotonic() - before.opened > _REOPEN:
        return of.snapshot(), time.monotonic()
    before.table.update_incremental()
    return before.table, before.opened
