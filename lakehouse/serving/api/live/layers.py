"""``/metrics/{name}/layers`` and ``/metrics/{name}/reconciliation``: numbers by layer, and the causes of differences between the
layers.

The response models are in this module, too.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse.calendar.periods import Kind
from lakehouse.live import layers
from lakehouse.live.layers import LayerChoice, NumberLayer
from lakehouse.live.reconciliation import log
from lakehouse.serving.api.live import numbers
from lakehouse.serving.api.models import Row, Shape, State
from lakehouse.serving.http import responses
from lakehouse.serving.http.parameters import Day, MetricName, Parameters
from lakehouse.serving.http.problems import Problem
from lakehouse.text import json_value

if TYPE_CHECKING:
    from lakehouse.contracts import MetricContract
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.serving.http.published_cache import PublishedCache, PublishedSeries

#: Example responses for the OpenAPI document, by path.
EXAMPLES: dict[str, Any] = {
    "/metrics/{name}/layers": {
        "metric": "orders_by_hour",
        "day": "2024-11-07",
        "layer": "live",
        "state": None,
        "version": None,
        "rows": [{"window_start": "2024-11-07T09:00:00Z", "orders": 61, "row_count": 61}],
        "total_rows": 1,
        "updated_at": "2024-11-07T09:31:02Z",
        "watermark": "2024-11-07T09:20:00Z",
    },
    "/metrics/{name}/reconciliation": {
        "metric": "orders_by_hour",
        "day": "2024-11-07",
        "reconciled_at": "2024-11-09T00:21:00Z",
        "number": 1,
        "revision": 3,
        "differences": [
            {
                "window_start": "2024-11-07T09:00:00Z",
                "grain": {},
                "measure": "orders",
                "live": "61",
                "books": "64",
                "difference": "3",
                "causes": {"late_dropped": "4", "duplicate": "-1"},
                "is_closed": True,
                "exceeds": False,
            }
        ],
        "total_rows": 1,
    },
}
_ROW_OFFSET = Annotated[int, Field(ge=0, le=10_000_000, description="The number of rows to skip.")]


class LayerParameters(Parameters):
    """The day and the layer to return."""

    day: Day
    layer: Annotated[
        LayerChoice,
        Query(description="live: the stream; books: what is published; merged: books where closed, live behind them."),
    ] = LayerChoice.MERGED
    row_offset: _ROW_OFFSET = 0


class ReconciliationParameters(Parameters):
    """The day whose reconciliation is returned."""

    day: Day
    row_offset: _ROW_OFFSET = 0


class LayersModel(Shape):
    """The numbers of a day, all from one layer."""

    metric: str
    day: date
    layer: NumberLayer = Field(
        description="Where all rows are from. Not to be confused with the state 'live' of a published number."
    )
    state: State | None = Field(description="The state of the published number; null for live numbers, which have none.")
    version: str | None = Field(description="The revision of the published number; null for live numbers.")
    rows: list[Row] = Field(description="By window and grain; 10,000 at most.")
    total_rows: int
    updated_at: datetime | None = Field(description="When the newest of the numbers was written.")
    watermark: datetime | None = Field(description="Of live numbers: windows that end by then no longer change.")


class DifferenceModel(Shape):
    """A measure of a window in both layers. Numbers are exact, as text."""

    window_start: datetime | None
    grain: Row
    measure: str
    live: str | None
    books: str | None
    difference: str
    causes: dict[str, str] = Field(description="They add up to the difference.")
    is_closed: bool = Field(description="Whether the watermark of the stream had passed the window.")
    exceeds: bool = Field(description="Whether the difference is beyond the threshold of the contract.")


class ReconciliationModel(Shape):
    """The newest reconciliation of a day."""

    metric: str
    day: date
    reconciled_at: datetime
    number: int = Field(description="How many reconciliations of the day have said something new.")
    revision: int = Field(description="The published revision that it compares; 0 if nothing was published.")
    differences: list[DifferenceModel] = Field(description="By window, grain and measure; 10,000 at most.")
    total_rows: int


def routes(cache: PublishedCache) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(prefix="/metrics", tags=["metrics"])

    @router.get("/{name}/layers", response_model=LayersModel, summary="A day from the stream, or as published")
    async def by_layer(request: Request, name: MetricName, wanted: Annotated[LayerParameters, Query()]) -> Response:
        """The newest numbers of a day from one layer, and the name of that layer.

        With `layer=merged` (the default), the day comes from the published numbers once its number there is preliminary or final,
        and from the stream until then. Use `/metrics/{name}` for earlier versions of published numbers.
        """
        metric = cache.metric(name)
        if wanted.layer is LayerChoice.LIVE:
            numbers.check_live(metric)
        published = await cache.published(metric, Kind.DAY)
        body = await run_in_threadpool(_day, cache, metric, published, wanted)
        return responses.respond(request, body)

    @router.get("/{name}/reconciliation", response_model=ReconciliationModel, summary="Why live numbers and books differ")
    async def reconciliation(
        request: Request, name: MetricName, wanted: Annotated[ReconciliationParameters, Query()]
    ) -> Response:
        """The newest reconciliation of a day: each number in both layers, the difference, and its causes by name."""
        metric = cache.metric(name)
        entries = await run_in_threadpool(log.newest, cache.settings, metric.name, wanted.day)
        if not entries:
            raise Problem(404, "not-reconciled", f"{name} has not been reconciled for {wanted.day}")
        shown = entries[wanted.row_offset : wanted.row_offset + responses.MOST_ROWS]
        fields = DifferenceModel.model_fields
        head = {field: getattr(entries[0], field) for field in ("metric", "day", "reconciled_at", "number", "revision")}
        differences = [{field: getattr(entry, field) for field in fields} for entry in shown]
        return responses.respond(request, head | {"differences": differences, "total_rows": len(entries)})

    return router


def _day(cache: PublishedCache, metric: MetricContract, published: PublishedSeries, wanted: LayerParameters) -> dict[str, Any]:
    books = _newest(published, wanted.day)
    live = layers.live_rows(cache.settings, metric, [wanted.day])
    layer = layers.chosen(wanted.layer, books.state if books else None, has_live=bool(live))
    names = [*metric.grain, *(measure.name for measure in metric.measures), "row_count"]
    is_live = layer is NumberLayer.LIVE
    rows = live if is_live else books.rows if books else []
    shown = rows[wanted.row_offset : wanted.row_offset + responses.MOST_ROWS]
    written = max((row["updated_at"] for row in live), default=None) if is_live else books.published_at if books else None
    marks = [row["watermark"] for row in live if row["watermark"]] if is_live else []
    return {
        "metric": metric.name,
        "day": wanted.day,
        "layer": layer.value,
        "state": None if is_live or books is None else books.state.value,
        "version": None if is_live or books is None else books.label,
        "rows": [{name: json_value(row[name]) for name in names} for row in shown],
        "total_rows": len(rows),
        "updated_at": written,
        "watermark": max(marks, default=None),
    }


def _newest(published: PublishedSeries, day: date) -> PublishedVersion | None:
    """The newest revision of a day; None if nothing is published for the day."""
    versions = published.numbers.periods.get(day)
    summaries = [summary for summary in versions.summaries if summary.adjustment is None] if versions else []
    return versions.version(published.series, summaries[-1]) if versions and summaries else None
