"""``/page/restated``: the published numbers that changed in a week, before and after, and why."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from lakehouse.serving.api.data_quality import restatements
from lakehouse.serving.http import parameters
from lakehouse.serving.http.parameters import Day, Parameters
from lakehouse.serving.reports.formatting import LABELS
from lakehouse.serving.web.page import PREFIX, respond

if TYPE_CHECKING:
    from fastapi import APIRouter

    from lakehouse.serving.http.published_cache import PublishedCache, PublishedSeries
    from lakehouse.serving.http.snapshot import VersionSummary

_WEEK, _MOST = timedelta(days=7), 200


class RestatedPageParameters(Parameters):
    """The week that ends with a day, by default today."""

    through: Day | None = None


def add(router: APIRouter, cache: PublishedCache) -> None:
    """Add the page."""

    @router.get(PREFIX + "/restated")
    async def restated(request: Request, wanted: Annotated[RestatedPageParameters, Query()]) -> Response:
        today = cache.settings.clock().date()
        _, end = parameters.span(wanted.through or today, wanted.through or today)
        published = await cache.all_published(sorted(cache.catalog.metrics))
        changes = await run_in_threadpool(_changes, published, end - _WEEK + timedelta(days=1), end)
        around = {"older": end - _WEEK, "newer": end + _WEEK if end < today else None, "today": today}
        return respond(request, "restated", "restated", changes | around)


def _changes(published: list[PublishedSeries], start: date, end: date) -> dict[str, Any]:
    restated = restatements(published, start, end)
    return {
        "start": start,
        "end": end,
        "changes": [_change(*entry) for entry in restated[:_MOST]],
        "left": max(len(restated) - _MOST, 0),
        "periods": len({(series.series.name, day) for series, day, _ in restated}),
        "reasons": Counter(summary.reason for *_, summary in restated).most_common(),
        "last": None if restated else _last(published),
    }


def _change(published: PublishedSeries, day: date, summary: VersionSummary) -> dict[str, Any]:
    period_versions = published.numbers.periods[day]
    at = period_versions.summaries.index(summary)
    ((version, moved),) = period_versions.moved(published.series, at, at + 1)
    return {
        "metric": published.series.metric.name if published.series.called is None else published.series.called,
        "period": published.series.period(day),
        "version": version,
        "label": LABELS[summary.state.value],
        "moved": {name: sides for name, sides in moved.items() if sides.changed},
    }


def _last(published: list[PublishedSeries]) -> datetime | None:
    """When a number was restated last."""
    every = (
        summary.published_at
        for one in published
        for period_versions in one.numbers.periods.values()
        for summary in period_versions.summaries
        if summary.restates
    )
    return max(every, default=None)
