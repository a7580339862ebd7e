"""What requests read: published numbers, how arrivals come in, what waits; kept fresh in memory, each as of one moment.

The same for the API and for the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeVar
from zoneinfo import ZoneInfo

from lakehouse.domain import completeness
from lakehouse.domain.completeness import Unknown
from lakehouse.domain.days import reach_back
from lakehouse.domain.periods import Kind
from lakehouse.ledger import store, tokens
from lakehouse.serving.api import snapshot, waiting
from lakehouse.serving.api.fresh import Fresh
from lakehouse.serving.api.problems import Problem
from lakehouse.tables import arrivals, served
from lakehouse.tables.series import Series

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

    from lakehouse.contracts import Catalog, MetricContract, SourceContract
    from lakehouse.domain.completeness import Arrivals, Estimate
    from lakehouse.domain.periods import Period
    from lakehouse.ledger.tokens import Token
    from lakehouse.serving.api.snapshot import Kept, Snapshot
    from lakehouse.serving.api.waiting import Waiting
    from lakehouse.settings import Settings
    from lakehouse.tables.reading import Version

T = TypeVar("T")
#: Seconds after which something is looked at again, and the age that nobody is given.
_NUMBERS, _WAITING, _ARRIVALS, _TOKENS = (0.3, 0.7), (1.0, 3.0), (20.0, 60.0), (1.0, 2.0)
_ESTIMATES = 10_000


@dataclass(frozen=True)
class Shown:
    """The numbers of a series as of one moment, with the contract that makes them."""

    series: Series
    numbers: Snapshot

    def kept(self, period: Period) -> Kept:
        """The versions of a period.

        :raises Problem: where nothing has been published for it.
        """
        found = self.numbers.periods.get(period.start)
        if found is None:
            raise Problem(404, "not-published", f"nothing of {self.series.name} has been published for {period.name}")
        return found


@dataclass(frozen=True, eq=False)
class _Came:
    """How rows came in, as of a version of the key log."""

    version: int
    arrivals: Arrivals | None


class Lake:
    """The tables of a deployment, as requests read them. Belongs to one event loop."""

    def __init__(self, settings: Settings, catalog: Catalog) -> None:
        self.settings, self.catalog = settings, catalog
        self._numbers: dict[str, Fresh[Snapshot]] = {}
        self._waiting: dict[str, Fresh[Waiting]] = {}
        self._came: dict[str, Fresh[_Came]] = {}
        self._tokens = Fresh(lambda _: tokens.all_of(settings), *_TOKENS)

    def metric(self, name: str) -> MetricContract:
        """The contract of a metric.

        :raises Problem: where there is none of that name.
        """
        found = self.catalog.metrics.get(name)
        if found is None:
            raise Problem(404, "unknown-metric", f"there is no metric {name!r}; GET /metrics lists them")
        return found

    def source(self, name: str) -> SourceContract:
        """The contract of a source.

        :raises Problem: where there is none of that name.
        """
        found = self.catalog.sources.get(name)
        if found is None:
            known = ", ".join(sorted(self.catalog.sources)) or "none"
            raise Problem(404, "unknown-source", f"there is no source {name!r}; known are {known}")
        return found

    async def shown(self, metric: MetricContract, kind: Kind = Kind.DAY) -> Shown:
        """The published numbers of a metric for a kind of period, as readers see them.

        :raises Problem: where it is not published for such periods, or the tables cannot be read.
        """
        if kind is not Kind.DAY and kind.value not in metric.publication.rollups:
            known = ", ".join(["day", *metric.publication.rollups])
            raise Problem(404, "not-published", f"{metric.name} is published by {known}, and not by {kind.value}")
        own = Series(metric)
        days = await self._snapshot(own)
        seen = metric.dataset_version if metric.dataset_version > 1 else days.serves
        try:
            daily = own if seen == metric.dataset_version else served.version(self.catalog, metric, seen)
        except served.UnservedVersionError as problem:
            raise Problem(503, "contract-missing", f"{problem}; then start the server again") from None
        if kind is Kind.DAY:
            return Shown(daily, days)
        one = Series(daily.metric, kind, daily.called)
        return Shown(one, await self._snapshot(one))

    async def waiting(self, source: str) -> Waiting:
        """What waits to be taken into silver and into numbers."""
        if source not in self._waiting:
            self._waiting[source] = Fresh(partial(waiting.read, self.settings, source, store.Reused()), *_WAITING)
        return await _got(self._waiting[source])

    async def arrivals(self, source: str) -> Arrivals | None:
        """How a source's rows came in; None where none has."""
        return (await self._how_it_came(source)).arrivals

    async def tokens(self) -> dict[str, Token]:
        """Every token by its id."""
        return await _got(self._tokens)

    async def complete(self, one: Series, period: Period, version: Version) -> Estimate | Unknown:
        """How much of a period's rows a version has in it."""
        metric = one.metric
        came = await self._how_it_came(metric.source)
        if came.arrivals is None:
            return Unknown("nothing is known of how the rows of this source come in")
        days = days_behind(one, period)
        waits = (await self.waiting(metric.source)).days
        current = version.is_latest and waits.isdisjoint(days)
        cutoff = min(self.settings.clock() if current else version.published_at, came.arrivals.newest)
        zone = ZoneInfo(self.source(metric.source).clocks.timezone)
        hour = cutoff.replace(minute=0, second=0, microsecond=0)
        return _estimate(came, days[0], len(days), hour, zone, metric.publication.final_after)

    async def behind(self, shown: Shown, version: Version, period: Period) -> bool:
        """Whether something is known that this number does not say yet: arrivals, a new silver, other days of a longer period."""
        one = shown.series
        waits = await self.waiting(one.metric.source)
        if not waits.days.isdisjoint(days_behind(one, period)):
            return True
        if one.kind is Kind.DAY:
            return 0 <= waits.followed.get(served.follower(one), -1) < waits.silver_version
        days = (await self.shown(self.metric(one.called or one.metric.name))).numbers.periods
        made_from = version.made_from
        newest = {day: kept.heads[-1].revision for day in period.days if (kept := days.get(day)) is not None}
        return any(made_from.get(f"{day}") != f"r{revision}" for day, revision in newest.items())

    async def _snapshot(self, one: Series) -> Snapshot:
        if one.name not in self._numbers:
            path = one.path(self.settings)
            self._numbers[one.name] = Fresh(partial(snapshot.read, self.settings, path, one.by), *_NUMBERS)
        return await _got(self._numbers[one.name])

    async def _how_it_came(self, source: str) -> _Came:
        if source not in self._came:
            self._came[source] = Fresh(partial(_read_came, self.settings, self.source(source)), *_ARRIVALS)
        return await _got(self._came[source])


def days_behind(one: Series, period: Period) -> Sequence[date]:
    """The event days whose rows a number covers, in order."""
    return period.days if one.metric.window == 1 else sorted(reach_back(period.days, one.metric.window))


async def _got(fresh: Fresh[T]) -> T:
    """:raises Problem: where the tables cannot be read."""
    try:
        return await fresh.get()
    except Problem:
        raise
    except Exception as error:
        raise Problem(503, "unreadable", "the tables cannot be read at this moment; ask again", {"Retry-After": "2"}) from error


def _read_came(settings: Settings, contract: SourceContract, known: _Came | None) -> _Came:
    version = arrivals.version(settings, contract.dataset)
    return known if known is not None and known.version == version else _Came(version, arrivals.read(settings, contract))


@lru_cache(_ESTIMATES)
def _estimate(came: _Came, first: date, days: int, cutoff: datetime, zone: ZoneInfo, follow_days: int) -> Estimate | Unknown:
    assert came.arrivals is not None  # noqa: S101 (told apart by the caller)
    every = [first.fromordinal(first.toordinal() + offset) for offset in range(days)]
    return completeness.estimate(every, cutoff, came.arrivals, zone, follow_days)
