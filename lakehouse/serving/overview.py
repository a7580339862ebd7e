"""``/``, ``lakehouse status``, ``/prometheus``: newest numbers with caveats and closing conditions, sources, models, open issues.

``/prometheus`` has the same figures as gauges, with the lateness of rows and the open alerts.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date, timedelta
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse.dispositions.account_tables import is_overdue
from lakehouse.gold.numbers import lifecycle, page_views
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.lake.table_io import UNREADABLE, DamagedLogError
from lakehouse.lateness import measurement, recommendation
from lakehouse.lateness.event_watermark import BEGINNING
from lakehouse.lateness.routes import restatements
from lakehouse.models.routes import summaries
from lakehouse.operations import pauses
from lakehouse.operations.alerts import log as alert_log
from lakehouse.reports.formatting import counted
from lakehouse.serving.page import respond
from lakehouse.serving.parameters import MetricSearch, NoParameters
from lakehouse.serving.responses import Problem, gathered
from lakehouse.stewardship import routes
from lakehouse.stewardship.quarantine import StatusFilter
from lakehouse.text import json_value

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping
    from datetime import datetime

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts import MetricContract
    from lakehouse.lateness.measurement import LatenessMeasurement
    from lakehouse.operations.alerts.log import AlertRecord
    from lakehouse.serving.published_cache import ObservedSource, PublishedCache, PublishedSeries

_LOG = logging.getLogger(__name__)
#: The number of periods in the small drawing, the number of days in "this week", and the greatest number of metrics with separate
#: cards.
_DRAWN, _WEEK, _CARDS = 14, 7, 8
#: The number of metrics and of sources on a page; with more metrics they are listed by owner.
_ON_A_PAGE = 50
_SOURCES = 1000


class OverviewParameters(MetricSearch):
    """The part of the overview that is shown; a page has fifty metrics."""

    page: Annotated[int, Field(ge=1, le=10_000)] = 1


def add(router: APIRouter, cache: PublishedCache) -> None:
    """Add the page."""

    @router.get("/")
    async def overview(request: Request, wanted: Annotated[OverviewParameters, Query()]) -> Response:
        shown = await kept(cache)
        return respond(request, "overview", "overview", shown | _part(shown, wanted))


def _part(shown: dict[str, Any], wanted: OverviewParameters) -> dict[str, Any]:
    """The metrics that a search finds, in pages, and the sources that go with them."""
    every = shown["cards"]
    is_many = len(every) > _ON_A_PAGE
    in_order = sorted(every, key=_order) if is_many else every
    cards = [card for card in in_order if wanted.finds(card["metric"])]
    pages = max(-(-len(cards) // _ON_A_PAGE), 1)
    page = min(wanted.page, pages)
    of_page = cards[(page - 1) * _ON_A_PAGE : page * _ON_A_PAGE]
    sources = shown["sources"]
    if len(cards) < len(every):
        of_cards = {name for card in cards for name in card["metric"].sources_named}
        sources = [one for one in sources if one["name"] in of_cards or (wanted.q and wanted.is_in(one["name"]))]
    if is_many:
        sources = sorted(sources, key=lambda one: not one["missing"])
    owners = Counter(card["metric"].owner for card in every if card["metric"].owner)
    return {
        "cards": of_page,
        "groups": _by_owner(of_page) if is_many else [] if shown["in_cards"] else _groups(of_page),
        "sources": sources[:_ON_A_PAGE] if is_many else sources,
        "all_sources": len(sources),
        "is_many": is_many,
        "wanted": wanted,
        "page": page,
        "pages": pages,
        "found": len(cards),
        "all_metrics": len(every),
        "owners": sorted(owners.items()),
    }


async def kept(cache: PublishedCache) -> dict[str, Any]:
    """The result of :func:`read`, which may be some seconds old if it takes long to make."""
    return await cache.composed("overview", lambda: read(cache))


async def read(cache: PublishedCache) -> dict[str, Any]:
    """What the page and ``lakehouse status`` show: metrics as cards or in groups, sources, models, and what waits for people."""
    in_cards = len(cache.catalog.metrics) <= _CARDS
    published, unreadable = await cache.readable(sorted(cache.catalog.metrics))
    broken = {problem["metric"] for problem in unreadable}
    names = [name for name in sorted(cache.catalog.metrics) if name not in broken]
    now = cache.lake.now()
    today = now.date()
    # What does not depend on each other is read at once: in an object store each table takes some requests.
    cards, observed, restated, waiting, models, paused = await asyncio.gather(
        gathered(_card(cache, cache.catalog.metrics[name], with_drawing=in_cards) for name in names),
        gathered((cache.observed(name) for name in sorted(cache.catalog.sources)), failures=True),
        run_in_threadpool(restatements, published, today - timedelta(days=_WEEK - 1), today),
        cache.other("rows that wait", lambda: _waiting(cache)),
        cache.other("models", lambda: summaries(cache)),
        _paused(cache),
    )
    if isinstance(paused, Problem):
        unreadable.append({"metric": "ops/pauses", "detail": paused.detail})
    cards.sort(key=lambda card: _order(card)[:2])
    sources = []
    for name, source in zip(sorted(cache.catalog.sources), observed):
        if isinstance(source, Problem):
            unreadable.append({"metric": name, "detail": source.detail})
        elif isinstance(source, BaseException):
            raise source
        else:
            sources.append(_source(source))
    overdue = sum(card["overdue"].total for card in cards if card["overdue"])
    return {
        "cards": cards,
        "sources": sources,
        "overdue": overdue,
        "as_of": now,
        "in_cards": in_cards,
        "models": models,
        "unreadable": unreadable,
        "restated": len(restated),
        "waiting": waiting,
        "paused": [] if isinstance(paused, Problem) else [*paused.values()],
    }


def as_json(shown: dict[str, Any]) -> dict[str, Any]:
    """The result of :func:`read` for ``lakehouse status --json``."""
    waiting = [{"source": source, "rows": rows, "overdue": overdue} for source, rows, overdue in shown["waiting"]]
    return {
        "metrics": [_card_as_json(card) for card in shown["cards"]],
        "sources": [
            {
                "name": source["name"],
                "watermark": source["watermark"].watermark.isoformat() if source["is_set"] else None,
                "newest_arrival": source["newest"].isoformat() if source["newest"] else None,
                "missing": source["missing"],
            }
            for source in shown["sources"]
        ],
        "models": [{"name": model["model"], "in_use": (model["champion"] or {}).get("version")} for model in shown["models"]],
        "overdue": shown["overdue"],
        "restated_this_week": shown["restated"],
        "waiting": waiting,
        "paused": [pause.as_json() for pause in shown["paused"]],
        "unreadable": [{"name": problem["metric"], "detail": problem["detail"]} for problem in shown["unreadable"]],
    }


def _card_as_json(card: dict[str, Any]) -> dict[str, Any]:
    newest, overdue, closing = card["newest"], card["overdue"], card.get("closing")
    about: dict[str, Any] = {"name": card["name"], "period": None}
    if newest is not None:
        about |= {
            "period": newest.period.name,
            "version": newest.version.label,
            "state": newest.version.state.value,
            "totals": {name: json_value(sides.after) for name, sides in newest.sides.items()},
            "adjusted": {name: json_value(value) for name, value in newest.adjusted.items()},
            "restated": newest.restated,
            "published_at": newest.version.published_at.isoformat(),
            "has_newer_data": card["behind"],
            "failed_checks": card["held"],
            "completeness": card["complete"],
            "final_from": f"{closing.day}" if closing else None,
            "waiting_for": card["waiting_for"],
        }
    shown = {"total": overdue.total, "oldest": overdue.oldest.name, "waiting_for": overdue.waiting_for} if overdue else None
    return about | {"overdue": shown}


#: For so many seconds ``/prometheus`` waits for Dagster's storage.
_TICKS_SECONDS = 5.0
#: The lateness and the dispositions in ``/prometheus`` are of rows that arrived on so many days, today included.
_MEASURED_DAYS = 7
#: The Prometheus label of a percentile, by its name in the other surfaces.
_QUANTILES = {"p50": "0.5", "p90": "0.9", "p95": "0.95", "p99": "0.99", "p99_9": "0.999", "max": "1"}


def metrics_routes(cache: PublishedCache, sensor_ages: Callable[[], Mapping[str, float]] | None = None) -> APIRouter:
    """The route for Prometheus.

    :param sensor_ages: reads the seconds since the last tick of each sensor; None if the server knows of no sensors.
    """
    router = APIRouter(tags=["health"])

    @lru_cache(_SOURCES)
    def measured(source: str, start: date, end: date, _version: Hashable) -> LatenessMeasurement:
        return measurement.measure(cache.lake, cache.source(source), start, end)

    def about_rows() -> list[LatenessMeasurement]:
        today, known = cache.lake.now().date(), []
        start = today - timedelta(days=_MEASURED_DAYS - 1)
        for name in sorted(cache.catalog.sources):
            with suppress(*UNREADABLE):
                known.append(measured(name, start, today, measurement.version(cache.reading, name)))
        return known

    def open_alerts() -> list[AlertRecord] | None:
        with suppress(*UNREADABLE):
            return alert_log.all_of(cache.reading)
        return None

    thread = ThreadPoolExecutor(1)

    async def ticks() -> Mapping[str, float]:
        try:
            reading = asyncio.get_running_loop().run_in_executor(thread, sensor_ages or dict)
            return await asyncio.wait_for(reading, _TICKS_SECONDS)
        except Exception as problem:  # noqa: BLE001 (whatever is wrong with Dagster's storage, the other figures are shown)
            _LOG.warning("The last ticks of the sensors cannot be read: %s", f"{problem}" or "Dagster's storage does not answer")
            return {}

    @router.get("/prometheus", include_in_schema=False)
    async def metrics(_: NoParameters) -> Response:
        """The figures of the first page, rows of seven arrival days by lateness and disposition, open alerts, and sensors."""
        shown, rows, alerts, ages = await asyncio.gather(
            kept(cache),
            cache.composed("lateness of rows", lambda: cache.other("lateness of rows", about_rows)),
            cache.other("alerts", open_alerts),
            ticks(),
        )
        now, unread = cache.lake.now(), len(cache.catalog.sources) - len(rows) + (alerts is None)
        families = [*_of_metrics(shown, now, unread), *_of_sources(shown, now), *_of_rows(rows), *_of_alerts(alerts)]
        families.append(_of_sensors(ages))
        registry = CollectorRegistry()
        registry.register(_Collected(families))
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router


class _Collected(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def _of_metrics(shown: dict[str, Any], now: datetime, unread: int) -> Iterator[Metric]:
    age = GaugeMetricFamily("lakehouse_number_age_seconds", "Seconds since the newest number was published.", labels=["metric"])
    newer = GaugeMetricFamily("lakehouse_number_has_newer_data", "1 if data came since the newest number.", labels=["metric"])
    held = GaugeMetricFamily("lakehouse_number_failed_checks", "Failed checks that hold the newest number.", labels=["metric"])
    overdue = GaugeMetricFamily("lakehouse_numbers_overdue", "Numbers that are due to be final and are not.", labels=["metric"])
    for card in shown["cards"]:
        label = [card["name"]]
        overdue.add_metric(label, card["overdue"].total if card["overdue"] else 0)
        if card["newest"] is not None:
            age.add_metric(label, (now - card["newest"].version.published_at).total_seconds())
            newer.add_metric(label, bool(card["behind"]))
            held.add_metric(label, len(card["held"]))
    yield from (age, newer, held, overdue)
    yield GaugeMetricFamily("lakehouse_restatements_last_7_days", "Restatements and adjustments.", shown["restated"])
    yield GaugeMetricFamily(
        "lakehouse_unreadable", "Metrics, sources and logs that cannot be read.", len(shown["unreadable"]) + unread
    )
    yield GaugeMetricFamily("lakehouse_paused", "Sources, metrics and models that are paused.", len(shown["paused"]))


def _of_sources(shown: dict[str, Any], now: datetime) -> Iterator[Metric]:
    age = GaugeMetricFamily("lakehouse_arrival_age_seconds", "Seconds since the newest row arrived.", labels=["source"])
    lag = GaugeMetricFamily("lakehouse_watermark_lag_seconds", "Seconds that the watermark is before now.", labels=["source"])
    missing = GaugeMetricFamily("lakehouse_missing_inputs", "What is known to be missing.", labels=["source", "kind"])
    for source in shown["sources"]:
        if source["newest"] is not None:
            age.add_metric([source["name"]], (now - source["newest"]).total_seconds())
        if source["is_set"]:
            lag.add_metric([source["name"]], (now - source["watermark"].watermark).total_seconds())
        for count, noun in source["counts"]:
            missing.add_metric([source["name"], noun.replace(" ", "_")], count)
    waiting = GaugeMetricFamily("lakehouse_reviews_waiting", "Rows that wait for a steward.", labels=["source"])
    late = GaugeMetricFamily("lakehouse_reviews_overdue", "Rows that have waited too long for a steward.", labels=["source"])
    counts = {source: (rows, overdue) for source, rows, overdue in shown["waiting"]}
    for source in shown["sources"]:
        rows, overdue = counts.get(source["name"], (0, 0))
        waiting.add_metric([source["name"]], rows)
        late.add_metric([source["name"]], overdue)
    yield from (age, lag, missing, waiting, late)


def _of_rows(rows: list[LatenessMeasurement]) -> Iterator[Metric]:
    days = f"of the rows of {_MEASURED_DAYS} arrival days"
    lateness = GaugeMetricFamily("lakehouse_lateness_seconds", f"Lateness {days}.", labels=["source", "quantile"])
    dispositions = GaugeMetricFamily("lakehouse_rows", f"Dispositions {days}.", labels=["source", "disposition"])
    late = GaugeMetricFamily("lakehouse_late_rows", "Rows later than the contract expects, of the same days.", labels=["source"])
    for measured in rows:
        late.add_metric([measured.source], measured.late)
        for name, value in (recommendation.percentiles_as_json(measurement.together(measured.types)) or {}).items():
            if name in _QUANTILES and value is not None:
                lateness.add_metric([measured.source, _QUANTILES[name]], value)
        for name, count in sorted(measured.dispositions.items()):
            dispositions.add_metric([measured.source, name], count)
    yield from (lateness, dispositions, late)


def _of_alerts(alerts: list[AlertRecord] | None) -> Iterator[Metric]:
    """The open alerts: failed runs, looks of sensors that fail, silent sources, and all others; none if they cannot be read."""
    if alerts is None:
        return
    family = GaugeMetricFamily("lakehouse_open_alerts", "Open alerts.", labels=["kind", "subject"])
    open_ones = Counter((entry.alert.kind.value, entry.alert.subject) for entry in alerts if entry.resolved_at is None)
    for labels, count in sorted(open_ones.items()):
        family.add_metric(list(labels), count)
    yield family


def _of_sensors(ages: Mapping[str, float]) -> Metric:
    """A sensor that does not tick, because no daemon runs or because its ticks take long, has a growing age."""
    family = GaugeMetricFamily("lakehouse_sensor_age_seconds", "Seconds since the last tick of a sensor.", labels=["sensor"])
    for name, seconds in sorted(ages.items()):
        family.add_metric([name], seconds)
    return family


class OverdueNumbers(NamedTuple):
    """The overdue numbers of a metric: not final although the calendar allows it. ``waiting_for`` is about the oldest one."""

    total: int
    oldest: Period
    waiting_for: list[str]


async def _paused(cache: PublishedCache) -> dict[str, pauses.PauseEvent] | Problem:
    """The pauses that hold, or why they are not known."""
    try:
        return await cache.other("pauses", lambda: pauses.paused(cache.reading))
    except DamagedLogError:
        return Problem(503, "unreadable", "its log is damaged: nobody knows what is paused; the server's log names the file")


async def _card(cache: PublishedCache, metric: MetricContract, *, with_drawing: bool) -> dict[str, Any]:
    published = await cache.published(metric)
    numbers = await run_in_threadpool(_numbers, published, with_drawing=with_drawing)
    newest = numbers["newest"]
    if newest is not None:
        numbers |= await page_views.doubts(cache, published, newest.period, newest.version)
        numbers["closing"] = page_views.closing(published.series, newest, cache.lake.now())
    contract = published.series.metric
    about = {"name": metric.name, "metric": metric, "contract": contract, "overdue": await _overdue(cache, metric.name)}
    return about | numbers


async def _overdue(cache: PublishedCache, name: str) -> OverdueNumbers | None:
    """The overdue numbers of a metric, for every kind of period; None without any."""
    all_published = await cache.all_published([name])
    due = await run_in_threadpool(_due, all_published, cache.lake.now())
    if not due:
        return None
    oldest, published = min(due, key=lambda of: (of[0].last, of[0].start))
    shown = page_views.glance(published, oldest.start)
    waiting_for = [] if shown is None else await cache.waiting_for(published.series, oldest, shown.version)
    return OverdueNumbers(len(due), oldest, waiting_for)


def _due(all_published: list[PublishedSeries], now: datetime) -> list[tuple[Period, PublishedSeries]]:
    """The periods that are not final although the calendar allows it, each with its series."""
    due = []
    for published in all_published:
        terms = published.series.metric.publication
        today = lifecycle.today(now, terms)
        started = published.numbers.open_starts[: bisect_right(published.numbers.open_starts, today)]
        periods = map(published.series.period, started)
        due += [(period, published) for period in periods if lifecycle.state_on(period.last, today, terms) is State.FINAL]
    return due


def _order(card: dict[str, Any]) -> tuple[bool, bool, str]:
    """Metrics with overdue numbers come first, those without a number last; within that by owner."""
    return card["newest"] is None, card["overdue"] is None, card["metric"].owner or ""


def _by_owner(cards: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Consecutive cards of the same owner."""
    return [[*of_owner] for _, of_owner in groupby(cards, key=_order)]


