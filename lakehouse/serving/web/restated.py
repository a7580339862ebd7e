"""``/page/restated``: which published numbers changed in a week, from what to what, and why."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from lakehouse.serving.api.data_quality import restatements
from lakehouse.serving.http import parameters
from lakehouse.serving.http.parameters import Day, Parameters
from lakehouse.serving.reports.wording import LABELS
from lakehouse.serving.web.page import PREFIX, respond

if TYPE_CHECKING:
    from fastapi import APIRouter

    from lakehouse.serving.http.published_cache import Lake, Shown
    from lakehouse.serving.http.snapshot import Head

_WEEK, _MOST = timedelta(days=7), 200


class ForRestated(Parameters):
    """The week that ends with a day, by default today."""

    through: Day | None = None


def add(router: APIRouter, lake: Lake) -> None:
    """Add the page."""

    @router.get(PREFIX + "/restated")
    async def restated(request: Request, wanted: Annotated[ForRestated, Query()]) -> Response:
        today = lake.settings.clock().date()
        _, end = parameters.span(wanted.through or today, wanted.through or today)
        shown = await lake.every(sorted(lake.catalog.metrics))
        told = await run_in_threadpool(_told, shown, end - _WEEK + timedelta(days=1), end)
        around = {"older": end - _WEEK, "newer": end + _WEEK if end < today else None, "today": today}
        return respond(request, "restated", "restated", told | around)


def _told(shown: list[Shown], start: date, end: date) -> dict[str, Any]:
    found = restatements(shown, start, end)
    return {
        "start": start,
        "end": end,
        "changes": [_change(*one) for one in found[:_MOST]],
        "left": max(len(found) - _MOST, 0),
        "periods": len({(one.series.name, day) for one, day, _ in found}),
        "reasons": Counter(head.reason for *_, head in found).most_common(),
        "last": None if found else _last(shown),
    }


def _change(shown: Shown, day: date, head: Head) -> dict[str, Any]:
    kept = shown.numbers.periods[day]
    at = kept.heads.index(head)
    ((version, moved),) = kept.moved(shown.series, at, at + 1)
    return {
        "metric": shown.series.metric.name if shown.series.called is None else shown.series.called,
        "period": shown.series.period(day),
        "version": version,
        "label": LABELS[head.state.value],
        "moved": {name: sides for name, sides in moved.items() if sides.changed},
    }


def _last(shown: list[Shown]) -> datetime | None:
    """When a number was restated last."""
    every = (head.published_at for one in shown for kept in one.numbers.periods.values() for head in kept.heads if head.restates)
    return max(every, default=None)
