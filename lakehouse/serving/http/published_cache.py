"""What requests read: published numbers, how arrivals come in, what waits; kept fresh in memory, each as of one moment.

The same for the API and for the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeVar
from zoneinfo import ZoneInfo

from lakehouse import locations
from lakehouse.calendar.days import reach_back
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.delta.table_cache import TableCache
from lakehouse.gold.numbers import served_version, version_selector
from lakehouse.lateness import arrival_curve, completeness
from lakehouse.lateness.completeness import Unknown
from lakehouse.serving.http import pending_changes, snapshot, tokens
from lakehouse.serving.http.problems import Problem
from lakehouse.serving.http.refreshing import Fresh

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date, datetime

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts import Catalog, MetricContract, SourceContract
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.lateness.completeness import Arrivals, Estimate
    from lakehouse.serving.http.pending_changes import Waiting
    from lakehouse.serving.http.snapshot import Kept, Snapshot
    from lakehouse.serving.http.tokens import Token
    from lakehouse.settings import Settings

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


class _Came:
    """How rows came in, as of a version of the key log; what is estimated from it goes with it."""

    def __init__(self, version: int, arrivals: Arrivals | None) -> None:
        self.version, self.arrivals = version, arrivals
        self.estimate = lru_cache(_ESTIMATES)(partial(_estimate, arrivals))


class Lake:
    """The tables of a deployment, as requests read them. Belongs to one event loop."""

    def __init__(self, settings: Settings, catalog: Catalog) -> None:
        self.settings, self.catalog = settings, catalog
        self._numbers: dict[str, Fresh[Snapshot]] = {}
        self._waiting: dict[str, Fresh[Waiting]] = {}
        self._held: dict[str, Fresh[Mapping[date, list[str]]]] = {}
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
        try:
            version_selector.check_published(metric, kind)
        except version_selector.UnpublishedKindError as problem:
            raise Problem(404, "not-published", f"{problem}") from None
        own = Series(metric)
        days = await self._snapshot(own)
        seen = metric.dataset_version if metric.dataset_version > 1 else days.serves
        try:
            daily = own if seen == metric.dataset_version else served_version.version(self.catalog, metric, seen)
        except served_version.UnservedVersionError as problem:
            raise Problem(503, "contract-missing", f"{problem}; then start the server again") from None
        if kind is Kind.DAY:
            return Shown(daily, days)
        series = version_selector.series_for(metric, kind, daily)
        return Shown(series, await self._snapshot(series))

    async def every(self, metrics: Iterable[str], by: Kind | None = None) -> list[Shown]:
        """The published numbers of some metrics for every kind of period, or for one, where they are published for it."""
        wanted = [self.metric(name) for name in metrics]
        kinds = [(metric, Kind(kind)) for metric in wanted for kind in ("day", *metric.publication.rollups)]
        return [await self.shown(metric, kind) for metric, kind in kinds if by in (None, kind)]

    async def waiting(self, source: str) -> Waiting:
        """What waits to be taken into silver and into numbers."""
        if source not in self._waiting:
            look = partial(pending_changes.read, self.settings, self.catalog, source, TableCache())
            self._waiting[source] = Fresh(look, *_WAITING)
        return await _got(self._waiting[source])

    async def arrivals(self, source: str) -> Arrivals | None:
        """How a source's rows came in; None where none has."""
        return (await self._how_it_came(source)).arrivals

    async def tokens(self) -> dict[str, Token]:
        """Every token by its id."""
        return await _got(self._tokens)

    async def behind(self, shown: Shown, version: PublishedVersion, period: Period) -> bool:
        """Whether something is known that this number does not say: a newer one, held or not, arrivals, changed days below it."""
        if not version.is_latest and version.adjustment is None:
            return True
        one = shown.series
        waits = await self.waiting(one.metric.source)
        return (
            not waits.days.isdisjoint(days_behind(one, period))
            or waits.concerns(_days_of(one).name, period.days)
            or (
                one.kind is not Kind.DAY
                and waits.concerns(one.name, [period.start])
                and await self._made_of_others(one, version, period)
            )
            or bool(await self.held(shown, period))
        )

    async def _made_of_others(self, one: Series, version: PublishedVersion, period: Period) -> bool:
        """Whether the newest numbers of its days are others than a longer period's was made from.

        A run by hand makes it without being remembered as following. Which adjustments are booked in it is not looked for.
        """
        if one.metric.publication.after_close == "adjust":
            return True
        days = (await self._snapshot(_days_of(one))).periods
        newest = {day: f"r{kept.heads[-1].revision}" for day in period.days if (kept := days.get(day)) is not None}
        made_from = version.made_from.revisions
        return any(made_from.get(day) != revision for day, revision in newest.items())

    async def held(self, shown: Shown, period: Period) -> list[str]:
        """The checks that hold a newer number of a period back, or one of its days."""
        one = shown.series
        own, days = await self._held_of(one), await self._held_of(_days_of(one))
        return sorted({*own.get(period.start, ()), *(check for day in days.keys() & period.days for check in days[day])})

    async def complete(self, one: Series, period: Period, version: PublishedVersion, *, behind: bool) -> Estimate | Unknown:
        """How much of a period's rows a version has in it.

        :param behind: whether more is known than it says; then it has what there was when it was published.
        """
        metric = one.metric
        came = await self._how_it_came(metric.source)
        if came.arrivals is None:
            return Unknown("nothing is known of how the rows of this source come in")
        days = days_behind(one, period)
        current = version.is_latest and not behind
        cutoff = min(self.settings.clock() if current else version.published_at, came.arrivals.newest)
        zone = ZoneInfo(self.source(metric.source).clocks.timezone)
        hour = cutoff.replace(minute=0, second=0, microsecond=0)
        return came.estimate(days[0], len(days), hour, zone, metric.publication.final_after)

    async def _held_of(self, one: Series) -> Mapping[date, list[str]]:
        if one.name not in self._held:
            self._held[one.name] = Fresh(partial(pending_changes.held, self.settings, one, TableCache()), *_WAITING)
        return await _got(self._held[one.name])

    async def _snapshot(self, one: Series) -> Snapshot:
        if one.name not in self._numbers:
            path = locations.gold(self.settings, one)
            self._numbers[one.name] = Fresh(partial(snapshot.read, self.settings, path, one.by), *_NUMBERS)
        return await _got(self._numbers[one.name])

    async def _how_it_came(self, source: str) -> _Came:
        if source not in self._came:
            self._came[source] = Fresh(partial(_read_came, self.settings, self.source(source)), *_ARRIVALS)
        return await _got(self._came[source])


