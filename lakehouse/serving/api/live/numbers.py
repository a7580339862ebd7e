"""``version=live`` of ``/metrics/{name}`` and ``/metrics/{name}/series``: numbers of the speed layer.

The response models are in this module, too. Live numbers are not versions of published numbers, and no version selector returns
them.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from lakehouse.calendar.periods import Kind
from lakehouse.gold.numbers import window_history
from lakehouse.live import layers, table
from lakehouse.live.layers import NumberLayer
from lakehouse.serving.api.models import Row, Shape, WindowModel
from lakehouse.serving.http import responses
from lakehouse.serving.http.problems import Problem
from lakehouse.text import json_value

if TYPE_CHECKING:
    from lakehouse.calendar.periods import Period
    from lakehouse.contracts import MetricContract
    from lakehouse.serving.http.responses import JsonObject
    from lakehouse.settings import Settings

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
_METRIC = {"metric": "orders_by_hour", "series": "orders_by_hour"}
_DAYS = {"window": "2024-11-07", "first_day": "2024-11-07", "last_day": "2024-11-07"}
#: Examples of live responses for the OpenAPI document, by path, in addition to those of published numbers.
EXAMPLES: dict[str, JsonObject] = {
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


def number(settings: Settings, metric: MetricContract, period: Period, start: datetime | None, first: int) -> JsonObject:
    """The live numbers of a day, or of one of its windows.

    :param start: the first moment of the window; None for the day.
    :param first: the position of the first row in ``result``.
    :raises Problem: if the metric is not live, the period is not a day, or the stream has no number for the day.
    """
    check_live(metric)
    check_kind(metric, period.kind)
    rows = layers.live_rows(settings, metric, [period.start])
    if not rows:
        detail = (
            f"the stream of {metric.name} has no number of {period.name}: it has not read that day, or the day is closed and its "
            f"live numbers have expired; GET /metrics/{metric.name}?window={period.name} returns the published number"
        )
        raise Problem(404, "no-live-numbers", detail)
    rows = rows if start is None else window_history.rows_of(rows, start)
    more = first + responses.MOST_ROWS
    return {"layer": LIVE, **_content(metric, rows, first), "next_row_offset": more if more < len(rows) else None}


def points(settings: Settings, metric: MetricContract, span: tuple[date, date], kind: Kind, limit: int) -> JsonObject:
    """The days of ``span`` with live numbers, as many as fit on a page, and the start of the next page.

    :raises Problem: if the metric is not live, or the kind of period is not the day.
    """
    check_live(metric)
    check_kind(metric, kind)
    days = [day for day in table.days(settings, metric) if span[0] <= day <= span[1]]
    shown: list[JsonObject] = []
    total = 0
    for day in days[:limit]:
        rows = layers.live_rows(settings, metric, [day])
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
