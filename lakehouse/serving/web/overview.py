"""``/``: each metric's newest number, how sure it is, and what asks for attention."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from lakehouse.dispositions.account_tables import is_overdue
from lakehouse.serving.api import quarantine
from lakehouse.serving.api.data_quality import restatements
from lakehouse.serving.http.parameters import NoParameters
from lakehouse.serving.http.problems import Problem
from lakehouse.serving.web import charts, number_views
from lakehouse.serving.web.page import respond
from lakehouse.stewardship.quarantine import StatusFilter

if TYPE_CHECKING:
    from fastapi import APIRouter

    from lakehouse.contracts import MetricContract
    from lakehouse.serving.http.published_cache import Lake, Shown

#: Periods in the small drawing, and days that count as this week.
_DRAWN, _WEEK = 14, 7


def add(router: APIRouter, lake: Lake) -> None:
    """Add the page."""

    @router.get("/")
    async def overview(request: Request, _: NoParameters) -> Response:
        cards = [await _card(lake, lake.catalog.metrics[name]) for name in sorted(lake.catalog.metrics)]
        cards.sort(key=lambda card: card["newest"] is None)  # what says nothing yet comes last
        today = lake.settings.clock().date()
        every = await lake.every(sorted(lake.catalog.metrics))
        restated = await run_in_threadpool(restatements, every, today - timedelta(days=_WEEK - 1), today)
        waiting = await run_in_threadpool(_waiting, lake)
        return respond(request, "overview", "overview", {"cards": cards, "restated": len(restated), "waiting": waiting})


async def _card(lake: Lake, metric: MetricContract) -> dict[str, Any]:
    shown = await lake.shown(metric)
    found = await run_in_threadpool(_told, shown)
    newest = found["newest"]
    if newest is not None:
        found |= await number_views.doubts(lake, shown, newest.period, newest.version)
    return {"name": metric.name, "contract": shown.series.metric, "shown": shown} | found


def _told(shown: Shown) -> dict[str, Any]:
    recent = number_views.glances(shown, shown.numbers.starts[-_DRAWN:])
    names = number_views.drawn(shown.series, 1)
    spark = None
    if names and len(recent) > 1:
        now = tuple(one.sides[names[0]].after if names[0] in one.sides else None for one in recent)
        spark = charts.sparkline(tuple(one.version.state for one in recent), now)
    return {"newest": recent[-1] if recent else None, "recent": recent, "spark": spark, "drawn": names[0] if names else None}


def _waiting(lake: Lake) -> list[tuple[str, int, int]]:
    """Per source that has any: rows that wait, and how many of them past their review date."""
    found = []
    for name in sorted(lake.catalog.sources):
        with suppress(Problem):
            rows = quarantine.listed(lake, name, StatusFilter.OPEN)
            if rows:
                now = lake.settings.clock()
                found.append((name, len(rows), sum(is_overdue(row, now) for row in rows)))
    return found
