"""What is known and not in the numbers yet: event days that wait for silver, periods to be made anew, and what is held."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.delta import table_io
from lakehouse.delta.table_cache import with_table_cache
from lakehouse.gold.numbers import served_version
from lakehouse.gold.publication import candidates
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import applied_inputs, restatements

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from datetime import date

    from lakehouse.contracts import Catalog
    from lakehouse.delta.table_cache import TableCache
    from lakehouse.settings import Settings


@dataclass(frozen=True)
class Anew:
    """The first days of a series' periods that the layer below has changed since the series followed it.

    ``as_of`` is what that depends on: the version below, who follows, and how far.
    """

    as_of: tuple[Any, ...]
    starts: frozenset[date]


@dataclass(frozen=True)
class Waiting:
    """As of some versions of the tables that tell it: event days that wait for silver, and per series what it has to follow."""

    days: frozenset[date] = frozenset()
    anew: Mapping[str, Anew] = field(default_factory=dict)
    versions: tuple[int, ...] = ()

    def concerns(self, series: str, starts: Collection[date]) -> bool:
        """Whether one of these periods of a series is to be made anew."""
        return series in self.anew and not self.anew[series].starts.isdisjoint(starts)


def read(settings: Settings, catalog: Catalog, source: str, opened: TableCache, known: Waiting | None) -> Waiting:
    """What waits now.

    :param opened: the tables, kept open from one look to the next.
    :param known: what was read before; it is given again where no table has changed.
    """
    logs = (locations.ingestions, locations.applied_inputs, locations.rebuild_requests, locations.restatements)
    paths = [log(settings) for log in logs]
    paths += [locations.decisions(settings, source), locations.redactions(settings, source), locations.silver(settings, source)]
    paths += [locations.gold(settings, Series(metric)) for metric in catalog.metrics_of(source)]
    settings = with_table_cache(settings, opened)
    versions = {path: table_io.version(path, settings.storage_options) for path in paths}
    if known is not None and known.versions == tuple(versions.values()):
        return known
    days = frozenset(applied_inputs.pending(settings, source))  # first: what leaves it is among the others then
    before = {} if known is None else known.anew
    anew = {name: told(before.get(name)) for name, told in _followers(settings, catalog, source, versions)}
    return Waiting(days, anew, tuple(versions.values()))


def held(settings: Settings, one: Series, opened: TableCache, _: Mapping[date, list[str]] | None) -> Mapping[date, list[str]]:
    """By period the checks that hold a newer number of it back."""
    return candidates.failing(with_table_cache(settings, opened), one)


def _followers(
    settings: Settings, catalog: Catalog, source: str, versions: Mapping[str, int]
) -> Iterator[tuple[str, Callable[[Anew | None], Anew]]]:
    """Every series that follows a source, and how to tell what it has to follow; days before what is made of them."""
    followed = restatements.followed_versions(settings)
    for metric in catalog.metrics_of(source):
        with suppress(served_version.UnservedVersionError):
            daily = served_version.daily(settings, catalog, metric)
            name = served_version.follower(daily)
            key = (versions[locations.silver(settings, source)], name, followed.get(name))
            yield daily.name, partial(_anew, key, partial(_pending, settings, daily))
            for kind in metric.publication.rollups:
                rollup = Series(daily.metric, Kind(kind), daily.called)
                key = (versions[locations.gold(settings, daily)], rollup.name, followed.get(rollup.name))
                yield rollup.name, partial(_anew, key, partial(_pending, settings, rollup))


def _anew(as_of: tuple[Any, ...], read_anew: Callable[[], Iterable[date]], known: Anew | None) -> Anew:
    return known if known is not None and known.as_of == as_of else Anew(as_of, frozenset(read_anew()))


def _pending(settings: Settings, series: Series) -> Iterable[date]:
    return find_pending(settings, series).starts
