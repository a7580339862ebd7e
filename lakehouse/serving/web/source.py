"""``/page/sources/{name}``: a source's watermark against its arrivals, the keys that hold it, and known missing data."""

from __future__ import annotations

from datetime import datetime, timedelta
from heapq import nlargest
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fastapi import Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse.contracts.source_rules import ProcessingTimeWatermark
from lakehouse.lateness.event_watermark import BEGINNING
from lakehouse.ledger import ingestions
from lakehouse.serving.http.parameters import Parameters, SourceName
from lakehouse.serving.web.charts import watermark as charts
from lakehouse.serving.web.charts.watermark import DeliveryPoint, thinned
from lakehouse.serving.web.page import PREFIX, respond

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import APIRouter

    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.serving.http.observed_source import ObservedSource
    from lakehouse.serving.http.published_cache import PublishedCache

_CHOICES = (2, 7, 28, 92)
#: The numbers of deliveries in the table, of files and sentences in the lists of missing data, and of points in the chart.
_NEWEST, _LISTED, _DRAWN = 12, 20, 150
_HOUR = timedelta(hours=1)


class SourcePageParameters(Parameters):
    """The number of days in the chart."""

    days: Annotated[int, Field(ge=1, le=max(_CHOICES))] = 7


class RecentDelivery(NamedTuple):
    """A recorded delivery, the watermark after it, and whether it moved the watermark; None without a watermark."""

    entry: Ingestion
    watermark: datetime | None
    moved: bool


def add(router: APIRouter, cache: PublishedCache) -> None:
    """Add the page."""

    @router.get(PREFIX + "/sources/{name}")
    async def source(request: Request, name: SourceName, wanted: Annotated[SourcePageParameters, Query()]) -> Response:
        contract, observed = cache.source(name), await cache.observed(name)
        values = await run_in_threadpool(page_values, observed, cache.settings.clock(), wanted.days)
        metrics = cache.catalog.metrics_from(name)
        about: dict[str, Any] = {"metrics": sorted(metric.name for metric in metrics), "choices": _CHOICES}
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
