"""``/page/metrics/{name}``: consecutive periods of a metric, with final, preliminary and live numbers distinguished."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from lakehouse.calendar.periods import Kind
from lakehouse.late_events import counters
from lakehouse.serving.http.parameters import Day, MetricName, Parameters
from lakehouse.serving.web import number_views
from lakehouse.serving.web.charts import numbers as charts
from lakehouse.serving.web.page import PREFIX, respond

if TYPE_CHECKING:
    from datetime import datetime

    from fastapi import APIRouter

    from lakehouse.reports.svg import Chart
    from lakehouse.serving.http.published_cache import PublishedCache, PublishedSeries

#: The number of periods on a page, and the number of measures drawn.
_SHOWN, _DRAWN = 60, 4


class MetricPageParameters(Parameters):
    """The periods: those ``through`` a day, by default the newest."""

    by: Kind = Kind.DAY
    through: Day | None = None


def add(router: APIRouter, cache: PublishedCache) -> None:
    """Add the page."""

    @router.get(PREFIX + "/metrics/{name}")
    async def metric(request: Request, name: MetricName, wanted: Annotated[MetricPageParameters, Query()]) -> Response:
        contract = cache.metric(name)
        published = await cache.published(contract, wanted.by)
        now = cache.settings.clock()
        points = await run_in_threadpool(_points, published, wanted.through, now)
        kinds = ["day", *contract.publication.rollups]
        about: dict[str, Any] = {"name": name, "contract": published.series.metric, "by": wanted.by.value, "kinds": kinds}
        has_late = contract.late_events is not None
        about["late"] = await run_in_threadpool(counters.of_metric, cache.settings, contract) if has_late else None
        about["last_restated_at"] = published.numbers.last_restated_at
        about["newest"] = newest = points["points"][-1] if points["points"] and points["newer"] is None else None
        if newest is not None:
            about["waiting_for"] = await cache.waiting_for(published.series, newest.period, newest.version)
            about["precedent"] = await run_in_threadpool(number_views.precedent, published, newest, now)
        return respond(request, "metric", "metrics", about | points)


def _points(published: PublishedSeries, through: date | None, now: datetime) -> dict[str, Any]:
    starts = published.numbers.starts
    within = [start for start in starts if through is None or start <= through]
    later = [start for start in starts if through is not None and start > through]
    glances = number_views.glances(published, within[-_SHOWN:])
    names = number_views.drawn(published.series, _DRAWN)
    measures = list(dict.fromkeys(name for glance in glances for name in glance.sides))
    return {
        "points": glances,
        "day_before": {glance.period.start: number_views.day_before(published, glance, now) for glance in glances},
        "closing": {glance.period.start: number_views.closing(published.series, glance, now) for glance in glances},
        "measures": measures,
        "drawn": names,
        "chart": _chart(glances, names) if glances and names else None,
        "older": within[-_SHOWN - 1] if len(within) > _SHOWN else None,
        "newer": later[min(_SHOWN, len(later)) - 1] if later else None,
    }


def _chart(glances: list[number_views.Glance], names: list[str]) -> Chart:
    lines = tuple(
        charts.Line(
            name,
            tuple(glance.sides[name].before if name in glance.sides else None for glance in glances),
            tuple(glance.sides[name].after if name in glance.sides else None for glance in glances),
        )
        for name in names
    )
    names_of_periods = tuple(glance.period.name for glance in glances)
    return charts.series(names_of_periods, tuple(glance.version.state for glance in glances), lines)
