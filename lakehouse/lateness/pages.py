"""``/page/sources/{name}`` and ``/page/lateness``: a source's watermark against its arrivals, and the lateness of its rows.

The page of a source names the keys that hold the watermark, and known missing data. The page of lateness has the share that a
watermark catches, and the trend by day.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import lru_cache
from heapq import nlargest
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from fastapi import Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse.contracts.source_rules import ProcessingTimeWatermark
from lakehouse.lateness import charts, measurement
from lakehouse.lateness import rules as judging
from lakehouse.lateness.charts import DeliveryPoint, thinned
from lakehouse.lateness.event_watermark import BEGINNING
from lakehouse.ledger import ingestions
from lakehouse.operations.alerts import figures
from lakehouse.operations.alerts.alert import AlertKind
from lakehouse.serving import parameters
from lakehouse.serving.page import PREFIX, respond
from lakehouse.serving.parameters import Day, Parameters, SourceName
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from fastapi import APIRouter

    from lakehouse.contracts import Catalog, SourceContract
    from lakehouse.contracts.source_rules import Tier
    from lakehouse.lake import Lake
    from lakehouse.lateness.measurement import EventTypeLateness, LatenessMeasurement
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.operations.alerts.figures import ArrivalFigure
    from lakehouse.reports.templates import Chart
    from lakehouse.serving.published_cache import ObservedSource, PublishedCache


_CHOICES = (7, 28, 92)
_KEPT = 32
_PERCENTILES = ("p50", "p95", "p99")


class LatenessPageParameters(Parameters):
    """The source, and the arrival days: ``days`` days ``through`` a day, by default the newest."""

    source: Annotated[str | None, Field(pattern=parameters.NAME)] = None
    through: Day | None = None
    days: Annotated[int, Field(ge=1, le=max(_CHOICES))] = 28
    by: Literal["day", "hour"] = "day"


def add_lateness_page(router: APIRouter, cache: PublishedCache) -> None:
    """Add the page."""

    @lru_cache(_KEPT)
    def measured(source: str, first: date, last: date, _version: Hashable) -> dict[str, Any]:
        contract = cache.source(source)
        rows = measurement.measure(cache.lake, contract, first, last)
        return _by_type(contract, rows) | _trend(measurement.by_day(cache.lake, contract, first, last))

    @lru_cache(_KEPT)
    def arrived(source: str, through: date, days: int, by: Literal["day", "hour"], _version: Hashable) -> list[ArrivalFigure]:
        return figures.by_arrival(cache.lake, cache.source(source), through, days, by)

    def page_values(wanted: LatenessPageParameters) -> dict[str, Any]:
        sources = sorted(cache.catalog.sources)
        newest = {name: measurement.newest_arrival(cache.lake, name) for name in sources}
        with_rows = [name for name in sources if newest[name] is not None]
        source = cache.source(wanted.source).dataset if wanted.source else next(iter(with_rows or sources), None)
        about: dict[str, Any] = {"sources": sources, "source": source, "days": wanted.days, "choices": _CHOICES, "by": wanted.by}
        about["through"] = wanted.through
        last = None if source is None else newest[source]
        if source is None or last is None:
            return about | {"found": None, "first": None, "last": None}
        _, through = parameters.span(wanted.through or last, wanted.through or last)
        first, last = measurement.window(through, wanted.days)
        version = measurement.version(cache.lake, source)
        about |= {"found": measured(source, first, last, version), "first": first, "last": last}
        arrivals = arrived(source, last, wanted.days, wanted.by, version)
        return about | _watched(cache.lake, cache.catalog, cache.source(source), arrivals)

    @router.get(PREFIX + "/lateness")
    async def late(request: Request, wanted: Annotated[LatenessPageParameters, Query()]) -> Response:
        return respond(request, "lateness", "lateness", await run_in_threadpool(page_values, wanted))


def _watched(lake: Lake, catalog: Catalog, contract: SourceContract, arrivals: Sequence[ArrivalFigure]) -> dict[str, Any]:
    """The figures that alerts compare with a bound, and these alerts if they are open."""
    names = tuple(one.name for one in arrivals)
    shares = charts.against_bound(
        names, tuple(one.share for one in arrivals), tuple(one.share_bound for one in arrivals), in_percent=True
    )
    hours = [tuple(None if one is None else one / 3600 for one in line) for line in _lags(arrivals)]
    alerts = figures.open_alerts(lake)
    weekly = [each for metric in catalog.metrics_of(contract.dataset) if (each := figures.by_week(lake, catalog, metric))]
    shown = {contract.dataset, *(each.metric for each in weekly)}
    restated = [
        {
            "figure": each,
            "chart": charts.against_bound(tuple(each.weeks), tuple(each.counts), (each.bound,) * len(each.weeks)),
            "open": alerts.get((each.metric, AlertKind.RESTATEMENTS, None)),
        }
        for each in weekly
    ]
    return {
        "arrivals": arrivals,
        "shares": shares,
        "lags": charts.against_bound(names, *hours),
        "late_shares": charts.against_bound(names, _late(arrivals), (None,) * len(names), in_percent=True),
        "tier_shares": [
            {"tier": tier, "chart": chart, "open": alerts.get((contract.dataset, AlertKind.TIER_SHARE, tier.serves))}
            for tier, chart in _tiers(contract, arrivals)
        ],
        "share_alert": alerts.get((contract.dataset, AlertKind.LATE_SHARE, None)),
        "lag_alert": alerts.get((contract.dataset, AlertKind.LAG, None)),
        "open_alerts": [entry for (about, *_), entry in alerts.items() if about in shown],
        "lag_terms": contract.alerts.lag,
        "restated": restated,
    }


def _tiers(contract: SourceContract, arrivals: Sequence[ArrivalFigure]) -> Iterator[tuple[Tier, Chart]]:
    """For each tier with a tolerated share, the shares of rows beyond it against this one."""
    names = tuple(arrival.name for arrival in arrivals)
    for number, tier in enumerate(contract.lateness.judged_tiers.values()):
        shares = tuple(arrival.tiers[number].share if arrival.rows else None for arrival in arrivals)
        yield tier, charts.against_bound(names, shares, (tier.tolerated,) * len(names), in_percent=True)


def _late(arrivals: Sequence[ArrivalFigure]) -> tuple[float | None, ...]:
    return tuple(arrival.unexpected for arrival in arrivals)


def _lags(arrivals: Sequence[ArrivalFigure]) -> list[tuple[float | None, ...]]:
    return [tuple(one.p99 for one in arrivals), tuple(one.p99_bound for one in arrivals)]


def _by_type(contract: SourceContract, measured: LatenessMeasurement) -> dict[str, Any]:
    types = [_type(contract, of_type, measured.next_day) for of_type in measured.largest_first]
    beyond = [line["beyond"] for line in types if line["beyond"] is not None]
    return {
        "rows": measured.rows,
        "late": measured.late,
        "beyond": judging.late_share(sum(beyond), measured.rows) if beyond else None,
        "unclocked": measured.unclocked,
        "historical": measured.historical,
        "contract": contract.lateness,
        "types": types,
        "dispositions": measured.dispositions.most_common(),
        **_source_bounds(contract, measured),
    }


def _type(contract: SourceContract, of_type: EventTypeLateness, day: date) -> dict[str, Any]:
    watermark = contract.lateness.as_of(of_type.event_type, day).watermark
    counts = {"type": of_type.event_type, "rows": of_type.rows, "late": of_type.late, "most": of_type.latest}
    bounds = {"watermark": watermark, "beyond": of_type.beyond(watermark)}
    return counts | judging.percentiles(of_type.seconds, _PERCENTILES) | bounds


def _source_bounds(contract: SourceContract, measured: LatenessMeasurement) -> dict[str, Any]:
    """The rows to which the source's bounds apply; ``own`` has the proposals for event types with separate bounds."""
    seconds, expected = measurement.pools(contract, measured)[None], contract.lateness.expected
    proposals = measurement.proposals(contract, measured)
    proposal = proposals.pop(None)
    watermark, tiers = proposal.current, {tier.within: tier.serves for tier in contract.lateness.tiers}
    bounds = [charts.Bound("expected", f"on time: {format_duration(expected)}", _whole(expected))]
    if watermark is not None:
        bounds.append(charts.Bound("watermark", f"cutoff: {format_duration(watermark)}", _whole(watermark)))
    if proposal.moves and proposal.watermark is not None:
        bounds.append(charts.Bound("asked", f"proposed: {format_duration(proposal.watermark)}", _whole(proposal.watermark)))
    return {
        "own": {kind: of_type for kind, of_type in proposals.items() if of_type.rows},
        "watermark": watermark,
        "proposal": proposal,
        "evidence": judging.evidence(seconds, [watermark, proposal.watermark, expected, *tiers]),
        "tiers": tiers,
        "distribution": charts.distribution(tuple(int(second) for second in seconds), tuple(bounds)) if len(seconds) else None,
        "bounds": bounds,
    }


