"""``/metrics/{name}/late-events`` and ``/sources/{source}/late-events``: the counts of late rows, and their treatment.

The response models, and examples of the responses for the OpenAPI document, are in this module, too.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse.gold.numbers import served_version
from lakehouse.gold.publication import late_at_close
from lakehouse.late_events import counters, late_rows
from lakehouse.serving import responses
from lakehouse.serving.models import Shape
from lakehouse.serving.parameters import Day, Flag, Limit, MetricName, NoParameters, Offset, Parameters, SourceName
from lakehouse.serving.responses import Problem
from lakehouse.text import with_earlier_names

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog, MetricContract
    from lakehouse.lake import Lake
    from lakehouse.serving.published_cache import PublishedCache


_COUNTS = {
    "metric": "orders_by_hour",
    "rows": 12_060,
    "on_time": 11_700,
    "late_accepted": 330,
    "late_dropped": 30,
    "late_counted_at_close": 18,
    "late_not_counted": 12,
    "historical": 0,
    "on_time_rate": 0.970149,
    "late_accepted_rate": 0.027363,
    "late_dropped_rate": 0.002488,
    "late_counted_at_close_rate": 0.001493,
    "late_not_counted_rate": 0.000995,
}
#: By path of a route.
EXAMPLES = {
    "/metrics/{name}/late-events": {
        **_COUNTS,
        "source": "sales",
        "action": "recompute",
        "at_close": "include",
        **with_earlier_names({"grace_seconds": 300}),
        "total": 1,
        "late_rows": [
            {
                "ingestion_id": "3f2a9c1b7d4e5f60",
                "line_number": 17,
                "record_key": "order-4711",
                "event_ts": "2024-11-07T13:41:10Z",
                "event_date": "2024-11-07",
                "arrival_ts": "2024-11-07T16:20:00Z",
                "lateness_seconds": 9_530.0,
                "watermark": "2024-11-07T15:58:00Z",
                "window_end": "2024-11-07T14:00:00Z",
                "action": "side_output",
                "reason": "dropped_beyond_tolerance",
                "counts": False,
                "windows": ["2024-11-07T13"],
                "counted_at_close": False,
            }
        ],
    },
    "/sources/{source}/late-events": {
        "source": "sales",
        "total": _COUNTS | {"metric": "sales"},
        "metrics": [_COUNTS],
    },
}


class LateCountsModel(Shape):
    """Well-formed rows by punctuality, and their shares."""

    metric: str
    rows: int
    on_time: int
    late_accepted: int = Field(description="Rows that came after their window and counted at once, or that a steward admitted.")
    late_dropped: int = Field(
        description="Rows that came too late to count at once: late_counted_at_close and late_not_counted together."
    )
    late_counted_at_close: int = Field(description="Rows that came too late, and count since their days are closed.")
    late_not_counted: int = Field(description="Rows that do not count: they wait for the close of their days, or never count.")
    historical: int = Field(description="Rows that a backfill plan brought; they are not among the others.")
    on_time_rate: float
    late_accepted_rate: float
    late_dropped_rate: float
    late_counted_at_close_rate: float
    late_not_counted_rate: float


class LateRowModel(Shape):
    """A row that arrived after its window."""

    ingestion_id: str
    line_number: int
    record_key: str | None
    event_ts: datetime | None
    event_date: date | None
    arrival_ts: datetime
    lateness_seconds: float | None = Field(description="Arrival less event.")
    watermark: datetime = Field(description="The watermark of the source when the row came.")
    window_end: datetime = Field(description="The end of the last window that the row lies in.")
    action: str = Field(description="drop, side_output, update or recompute; admit by a steward's decision.")
    reason: str = Field(description="late_within_tolerance or dropped_beyond_tolerance.")
    counts: bool = Field(description="Whether the row counts before its day is closed; see counted_at_close.")
    windows: list[str]
    counted_at_close: bool = Field(description="Whether it did not count, and does now that its day is closed.")


class MetricLateEventsModel(LateCountsModel):
    """The late events of a metric. `late_rows` lists the newest arrivals first; `total` is the number of all late rows."""

    source: str
    action: str
    at_close: str = Field(description="include or exclude: whether the rows that do not count do once their day is final.")
    grace_seconds: float = Field(description="How far the watermark may be past the end of a window for its rows to count.")
    allowed_lateness_seconds: float = Field(deprecated=True, description="The earlier name of grace_seconds.")
    total: int
    late_rows: list[LateRowModel]


class SourceLateEventsModel(Shape):
    """The late events of each metric of a source, and their totals."""

    source: str
    total: LateCountsModel
    metrics: list[LateCountsModel]


class LateEventsParameters(Parameters):
    """The late rows to list."""

    day: Day | None = Field(None, description="Only rows of this event day.")
    dropped: Flag = Field(False, description="Only rows that do not count, late_not_counted.")
    limit: Limit = 100
    offset: Offset = 0


def routes(cache: PublishedCache) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(tags=["late events"])

    @router.get("/metrics/{name}/late-events", response_model=MetricLateEventsModel, summary="The late events of a metric")
    async def of_metric(request: Request, name: MetricName, wanted: Annotated[LateEventsParameters, Query()]) -> Response:
        """The numbers of rows on time, late and accepted, and late and dropped; and the late rows, newest arrivals first."""
        metric = cache.metric(name)
        if metric.late_events is None:
            raise Problem(404, "no-late-events", f"the contract of {name} has no late_events: every row counts")
        return responses.respond(request, await run_in_threadpool(_of_metric, cache.lake, cache.catalog, metric, wanted))

    @router.get("/sources/{source}/late-events", response_model=SourceLateEventsModel, summary="The late events of a source")
    async def of_source(request: Request, source: SourceName, _: NoParameters) -> Response:
        """The counts for each metric of the source that has late events. A row counts once for each of these metrics."""
        contract = cache.source(source)

        def body() -> dict[str, Any]:
            late = [metric for metric in cache.catalog.metrics_of(contract.dataset) if metric.late_events]
            dailies = [served_version.daily(cache.lake, cache.catalog, metric) for metric in late]
            counts = [late_at_close.counts(cache.lake, *of) for of in zip(dailies, late)]
            total = counters.total(counts, contract.dataset)
            return {"source": source, "total": total.as_json(), "metrics": [entry.as_json() for entry in counts]}

        return responses.respond(request, await run_in_threadpool(body))

    return router


def _of_metric(lake: Lake, catalog: Catalog, metric: MetricContract, wanted: LateEventsParameters) -> dict[str, Any]:
    terms = metric.late_events
    assert terms is not None  # noqa: S101 (the route has looked)
    where: dict[str, Any] = {"metric": [metric.name]} | ({"event_date": [wanted.day]} if wanted.day else {})
    daily = served_version.daily(lake, catalog, metric)
    rows = late_at_close.with_close(lake, daily, late_rows.read(lake, metric.source, where))
    rows = late_at_close.not_counted(rows) if wanted.dropped else rows
    by = [("arrival_ts", "descending"), ("ingestion_id", "ascending"), ("line_number", "ascending")]
    page = rows.sort_by(by).slice(wanted.offset, wanted.limit).select([*late_rows.SHOWN, "counted_at_close"])
    return {
        **late_at_close.counts(lake, daily, metric).as_json(),
        "source": metric.source,
        "action": terms.action.value,
        "at_close": terms.at_close.value,
        **with_earlier_names({"grace_seconds": terms.allowed_lateness.total_seconds()}),
        "total": len(rows),
        "late_rows": page.to_pylist(),
    }
