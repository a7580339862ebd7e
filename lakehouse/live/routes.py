"""The routes of the speed layer: the status of a metric's stream, live numbers, numbers by layer, and the causes of differences.

``/metrics/{name}/stream`` has the status and speed of a stream, and the state of its open windows. ``version=live`` of
``/metrics/{name}`` and ``/metrics/{name}/series`` gives live numbers; ``/metrics/{name}/layers`` and
``/metrics/{name}/reconciliation`` give numbers by layer and the differences between the layers. The response models are in this
module, too.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse.calendar.periods import Kind
from lakehouse.gold.numbers import window_history
from lakehouse.live import batches, status, table
from lakehouse.live.table import LayerChoice, NumberLayer
from lakehouse.serving import responses
from lakehouse.serving.models import Row, Shape, State, WindowModel
from lakehouse.serving.parameters import Day, MetricName, NoParameters, Parameters
from lakehouse.serving.responses import Problem
from lakehouse.text import json_value

if TYPE_CHECKING:
    from lakehouse.calendar.periods import Period
    from lakehouse.contracts import MetricContract
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.lake import Lake
    from lakehouse.serving.published_cache import PublishedCache, PublishedSeries
    from lakehouse.serving.responses import JsonObject


LIVE = NumberLayer.LIVE.value
#: The label of a live number. It differs from the label of the state ``live``, which a published number may have.
LABEL = "Live (stream)"
_CONTENT: dict[str, Any] = {
    "version": LIVE,
    "revision": None,
    "state": None,
    "label": LABEL,
    "is_final": False,
    "result": [{"window_start": "2024-11-07T09:00:00Z", "orders": 61, "row_count": 61}],
    "total_rows": 1,
    "event_count": 61,
    "computed_at": "2024-11-07T09:31:02Z",
    "watermark": "2024-11-07T09:20:00Z",
}
_METRIC = {"metric": "orders_by_hour", "series": "orders_by_hour", "deprecated_on": None}
_DAYS = {"window": "2024-11-07", "first_day": "2024-11-07", "last_day": "2024-11-07"}
#: Examples of live responses for the OpenAPI document, by path, in addition to those of published numbers.
NUMBER_EXAMPLES: dict[str, JsonObject] = {
    "/metrics/{name}": {**_METRIC, **_DAYS, "layer": LIVE, **_CONTENT, "next_row_offset": None},
    "/metrics/{name}/series": {
        **_METRIC,
        "layer": LIVE,
        "version": LIVE,
        "points": [{**_DAYS, **_CONTENT}],
        "next_start": None,
    },
}


class LiveContentModel(Shape):
    """Rows of the stream. They have no revision and no state, and are never final."""

    version: Literal["live"]
    revision: None
    state: None
    label: Literal["Live (stream)"]
    is_final: Literal[False]
    result: list[Row] = Field(description="By window and grain; 10,000 at most.")
    total_rows: int
    event_count: int = Field(description="The number of rows of Bronze that the stream has counted.")
    computed_at: datetime | None = Field(description="When the newest of the rows was written; null if there are no rows.")
    watermark: datetime | None = Field(description="Windows that end by then no longer change.")


class LiveNumberModel(WindowModel, LiveContentModel):
    """A day, or a window of a day, from the stream."""

    layer: Literal["live"]
    next_row_offset: int | None = Field(description="The row_offset that returns the next rows of result; null at the end.")


class LivePointModel(LiveContentModel):
    """A day of a series from the stream."""

    window: str
    first_day: date
    last_day: date


class LivePointsModel(Shape):
    """A series of days from the stream; days without live numbers are left out."""

    metric: str
    series: str
    deprecated_on: date | None
    layer: Literal["live"]
    version: Literal["live"]
    points: list[LivePointModel]
    next_start: date | None = Field(description="The start that returns the next days; null at the end.")


def check_live(metric: MetricContract) -> None:
    """Check that a metric has a speed layer.

    :raises Problem: if the metric has no speed layer.
    """
    if metric.live is None:
        detail = (
            f"{metric.name} has no live numbers, because its contract does not have 'live: true'; "
            f"GET /metrics/{metric.name} without 'version' returns the newest published number"
        )
        raise Problem(404, "not-live", detail)


def check_kind(metric: MetricContract, kind: Kind) -> None:
    """Check that the speed layer has periods of ``kind``: it has only days.

    :raises Problem: if the kind is not the day.
    """
    if kind is not Kind.DAY:
        detail = (
            f"live numbers are numbers of days and of their windows, and not of a {kind.value}; "
            f"GET /metrics/{metric.name}/series?start=...&end=...&version=live returns consecutive days"
        )
        raise Problem(404, "not-live", detail)


def number(lake: Lake, metric: MetricContract, period: Period, start: datetime | None, first: int) -> JsonObject:
    """The live numbers of a day, or of one of its windows.

    :param start: the first moment of the window; None for the day.
    :param first: the position of the first row in ``result``.
    :raises Problem: if the metric is not live, the period is not a day, or the stream has no number for the day.
    """
    check_live(metric)
    check_kind(metric, period.kind)
    rows = table.live_rows(lake, metric, [period.start])
    if not rows:
        detail = (
            f"the stream of {metric.name} has no number of {period.name}: it has not read that day, or the day is closed and its "
            f"live numbers have expired; GET /metrics/{metric.name}?window={period.name} returns the published number"
        )
        raise Problem(404, "no-live-numbers", detail)
    rows = rows if start is None else window_history.rows_of(rows, start)
    more = first + responses.MOST_ROWS
    return {"layer": LIVE, **_content(metric, rows, first), "next_row_offset": more if more < len(rows) else None}


def points(lake: Lake, metric: MetricContract, span: tuple[date, date], kind: Kind, limit: int) -> JsonObject:
    """The days of ``span`` with live numbers, as many as fit on a page, and the start of the next page.

    :raises Problem: if the metric is not live, or the kind of period is not the day.
    """
    check_live(metric)
    check_kind(metric, kind)
    days = [day for day in table.days(lake, metric) if span[0] <= day <= span[1]]
    shown: list[JsonObject] = []
    total = 0
    for day in days[:limit]:
        rows = table.live_rows(lake, metric, [day])
        total += len(rows)
        if shown and total > responses.MOST_ROWS:
            break
        shown.append({"window": f"{day}", "first_day": day, "last_day": day, **_content(metric, rows, 0)})
    following = days[len(shown) :]
    return {"layer": LIVE, "version": LIVE, "points": shown, "next_start": following[0] if following else None}


def _content(metric: MetricContract, rows: list[dict[str, Any]], first: int) -> JsonObject:
    names = [*metric.grain, *(measure.name for measure in metric.measures), "row_count"]
    return {
        "version": LIVE,
        "revision": None,
        "state": None,
        "label": LABEL,
        "is_final": False,
        "result": [{name: json_value(row[name]) for name in names} for row in rows[first : first + responses.MOST_ROWS]],
        "total_rows": len(rows),
        "event_count": sum(row["row_count"] or 0 for row in rows),
        "computed_at": max((row["updated_at"] for row in rows), default=None),
        "watermark": max((row["watermark"] for row in rows if row["watermark"]), default=None),
    }


#: Example responses for the OpenAPI document, by path.
LAYER_EXAMPLES: dict[str, Any] = {
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


def layer_routes(cache: PublishedCache) -> APIRouter:
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
            check_live(metric)
        published = await cache.published(metric, Kind.DAY)
        body = await run_in_threadpool(_day, cache, metric, published, wanted)
        return responses.respond(request, body)

    @router.get("/{name}/reconciliation", response_model=ReconciliationModel, summary="Why live numbers and books differ")
    async def reconciliation(
        request: Request, name: MetricName, wanted: Annotated[ReconciliationParameters, Query()]
    ) -> Response:
        """The newest reconciliation of a day: each number in both layers, the difference, and its causes by name."""
        metric = cache.metric(name)
        entries = await run_in_threadpool(batches.newest_reconciliation, cache.lake, metric.name, wanted.day)
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
    live = table.live_rows(cache.lake, metric, [wanted.day])
    layer = table.chosen(wanted.layer, books.state if books else None, has_live=bool(live))
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
    return versions.version(published.series, versions.newest_revision) if versions else None


_COUNTS = {"created": 180, "fired": 168, "cleaned": 168}
#: Example responses for the OpenAPI document, by path.
STREAM_EXAMPLES: dict[str, Any] = {
    "/metrics/{name}/stream": {
        "metric": "orders_by_hour",
        "status": "running",
        "started_at": "2024-11-07T06:00:00Z",
        "batch": 812,
        "batch_at": "2024-11-07T09:31:02Z",
        "watermark": "2024-11-07T09:20:00Z",
        "input_rate": 61.5,
        "processing_rate": 240.0,
        "batch_milliseconds": 1250,
        "rows_read": 20310,
        "late_rows": 4,
        "problem": None,
        "window_state": {
            "open_windows": 2,
            "keys": 6,
            "rows": 12,
            "bytes": 4210,
            "windows": _COUNTS,
            "timers": _COUNTS,
            "events": {"created": 20306, "fired": 19880, "cleaned": 19880},
        },
    },
}


class StateCountsModel(Shape):
    """Counts over the life of a kind of object, for the live numbers that are kept."""

    created: int
    fired: int = Field(description="Those whose end the watermark has passed.")
    cleaned: int = Field(description="Those that are gone from the state.")


class WindowStateModel(Shape):
    """The state of the open windows, as of the last reported batch."""

    open_windows: int
    keys: int = Field(description="Values of the grain that have an open window.")
    rows: int = Field(description="Of Spark's state store.")
    bytes: int
    windows: StateCountsModel = Field(description="Windows of each key.")
    timers: StateCountsModel = Field(description="Their ends.")
    events: StateCountsModel = Field(description="Rows that were added up in them.")


class StreamModel(Shape):
    """The stream of a metric. Rates are rows per second of the last batch with rows."""

    metric: str
    status: Literal["running", "stopped", "failed", "killed"]
    started_at: datetime
    batch: int = Field(description="The batch that was reported last; -1 before the first.")
    batch_at: datetime | None
    watermark: datetime | None
    input_rate: float
    processing_rate: float
    batch_milliseconds: int
    rows_read: int = Field(description="Rows of Bronze since the stream was started.")
    late_rows: int = Field(description="Late rows since the stream was started, by Spark's count.")
    problem: str | None = Field(description="Why it has failed.")
    window_state: WindowStateModel


def stream_routes(cache: PublishedCache) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(prefix="/metrics", tags=["metrics"])

    @router.get("/{name}/stream", response_model=StreamModel, summary="The stream of live numbers and its state")
    async def stream(request: Request, name: MetricName, _: NoParameters) -> Response:
        """The status of the stream, its speed, and the size of the state of its open windows."""
        metric = cache.metric(name)
        body = await run_in_threadpool(_stream, cache, metric) if metric.live else None
        if body is None:
            raise Problem(404, "not-live", f"{name} has no speed layer, or its stream never ran")
        return responses.respond(request, body)

    return router


def _stream(cache: PublishedCache, metric: MetricContract) -> dict[str, Any] | None:
    known = status.of(cache.lake, metric.name)
    if known is None:
        return None
    fields = {name: getattr(known, name) for name in StreamModel.model_fields if hasattr(known, name)}
    state = asdict(status.window_state_of(cache.lake, metric, known))
    return fields | {"status": known.state, "late_rows": known.dropped, "window_state": state}
