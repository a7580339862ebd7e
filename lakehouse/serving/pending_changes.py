"""Changes that are recorded but not yet published: event days pending in silver, periods to be restated, held numbers."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import published_table, served_version
from lakehouse.gold.publication import candidates
from lakehouse.gold.restatement import derived_inputs
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.lake import table_io
from lakehouse.ledger import applied_inputs, failures, publications

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from datetime import date

    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake, Table


@dataclass(frozen=True)
class PendingPeriods:
    """The first days of a series' periods that changed in the layer below since the series last followed it.

    ``as_of`` identifies the versions read: the version of the layer below, the follower, the version it followed, and for days
    the versions of the log of reverted days and of the intervals of dimensions.
    """

    as_of: tuple[Any, ...]
    starts: frozenset[date]


@dataclass(frozen=True)
class PendingChanges:
    """Event days pending in silver, and the pending periods of each series, as of the versions of the tables read."""

    days: frozenset[date] = frozenset()
    periods: Mapping[str, PendingPeriods] = field(default_factory=dict)
    versions: tuple[int, ...] = ()

    def affects(self, series: str, starts: Collection[date]) -> bool:
        """Whether one of the periods ``starts`` of a series is to be restated."""
        return series in self.periods and not self.periods[series].starts.isdisjoint(starts)


def read(lake: Lake, catalog: Catalog, source: str, before: PendingChanges | None = None) -> PendingChanges:
    """The pending changes of a source.

    :param lake: keeps the tables open between calls.
    :param before: the previous result, which is returned while no table has changed.
    """
    logs = (locations.ingestions, locations.applied_inputs, locations.rebuild_requests, locations.restatements)
    read = [*(log(lake) for log in logs), locations.reverts(lake)]
    read += [locations.decisions(lake, source), locations.redactions(lake, source), locations.silver(lake, source)]
    read += [locations.gold(lake, Series(metric)) for metric in catalog.metrics_of(source)]
    read += [table for metric in catalog.metrics_of(source) for table in locations.every_silver_read(lake, metric).values()]
    derived = [series for metric in catalog.derived_of(source) for series in (Series(metric), *Series(metric).rollups)]
    read += [
        table for series in derived for table in (*derived_inputs.tables(lake, series).values(), locations.gold(lake, series))
    ]
    joined = {dimension for metric in catalog.metrics_of(source) for dimension in metric.dimensions}
    read += [locations.intervals(lake, dimension) for dimension in sorted(joined)]
    versions = {table: _version(table) if locations.is_gold(lake, table) else table.version() for table in read}
    if before is not None and before.versions == tuple(versions.values()):
        return before
    days = frozenset(applied_inputs.pending(lake, source))  # read first: a day applied meanwhile is then among the periods
    periods_before = {} if before is None else before.periods
    followers = [*_followers(lake, catalog, source, versions), *_derived_followers(lake, catalog, source, versions)]
    periods = {}
    for name, read_periods in followers:
        with suppress(table_io.DamagedLogError):  # of its own table: silver's has been opened
            periods[name] = read_periods(periods_before.get(name))
    return PendingChanges(days, periods, tuple(versions.values()))


def _version(table: Table) -> int:
    """The version of a table of numbers; -1 also for a damaged log, which must affect only its own readers."""
    try:
        return table.version()
    except table_io.DamagedLogError:
        return -1


def failing_checks(lake: Lake, series: Series, _: Mapping[date, list[str]] | None) -> Mapping[date, list[str]]:
    """The failed checks that hold a newer number, by period."""
    return candidates.holding(lake, series)


def uncomputed(lake: Lake, series: Series, _: Mapping[date, str] | None) -> Mapping[date, str]:
    """The reasons for which the newest number cannot be computed, by period."""
    lacking = published_table.lacking_inputs(lake, series)
    why = {start: published_table.why_lacking(series, start, inputs) for start, inputs in lacking.items()}
    return why | {start: failed.explanation for start, failed in failures.failing(lake, series.name).items()}


def _followers(
    lake: Lake, catalog: Catalog, source: str, versions: Mapping[Table, int]
) -> Iterator[tuple[str, Callable[[PendingPeriods | None], PendingPeriods]]]:
    """The series that follow a source, each with a function that reads its pending periods; days before their roll-ups."""
    followed = publications.followed_versions(lake)
    for metric in catalog.metrics_of(source):
        with suppress(served_version.UnservedVersionError, table_io.DamagedLogError):
            daily = served_version.daily(lake, catalog, metric)
            name = served_version.follower(daily)
            silver = locations.every_silver_read(lake, daily.metric).values()
            read = *silver, *(versions[table] for table in silver), versions[locations.reverts(lake)]
            intervals = (versions.get(locations.intervals(lake, dimension)) for dimension in daily.metric.dimensions)
            key: tuple[Any, ...] = (*read, *intervals, name, followed.get(name))
            yield daily.name, partial(_periods, key, partial(_pending_starts, lake, daily))
            for kind in metric.publication.rollups:
                rollup = Series(daily.metric, Kind(kind), daily.called)
                key = (versions[locations.gold(lake, daily)], rollup.name, followed.get(rollup.name))
                yield rollup.name, partial(_periods, key, partial(_pending_starts, lake, rollup))


def _derived_followers(
    lake: Lake, catalog: Catalog, source: str, versions: Mapping[Table, int]
) -> Iterator[tuple[str, Callable[[PendingPeriods | None], PendingPeriods]]]:
    """The same for the metrics derived from the source's metrics."""
    followed = publications.followed_versions(lake)
    for metric in catalog.derived_of(source):
        with suppress(served_version.UnservedVersionError):
            daily = served_version.daily(lake, catalog, metric)
            for series in (daily, *(Series(daily.metric, Kind(kind), daily.called) for kind in metric.publication.rollups)):
                read = [versions[table] for table in (*derived_inputs.tables(lake, series).values(), locations.reverts(lake))]
                days, name = versions[locations.gold(lake, daily)], served_version.follower(series)
                key: tuple[Any, ...] = (*read, days, name, followed.get(name))
                yield series.name, partial(_periods, key, partial(_pending_starts, lake, series))


def _periods(as_of: tuple[Any, ...], read_starts: Callable[[], Iterable[date]], before: PendingPeriods | None) -> PendingPeriods:
    return before if before is not None and before.as_of == as_of else PendingPeriods(as_of, frozenset(read_starts()))


def _pending_starts(lake: Lake, series: Series) -> Iterable[date]:
    return find_pending(lake, series).starts
