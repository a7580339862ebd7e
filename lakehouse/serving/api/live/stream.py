"""``/metrics/{name}/stream``: the status and speed of a metric's stream, and the state of its open windows.

The response models are in this module, too.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse.live import status, window_state
from lakehouse.serving.api.models import Shape
from lakehouse.serving.http import responses
from lakehouse.serving.http.parameters import MetricName, NoParameters
from lakehouse.serving.http.problems import Problem

if TYPE_CHECKING:
    from lakehouse.contracts import MetricContract
    from lakehouse.serving.http.published_cache import PublishedCache

_COUNTS = {"created": 180, "fired": 168, "cleaned": 168}
#: Example responses for the OpenAPI document, by path.
EXAMPLES: dict[str, Any] = {
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


def routes(cache: PublishedCache) -> APIRouter:
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
    known = status.of(cache.settings, metric.name)
    if known is None:
        return None
    fields = {name: getattr(known, name) for name in StreamModel.model_fields if hasattr(known, name)}
    state = asdict(window_state.of(cache.settings, metric, known))
    return fields | {"status": known.state, "late_rows": known.dropped, "window_state": state}
