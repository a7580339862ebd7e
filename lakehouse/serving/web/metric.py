"""``/page/metrics/{name}``: many periods of a metric in a row, with final, preliminary and live told apart."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from lakehouse.calendar.periods import Kind
from lakehouse.serving.http.parameters import Day, MetricName, Parameters
from lakehouse.serving.web import charts, number_views
from lakehouse.serving.web.page import PREFIX, respond

if TYPE_CHECKING:
    from fastapi import APIRouter

    from lakehouse.serving.http.published_cache import Lake, Shown
    from lakehouse.serving.reports.svg import Chart

#: Periods on a page, and measures that are drawn.
_SHOWN, _DRAWN = 60, 4


class ForMetric(Parameters):
    """Which periods: ``through`` a day, by default the newest."""

    by: Kind = Kind.DAY
    through: Day | None = None


def add(router: APIRouter, lake: Lake) -> None:
    """Add the page."""

    @router.get(PREFIX + "/metrics/{name}")
    async def metric(request: Request, name: MetricName, wanted: Annotated[ForMetric, Query()]) -> Response:
        contract = lake.metric(name)
        shown = await lake.shown(contract, wanted.by)
        told = await run_in_threadpool(_told, shown, wanted.through)
        kinds = ["day", *contract.publication.rollups]
        about: dict[str, Any] = {"name": name, "contract": shown.series.metric, "by": wanted.by.value, "kinds": kinds}
        return respond(request, "metric", "metrics", about | told)


def _told(shown: Shown, through: date | None) -> dict[str, Any]:
    starts = shown.numbers.starts
    within = [start for start in starts if through is None or start <= through]
    later = [start for start in starts if through is not None and start > through]
    found = number_views.glances(shown, within[-_SHOWN:])
    names = number_views.drawn(shown.series, _DRAWN)
    measures = list(dict.fromkeys(name for one in found for name in one.sides))
    return {
        "points": found,
        "measures": measures,
        "drawn": names,
        "chart": _chart(found, names) if found and names else None,
        "older": within[-_SHOWN - 1] if len(within) > _SHOWN else None,
        "newer": later[min(_SHOWN, len(later)) - 1] if later else None,
    }


def _chart(found: list[number_views.Glance], names: list[str]) -> Chart:
    lines = tuple(
        charts.Line(
            name,
            tuple(one.sides[name].before if name in one.sides else None for one in found),
            tuple(one.sides[name].after if name in one.sides else None for one in found),
        )
        for name in names
    )
    return charts.series(tuple(one.period.name for one in found), tuple(one.version.state for one in found), lines)