def days_behind(one: Series, period: Period) -> Sequence[date]:
    """The event days whose rows a number covers, in order."""
    return period.days if one.metric.window == 1 else sorted(reach_back(period.days, one.metric.window))


def _days_of(one: Series) -> Series:
    """The days that a series is, or is made from."""
    return Series(one.metric, Kind.DAY, one.called)


async def _got(fresh: Fresh[T]) -> T:
    """:raises Problem: where the tables cannot be read."""
    try:
        return await fresh.get()
    except Problem:
        raise
    except Exception as error:
        raise Problem(503, "unreadable", "the tables cannot be read at this moment; ask again", {"Retry-After": "2"}) from error


def _read_came(settings: Settings, contract: SourceContract, known: _Came | None) -> _Came:
    version = arrival_curve.version(settings, contract.dataset)
    return known if known is not None and known.version == version else _Came(version, arrival_curve.read(settings, contract))


def _estimate(
    came: Arrivals | None, first: date, days: int, cutoff: datetime, zone: ZoneInfo, follow_days: int
) -> Estimate | Unknown:
    assert came is not None  # noqa: S101 (told apart by the caller)
    every = [first.fromordinal(first.toordinal() + offset) for offset in range(days)]
    return completeness.estimate(every, cutoff, came, zone, follow_days)
