"""The data for requests, cached in memory and refreshed: published numbers, pending changes, arrivals, tokens, states of sources.

The API and the pages read only through this module; a request sees each table as of one moment. The state of a source is its
known missing data, the watermark, and the recorded deliveries. How a value is refreshed for all requests is defined in
``responses``; reading tables belongs to ``snapshot`` and ``pending_changes``.
"""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar, cast
from zlib import crc32
from zoneinfo import ZoneInfo

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series, source_days
from lakehouse.gold.numbers import served_version, version_selector, window_history
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.gold.numbers.version_selector import SelectBy
from lakehouse.gold.restatement import closing
from lakehouse.gold.restatement import derived_inputs as derived_following
from lakehouse.gold.restatement.closing import Completeness, End, HeldNumber, end_of, held_by, joined_dimensions, with_held
from lakehouse.lake import table_io
from lakehouse.lake.table_cache import TableCache
from lakehouse.lateness import completeness, measurement
from lakehouse.lateness.completeness import Unknown
from lakehouse.ledger import ingestions
from lakehouse.serving import pending_changes, snapshot, tokens
from lakehouse.serving.responses import ComposedValue, Problem, RefreshedValue, gathered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
    from datetime import datetime

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts import Catalog, MetricContract, SourceContract
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.gold.restatement.closing import SourceState
    from lakehouse.lake import Lake
    from lakehouse.lateness.completeness import Arrivals, Estimate
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.serving.pending_changes import PendingChanges
    from lakehouse.serving.responses import Runner
    from lakehouse.serving.snapshot import PeriodVersions, Snapshot
    from lakehouse.serving.tokens import Token

T = TypeVar("T")
#: The seconds after which a value is refreshed, and the age beyond which it is no longer returned.
_NUMBERS, _PENDING, _ARRIVALS, _TOKENS = (0.3, 0.7), (1.0, 3.0), (20.0, 60.0), (1.0, 2.0)
_ESTIMATES = 10_000
#: How many series are read before a request needs them; how many threads read values of a kind, each with open tables.
_AT_ONCE, _THREADS = 4, 4
SERVICE_UNAVAILABLE = 503
#: The messages of Arrow and delta-rs for a missing or incomplete data file; they have no exception class for that.
_IS_FILE = re.compile("no such file|not found|parquet|range was invalid", re.IGNORECASE)


@dataclass(frozen=True)
class PublishedSeries:
    """The numbers of a series as of one moment, with the contract that defines them.

    :param uncomputed: the reasons for which the newest number cannot be computed, by period.
    """

    series: Series
    numbers: Snapshot
    uncomputed: Mapping[date, str] = field(default_factory=dict)

    def versions_of(self, period: Period) -> PeriodVersions:
        """The versions of a period.

        :raises Problem: if nothing has been published for the period.
        """
        versions = self.numbers.periods.get(period.start)
        if versions is None:
            if period.start in self.uncomputed:
                why = self.uncomputed[period.start]
                detail = f"nothing of {self.series.name} has been published for {period.name}: {why}"
            else:
                detail = version_selector.nothing_published(self.series, period.name, period.start, self.numbers.starts)
            raise Problem(404, "not-published", detail)
        return versions

    def seen_at(
        self, start: date, at: datetime, by: SelectBy = SelectBy.LATEST, window: datetime | None = None
    ) -> tuple[PublishedVersion, str | None] | None:
        """The version of a period, or of a window of a day, that readers saw at a given time, with a note for them.

        :param start: the first day of the period. ``window`` is the first moment of the window.
        :returns: None if nothing had been published by then.
        """
        versions = self.numbers.periods.get(start)
        by_then = [] if versions is None else [summary for summary in versions.summaries if summary.published_at <= at]
        chosen = version_selector.choose(by_then, version_selector.VersionSelector(by, by.value)) if by_then else None
        if versions is None or chosen is None:
            return None
        summary, note = chosen
        if window is None:
            return versions.version(self.series, summary), note
        of_day = [one for one in versions.versions(self.series) if one.published_at <= at]
        selected = next(one for one in of_day if one.label == summary.label)
        return window_history.shown(of_day, selected, window), note


class _ArrivalHistory:
    """The arrivals of rows as of a version of the key log, with the estimates made from them."""

    def __init__(self, version: Hashable, arrivals: Arrivals | None) -> None:
        self.version, self.arrivals = version, arrivals
        self.estimate = lru_cache(_ESTIMATES)(partial(_estimate, arrivals))