def _trend(days: dict[date, Any]) -> dict[str, Any]:
    lines = [
        {"day": f"{day}", "rows": len(seconds)} | judging.percentiles(seconds, _PERCENTILES) for day, seconds in days.items()
    ]
    columns = [tuple(line[name] for line in lines) for name in ("day", *_PERCENTILES)]
    return {"trend": lines, "chart": charts.trend(*columns) if lines else None}


def _whole(bound: timedelta) -> int:
    return int(bound.total_seconds())


_SOURCE_CHOICES = (2, 7, 28, 92)
#: The numbers of deliveries in the table, of files and sentences in the lists of missing data, and of points in the chart.
_NEWEST, _LISTED, _DRAWN = 12, 20, 150
_HOUR = timedelta(hours=1)


class SourcePageParameters(Parameters):
    """The number of days in the chart."""

    days: Annotated[int, Field(ge=1, le=max(_SOURCE_CHOICES))] = 7


class RecentDelivery(NamedTuple):
    """A recorded delivery, the watermark after it, and whether it moved the watermark; None without a watermark."""

    entry: Ingestion
    watermark: datetime | None
    moved: bool


def add_source_page(router: APIRouter, cache: PublishedCache) -> None:
    """Add the page."""

    @router.get(PREFIX + "/sources/{name}")
    async def source(request: Request, name: SourceName, wanted: Annotated[SourcePageParameters, Query()]) -> Response:
        contract, observed = cache.source(name), await cache.observed(name)
        values = await run_in_threadpool(page_values, observed, cache.lake.now(), wanted.days)
        metrics = cache.catalog.metrics_from(name)
        about: dict[str, Any] = {"metrics": sorted(metric.name for metric in metrics), "choices": _SOURCE_CHOICES}
        about |= {"source": contract.dataset, "contract": contract, "days": wanted.days, "listed": _LISTED}
        return respond(request, "source", "sources", about | values)