def _groups(cards: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group the cards whose newest numbers become final on the same day and wait for the same: often all of a source."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for card in cards:
        reasons = (card.get("closing"), *card.get("waiting_for", ())) if card["newest"] else None
        groups.setdefault((card["contract"].source, reasons, card["overdue"] is None), []).append(card)
    return list(groups.values())


def _source(observed: ObservedSource) -> dict[str, Any]:
    """A row of the table of sources: watermark, newest arrival, and counts of missing data."""
    state = observed.state
    missing = [
        (len(state.held), "held file"),
        (sum(file.rows for file in state.unread.files), "unread row"),
        (len(state.missing), "incomplete arrival day"),
        (sum(state.undecided.values()), "open review"),
    ]
    return {
        "name": state.contract.dataset,
        "watermark": state.watermark,
        "is_set": state.watermark is not None and state.watermark.watermark != BEGINNING,
        "newest": observed.newest_arrival,
        "counts": missing,
        "missing": [counted(count, noun) for count, noun in missing if count],
    }


def _numbers(published: PublishedSeries, *, with_drawing: bool) -> dict[str, Any]:
    recent = page_views.glances(published, published.numbers.starts[-(_DRAWN if with_drawing else 1) :])
    names = page_views.drawn(published.series, 1)
    spark = None
    if names and len(recent) > 1:
        now = tuple(glance.sides[names[0]].after if names[0] in glance.sides else None for glance in recent)
        spark = page_views.sparkline(tuple(glance.version.state for glance in recent), now)
    return {"newest": recent[-1] if recent else None, "recent": recent, "spark": spark, "drawn": names[0] if names else None}


def _waiting(cache: PublishedCache) -> list[tuple[str, int, int]]:
    """For each source with open rows, their number, and the number of overdue ones."""
    counts = []
    for name in sorted(cache.catalog.sources):
        with suppress(Problem):
            rows = routes.listed(cache, name, StatusFilter.OPEN)
            if rows:
                now = cache.lake.now()
                counts.append((name, len(rows), sum(is_overdue(row, now) for row in rows)))
    return counts