class PublishedCache:
    """The tables of a deployment for requests. An instance belongs to one event loop."""

    def __init__(self, lake: Lake, catalog: Catalog) -> None:
        self.lake, self.catalog = lake, catalog
        #: The lake with tables that each thread keeps open.
        self.reading = lake.cached(TableCache())
        #: For numbers, for what is not yet in them, and for what may take long: none of them waits for the others.
        self._numbers, self._states, self._long = _threads("numbers"), _threads("states"), _threads("long")
        self._others: dict[str, RefreshedValue[Any]] = {}
        self._composed: dict[str, ComposedValue[Any]] = {}
        self._snapshots: dict[str, RefreshedValue[Snapshot]] = {}
        self._pending: dict[str, RefreshedValue[PendingChanges]] = {}
        self._failing: dict[str, RefreshedValue[Mapping[date, list[str]]]] = {}
        self._uncomputed: dict[str, RefreshedValue[Mapping[date, str]]] = {}
        self._sources: dict[str, RefreshedValue[ObservedSource]] = {}
        self._arrivals: dict[str, RefreshedValue[_ArrivalHistory]] = {}
        self._tokens = RefreshedValue(lambda _: tokens.all_of(lake), *_TOKENS)

    def metric(self, name: str) -> MetricContract:
        """The contract of a metric.

        :raises Problem: if no metric has that name.
        """
        metric = self.catalog.metrics.get(name)
        if metric is None:
            raise Problem(404, "unknown-metric", f"there is no metric {name!r}; GET /metrics lists them")
        return metric

    def source(self, name: str) -> SourceContract:
        """The contract of a source.

        :raises Problem: if no source has that name.
        """
        source = self.catalog.sources.get(name)
        if source is None:
            names = ", ".join(sorted(self.catalog.sources)) or "none"
            raise Problem(404, "unknown-source", f"there is no source {name!r}; known are {names}")
        return source

    async def published(self, metric: MetricContract, kind: Kind = Kind.DAY) -> PublishedSeries:
        """The published numbers of a metric for a kind of period, as visible to readers.

        :raises Problem: if the metric is not published for that kind, or its tables cannot be read.
        """
        try:
            version_selector.check_published(metric, kind)
        except version_selector.UnpublishedKindError as problem:
            raise Problem(404, "not-published", f"{problem}") from None
        latest = Series(metric)
        days = await self._snapshot(latest)
        served = metric.dataset_version if metric.dataset_version > 1 else days.serves
        try:
            daily = latest if served == metric.dataset_version else served_version.version(self.catalog, metric, served)
        except served_version.UnservedVersionError as problem:
            raise Problem(503, "contract-missing", f"{problem}; then start the server again") from None
        if kind is Kind.DAY:
            return PublishedSeries(daily, days, await self.uncomputed(daily))
        rollup = version_selector.series_for(metric, kind, daily)
        return PublishedSeries(rollup, await self._snapshot(rollup), await self.uncomputed(rollup))

    async def fill(self) -> None:
        """Read what first requests need, some series at a time, so that they need not wait for it."""
        limit = asyncio.Semaphore(_AT_ONCE)

        async def read(metric: MetricContract, kind: Kind) -> None:
            async with limit:
                with suppress(Exception):  # the value logs it, /health reports it
                    await self.published(metric, kind)

        for_kinds = [(metric, ("day", *metric.publication.rollups)) for metric in self.catalog.metrics.values()]
        await asyncio.gather(*(read(metric, Kind(kind)) for metric, kinds in for_kinds for kind in kinds))

    async def all_published(self, metrics: Iterable[str], by: Kind | None = None) -> list[PublishedSeries]:
        """The published numbers of ``metrics``, for every published kind of period.

        :param by: restrict to this kind of period.
        """
        contracts = [self.metric(name) for name in metrics]
        kinds = [(metric, Kind(kind)) for metric in contracts for kind in ("day", *metric.publication.rollups)]
        return await asyncio.gather(*(self.published(metric, kind) for metric, kind in kinds if by in (None, kind)))

    async def readable(
        self, metrics: Iterable[str], by: Kind | None = None
    ) -> tuple[list[PublishedSeries], list[dict[str, str]]]:
        """The readable published numbers of ``metrics``, and the metrics with an unreadable table.

        Each unreadable metric has the reason and the remedy.
        """
        names = list(metrics)
        series = await gathered((self.all_published([name], by) for name in names), failures=True)
        readable: list[PublishedSeries] = []
        unreadable = []
        for name, of_metric in zip(names, series):
            if isinstance(of_metric, Problem) and of_metric.status == SERVICE_UNAVAILABLE:
                unreadable.append({"metric": name, "detail": of_metric.detail})
            elif isinstance(of_metric, BaseException):
                raise of_metric
            else:
                readable += of_metric
        return readable, unreadable

    async def pending_changes(self, source: str) -> PendingChanges:
        """The changes of a source that are not yet in silver or in published numbers."""
        if source not in self._pending:
            read = partial(pending_changes.read, self.reading, self.catalog, source)
            self._pending[source] = RefreshedValue(read, *_PENDING, self._reads_of(source, self._states))
        return await _value_of(self._pending[source], f"silver/{source}")

    async def observed(self, source: str) -> ObservedSource:
        """The deliveries of a source, and its known missing data."""
        if source not in self._sources:
            read = partial(read_observed_source, self.reading, self.source(source))
            self._sources[source] = RefreshedValue(read, *_PENDING, self._reads_of(source, self._states))
        return await _value_of(self._sources[source], f"bronze/{source}")

    async def arrivals(self, source: str) -> Arrivals | None:
        """The arrivals of a source's rows; None without rows."""
        return (await self._arrival_history(source)).arrivals

    async def tokens(self) -> dict[str, Token]:
        """All tokens, by id."""
        return await _value_of(self._tokens, "ops/tokens")

    async def is_stale(self, published: PublishedSeries, version: PublishedVersion, period: Period) -> bool:
        """Whether more is known than a number contains: a newer number, even held, arrivals, or changes in the layer below."""
        if not version.is_latest and version.adjustment is None:
            return True
        series = published.series
        pending = await self.pending_changes(series.metric.source)
        if series.metric.is_derived:
            return (
                pending.affects(series.name, [period.start])
                or bool(await self.failing_checks(published, period))
                or await self._has_stale_input(series, period)
            )
        days = source_days(series.metric, period.days)
        return (
            any([not (await self.pending_changes(entry.source)).days.isdisjoint(days) for entry in series.metric.read])
            or pending.affects(_daily(series).name, period.days)
            or (
                series.kind is not Kind.DAY
                and pending.affects(series.name, [period.start])
                and await self._made_from_older_days(series, version, period)
            )
            or bool(await self.failing_checks(published, period))
        )

    async def _has_stale_input(self, series: Series, period: Period) -> bool:
        """Whether more is known than the newest number of an input of a derived metric contains."""
        for one in series.metric.inputs:
            published = await self.published(self.metric(one.metric), series.kind)
            versions = published.numbers.periods.get(period.start)
            newest = versions.version(published.series, versions.summaries[-1]) if versions else None
            if newest is not None and await self.is_stale(published, newest, period):
                return True
        return False

    async def _made_from_older_days(self, series: Series, version: PublishedVersion, period: Period) -> bool:
        """Whether a longer period was not computed from the newest numbers of its days.

        A manual run may publish it without a record of the version that it followed. Booked adjustments are not compared.
        """
        if series.metric.publication.after_close == "adjust" or version.made_from.adjustments:
            return True
        days = (await self._snapshot(_daily(series))).periods
        newest = {day: f"r{days[day].newest_revision.revision}" for day in period.days if day in days}
        made_from = version.made_from.revisions
        return any(made_from.get(day) != revision for day, revision in newest.items())

    async def failing_checks(self, published: PublishedSeries, period: Period) -> list[str]:
        """The failed checks that hold a newer number of a period, or of one of its days."""
        series = published.series
        of_periods = await self._failing_by_period(series)
        of_days = {} if series.metric.is_derived else await self._failing_by_period(_daily(series))
        return sorted(
            {*of_periods.get(period.start, ()), *(check for day in of_days.keys() & period.days for check in of_days[day])}
        )

    async def waiting_for(self, series: Series, period: Period, version: PublishedVersion) -> list[str]:
        """What the newest number of a period waits for before it becomes final, as sentences; nothing for other versions.

        A newer number that is held stands first, also beside a final one.
        """
        if not version.is_latest:
            return []
        missing = [] if version.state is State.FINAL else await self._missing(series, period)
        return with_held(await self.held(series, period), missing)

    async def held(self, series: Series, period: Period) -> HeldNumber | None:
        """Why the newest number of a period is held; None if it is not."""
        uncomputed, checks = await self.uncomputed(series), await self._failing_by_period(series)
        return held_by(series, uncomputed.get(period.start), checks.get(period.start, ()))

    async def _missing(self, series: Series, period: Period) -> list[str]:
        """The missing inputs of a period."""
        if series.metric.is_derived:
            states = {one.metric: await self._state_of_input(one.metric, period) for one in series.metric.inputs}
            waiting = derived_following.limit(series, period.start, states)
            return waiting[1] if waiting else []
        open_days, held_days = set[date](), set[date]()
        if series.kind is not Kind.DAY:
            days = (await self._snapshot(_daily(series))).periods
            known = {day: days[day].newest_revision.state for day in period.days if day in days}
            held_days = {*await self._failing_by_period(_daily(series))}
            open_days = {day for day, state in known.items() if state is not State.FINAL}
        required = [(await self.observed(entry.source)).state for entry in series.metric.read if entry.required]
        dimensions = [(await self.observed(name)).state for name in joined_dimensions(series)]
        limit = Completeness(series, required, open_days, held_days, dimensions).limit(period)
        return list(limit.waits_for) if limit else []

    async def _state_of_input(self, metric: str, period: Period) -> State | None:
        published = await self.published(self.metric(metric), period.kind)
        versions = published.numbers.periods.get(period.start)
        return versions.newest_revision.state if versions else None

    async def completeness(
        self, series: Series, period: Period, version: PublishedVersion, *, stale: bool, window: datetime | None = None
    ) -> Estimate | Unknown:
        """The share of a period's rows that a version contains.

        :param stale: whether more is known than the version contains; it then contains the rows that had arrived when it was
            published.
        :param window: the first moment of a window of the day, if only the window's number is meant.
        """
        if window is not None:
            return Unknown("it is estimated for days and longer periods, and not for windows of a day")
        metric = series.metric
        history = await self._arrival_history(metric.source)
        if history.arrivals is None or metric.sources:
            return Unknown("it is estimated for one source" if metric.sources else "no arrivals of this source are recorded")
        days = source_days(metric, period.days)
        current = version.is_latest and not stale
        cutoff = min(self.lake.now() if current else version.published_at, history.arrivals.newest)
        zone = ZoneInfo(self.source(metric.source).clocks.timezone)
        hour = cutoff.replace(minute=0, second=0, microsecond=0)
        return history.estimate(days[0], len(days), hour, zone, metric.publication.final_after)

    async def end_of(self, series: Series, period: Period, start: datetime | None) -> End:
        """When a period or a window ends, and whether the watermark has passed that.

        :param start: the first moment of the window.
        """
        required = [] if series.metric.is_derived else [entry.source for entry in series.metric.read if entry.required]
        states = [(await self.observed(source)).state.watermark for source in required]
        watermarks = [None if state is None else state.watermark for state in states]
        return end_of(series, self.catalog.sources.get(series.metric.source), period, start, watermarks)

    async def uncomputed(self, series: Series) -> Mapping[date, str]:
        """The reasons for which the newest number of a series cannot be computed, by period."""
        if series.name not in self._uncomputed:
            read = partial(pending_changes.uncomputed, self.reading, series)
            self._uncomputed[series.name] = RefreshedValue(read, *_PENDING, self._reads_of(series.metric.source, self._states))
        return await _value_of(self._uncomputed[series.name], "ops/failed_numbers")

    async def _failing_by_period(self, series: Series) -> Mapping[date, list[str]]:
        if series.name not in self._failing:
            read = partial(pending_changes.failing_checks, self.reading, series)
            self._failing[series.name] = RefreshedValue(read, *_PENDING, self._reads_of(series.metric.source, self._states))
        return await _value_of(self._failing[series.name], f"gold/{series.name}_candidates")

    async def _snapshot(self, series: Series) -> Snapshot:
        if series.name not in self._snapshots:
            read = partial(snapshot.read, locations.gold(self.reading, series), series.by)
            self._snapshots[series.name] = RefreshedValue(read, *_NUMBERS, self._reads_of(series.metric.source, self._numbers))
        return await _value_of(self._snapshots[series.name], f"gold/{series.name}")

    async def other(self, name: str, read: Callable[[], T]) -> T:
        """A value that a page needs and no other method has, refreshed as often as numbers.

        :param name: tells the value apart from others.
        :param read: reads it from :attr:`reading`.
        """
        if name not in self._others:
            self._others[name] = RefreshedValue(lambda _: read(), *_NUMBERS, self._reads_of(name, self._long))
        return cast("T", await self._others[name].get())

    async def composed(self, name: str, make: Callable[[], Awaitable[T]]) -> T:
        """A value that is made of others, such as the overview; one that takes long to make may be some seconds old.

        :param name: tells the value apart from others.
        """
        if name not in self._composed:
            self._composed[name] = ComposedValue(make, is_kept=_NUMBERS[1] > 0)
        return cast("T", await self._composed[name].get())

    def _reads_of(self, name: str, threads: Sequence[ThreadPoolExecutor]) -> Runner:
        """Runs reads about a source in one of a few threads, always the same, which keeps their tables open.

        A read sees each table as of one moment, and looks for its new commits once.
        """
        thread = threads[crc32(name.encode()) % len(threads)]

        async def run(read: Callable[[T], T], before: T) -> T:
            def reading() -> T:
                with self.reading.step():
                    return read(before)

            return await asyncio.get_running_loop().run_in_executor(thread, reading)

        return run

    async def _arrival_history(self, source: str) -> _ArrivalHistory:
        if source not in self._arrivals:
            read = partial(_read_arrivals, self.reading, self.source(source))
            self._arrivals[source] = RefreshedValue(read, *_ARRIVALS, self._reads_of(source, self._long))
        return await _value_of(self._arrivals[source], f"ops/{source}_keys")