def page_values(observed: ObservedSource, now: datetime, days: int) -> dict[str, Any]:
    """The values of a source for the page.

    :param days: the number of days in the chart.
    """
    state, watermark = observed.state, observed.state.watermark
    is_set = watermark is not None and watermark.watermark != BEGINNING
    points = _points(observed)
    return {
        "now": now,
        "watermark": watermark,
        "stands": watermark.watermark if watermark is not None and is_set else None,
        "newest": points[-1].arrived if points else None,
        "held": sorted(state.held, key=lambda entry: (entry.arrival_date, entry.source_file)),
        "missing": state.missing,
        "unread": state.unread.files,
        "undecided": sum(state.undecided.values()),
        "undecided_days": len(state.undecided),
        "recent": _recent(observed),
        "deliveries": len(observed.deliveries),
        **_drawn(observed, points, now, days),
    }


def _points(observed: ObservedSource) -> list[DeliveryPoint]:
    """The ingested deliveries in order of arrival."""
    watermark = observed.state.watermark
    if watermark is not None:
        return [DeliveryPoint(step.arrived, step.delivery.newest_event, _known(step.watermark)) for step in watermark.steps]
    entries = ingestions.ingested(observed.deliveries).values()
    return sorted(
        (DeliveryPoint(entry.newest_arrival, entry.newest_event, None) for entry in entries if entry.newest_arrival is not None),
        key=lambda point: point.arrived,
    )


def _recent(observed: ObservedSource) -> list[RecentDelivery]:
    """The newest recorded deliveries, newest first."""
    newest = nlargest(_NEWEST, enumerate(observed.deliveries), key=lambda numbered: (numbered[1].recorded_at, numbered[0]))
    ids = {entry.ingestion_id for _, entry in newest if entry.status == "ingested"}
    steps = observed.state.watermark.steps if observed.state.watermark is not None else []
    after = {
        step.delivery.ingestion_id: (_known(step.watermark), step.watermark > before)
        for before, step in zip([BEGINNING, *(step.watermark for step in steps)], steps)
        if step.delivery.ingestion_id in ids
    }
    nothing = (None, False)
    return [
        RecentDelivery(entry, *(after.get(entry.ingestion_id, nothing) if entry.status == "ingested" else nothing))
        for _, entry in newest
    ]


def _drawn(observed: ObservedSource, points: Sequence[DeliveryPoint], now: datetime, days: int) -> dict[str, Any]:
    """The chart of the days until now; for a long silent source, of its last days and the time since."""
    strategy = None if observed.state.watermark is None else observed.state.watermark.strategy
    delay = strategy.delay if isinstance(strategy, ProcessingTimeWatermark) else None
    if not points:
        return {"chart": None, "drawn": [], "silent": None, "follows_clock": delay is not None}
    newest, span = points[-1].arrived, timedelta(days=days)
    end = _next_hour(max(newest, min(now, newest + span / 2)))
    start = max(end - span, points[0].arrived - _HOUR)
    within = [point for point in points if point.arrived >= start]
    earlier = next((point.watermark for point in reversed(points) if point.arrived < start), None)
    edges = (earlier, points[-1].watermark) if delay is None else (start - delay, end - delay)
    drawn = thinned(within, _DRAWN)
    line = (DeliveryPoint(start, None, edges[0]), *drawn, DeliveryPoint(end, None, edges[1]))
    return {
        "chart": charts.watermark(line, start, end, follows_clock=delay is not None),
        "drawn": drawn,
        "of": len(within),
        "silent": end if now - end > _HOUR else None,
        "follows_clock": delay is not None,
    }


def _known(watermark: datetime) -> datetime | None:
    return None if watermark == BEGINNING else watermark


def _next_hour(moment: datetime) -> datetime:
    """The full hour after a time, so that a drawn chart can be reused for an hour."""
    return moment.replace(minute=0, second=0, microsecond=0) + _HOUR
