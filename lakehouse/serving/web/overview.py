"""``/``: each metric's newest number with its state and caveats, and what needs attention."""

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
from lakehouse.serving.web import number_views
from lakehouse.serving.web.charts import numbers as charts
from lakehouse.serving.web.page import respond
from lakehouse.stewardship.quarantine import StatusFilter

if TYPE_CHECKING:
    from fastapi import APIRouter

    from lakehouse.contracts import MetricContract
    from lakehouse.serving.http.published_cache import PublishedCache, PublishedSeries

#: Periods in the small drawing, and days that count as this week.
_DRAWN, _WEEK = 14, 7


def add(router: APIRouter, cache: PublishedCache) -> None:
    """Add the page."""

    @router.get("/")
    async def overview(request: Request, _: NoParameters) -> Response:
        cards = [await _card(cache, cache.catalog.metrics[name]) for name in sorted(cache.catalog.metrics)]
        cards.sort(key=lambda card: card["newest"] is None)  # metrics without a number come last
        today = cache.settings.clock().date()
        published = await cache.all_published(sorted(cache.catalog.metrics))
        restated = await run_in_threadpool(restatements, published, today - timedelta(days=_WEEK - 1), today)
        waiting = await run_in_threadpool(_waiting, cache)
        return respond(request, "overview", "overview", {"cards": cards, "restated": len(restated), "waiting": waiting})


async def _card(cache: PublishedCache, metric: MetricContract) -> dict[str, Any]:
    published = await cache.published(metric)
    numbers = await run_in_threadpool(_numbers, published)
    newest = numbers["newest"]
    if newest is not None:
        numbers |= await number_views.doubts(cache, published, newest.period, newest.version)
    return {"name": metric.name, "contract": published.series.metric, "shown": published} | numbers


def _numbers(published: PublishedSeries) -> dict[str, Any]:
    recent = number_views.glances(published, published.numbers.starts[-_DRAWN:])
    names = number_views.drawn(published.series, 1)
    spark = None
    if names and len(recent) > 1:
        now = tuple(glance.sides[names[0]].after if names[0] in glance.sides else None for glance in recent)
        spark = charts.sparkline(tuple(glance.version.state for glance in recent), now)
    return {"newest": recent[-1] if recent else None, "recent": recent, "spark": spark, "drawn": names[0] if names else None}


def _waiting(cache: PublishedCache) -> list[tuple[str, int, int]]:
    """By source with open rows: how many, and how many of them are past their review date."""
    counts = []
    for name in sorted(cache.catalog.sources):
        with suppress(Problem):
            rows = quarantine.listed(cache, name, StatusFilter.OPEN)
            if rows:
                now = cache.settings.clock()
                counts.append((name, len(rows), sum(is_overdue(row, now) for row in rows)))
    return counts