def _threads(name: str) -> list[ThreadPoolExecutor]:
    return [ThreadPoolExecutor(1, f"lakehouse-{name}-{number}") for number in range(_THREADS)]


def _daily(series: Series) -> Series:
    """The daily series from which a series is computed; a daily series itself."""
    return Series(series.metric, Kind.DAY, series.called)


async def _value_of(refreshed: RefreshedValue[T], table: str) -> T:
    """:raises Problem: if the table cannot be read, with its name and the remedy."""
    try:
        return await refreshed.get()
    except Problem:
        raise
    except Exception as error:
        detail = f"the table {table} cannot be read: {_reason(error)}"
        raise Problem(SERVICE_UNAVAILABLE, "unreadable", detail, {"Retry-After": "2"}, table=table) from error


def _reason(error: Exception) -> str:
    """Why a table cannot be read, without details of the machine, and the remedy."""
    if isinstance(error, table_io.DamagedLogError):
        return "its log is damaged; the server's log names the file, and the page on operations what to do"
    if isinstance(error, FileNotFoundError) or _IS_FILE.search(f"{error}"):
        return "a data file is missing or cut off; 'lakehouse admin repair' makes it again"
    return "try again; if it stays so, the server's log has the reason"


def _read_arrivals(lake: Lake, contract: SourceContract, before: _ArrivalHistory | None) -> _ArrivalHistory:
    version = measurement.curve_version(lake, contract.dataset)
    if before is not None and before.version == version:
        return before
    return _ArrivalHistory(version, measurement.read_curve(lake, contract))


def _estimate(
    arrivals: Arrivals | None, first: date, days: int, cutoff: datetime, zone: ZoneInfo, follow_days: int
) -> Estimate | Unknown:
    assert arrivals is not None  # noqa: S101 (the caller has checked)
    all_days = [first.fromordinal(first.toordinal() + offset) for offset in range(days)]
    return completeness.estimate(all_days, cutoff, arrivals, zone, follow_days)


@dataclass(frozen=True)
class ObservedSource:
    """The state of a source at one moment.

    :param deliveries: all recorded deliveries, by arrival day and file.
    """

    state: SourceState
    deliveries: Sequence[Ingestion]

    @cached_property
    def newest_arrival(self) -> datetime | None:
        """The arrival time of the source's newest row; None before the first."""
        return max((entry.newest_arrival for entry in self.deliveries if entry.newest_arrival is not None), default=None)


def read_observed_source(lake: Lake, contract: SourceContract, _: ObservedSource | None) -> ObservedSource:
    """Read the current state of a source.

    :param lake: keeps tables open, so that a table without new commits is not read again.
    """
    state = closing.read_source(lake, contract)
    return ObservedSource(state, ingestions.all_of(lake, contract.dataset))
