"""``/`` and ``lakehouse status``: newest numbers with caveats and closing conditions, sources, models, and open issues."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from lakehouse.dispositions.account_tables import is_overdue
from lakehouse.gold.numbers import lifecycle, page_views
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.lake.table_io import DamagedLogError
from lakehouse.lateness.event_watermark import BEGINNING
from lakehouse.lateness.routes import restatements
from lakehouse.models.routes import summaries
from lakehouse.operations import pauses
from lakehouse.reports.formatting import counted
from lakehouse.serving.page import respond
from lakehouse.serving.parameters import NoParameters
from lakehouse.serving.responses import Problem
from lakehouse.stewardship import routes
from lakehouse.stewardship.quarantine import StatusFilter
from lakehouse.text import json_value

if TYPE_CHECKING:
    from datetime import datetime

    from fastapi import APIRouter

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts import MetricContract
    from lakehouse.serving.published_cache import ObservedSource, PublishedCache, PublishedSeries

#: The number of periods in the small drawing, the number of days in "this week", and the greatest number of metrics with separate
#: cards.
_DRAWN, _WEEK, _CARDS = 14, 7, 8


def add(router: APIRouter, cache: PublishedCache) -> None:
    """Add the page."""

    @router.get("/")
    async def overview(request: Request, _: NoParameters) -> Response:
        return respond(request, "overview", "overview", await read(cache))


async def read(cache: PublishedCache) -> dict[str, Any]:
    """What the page and ``lakehouse status`` show: metrics as cards or in groups, sources, models, and what waits for people."""
    in_cards = len(cache.catalog.metrics) <= _CARDS
    published, unreadable = await cache.readable(sorted(cache.catalog.metrics))
    broken = {problem["metric"] for problem in unreadable}
    names = [name for name in sorted(cache.catalog.metrics) if name not in broken]
    today = cache.lake.now().date()
    # What does not depend on each other is read at once: in an object store each table takes some requests.
    cards, observed, restated, waiting, models, paused = await asyncio.gather(
        asyncio.gather(*(_card(cache, cache.catalog.metrics[name], with_drawing=in_cards) for name in names)),
        asyncio.gather(*(cache.observed(name) for name in sorted(cache.catalog.sources)), return_exceptions=True),
        run_in_threadpool(restatements, published, today - timedelta(days=_WEEK - 1), today),
        cache.other("rows that wait", lambda: _waiting(cache)),
        cache.other("models", lambda: summaries(cache)),
        _paused(cache),
    )
    if isinstance(paused, Problem):
        unreadable.append({"metric": "ops/pauses", "detail": paused.detail})
    cards.sort(key=lambda card: (card["newest"] is None, card["overdue"] is None))  # metrics without a number come last
    sources = []
    for name, source in zip(sorted(cache.catalog.sources), observed):
        if isinstance(source, Problem):
            unreadable.append({"metric": name, "detail": source.detail})
        elif isinstance(source, BaseException):
            raise source
        else:
            sources.append(_source(source))
    overdue = sum(card["overdue"].total for card in cards if card["overdue"])
    shown = {"cards": cards, "groups": [] if in_cards else _groups(cards), "sources": sources, "overdue": overdue}
    return shown | {
        "models": models,
        "unreadable": unreadable,
        "restated": len(restated),
        "waiting": waiting,
        "paused": [] if isinstance(paused, Problem) else [*paused.values()],
    }


def as_json(shown: dict[str, Any]) -> dict[str, Any]:
    """The result of :func:`read` for ``lakehouse status --json``."""
    waiting = [{"source": source, "rows": rows, "overdue": overdue} for source, rows, overdue in shown["waiting"]]
    return {
        "metrics": [_card_as_json(card) for card in shown["cards"]],
        "sources": [
            {
                "name": source["name"],
                "watermark": source["watermark"].watermark.isoformat() if source["is_set"] else None,
                "newest_arrival": source["newest"].isoformat() if source["newest"] else None,
                "missing": source["missing"],
            }
            for source in shown["sources"]
        ],
        "models": [{"name": model["model"], "in_use": (model["champion"] or {}).get("version")} for model in shown["models"]],
        "overdue": shown["overdue"],
        "restated_this_week": shown["restated"],
        "waiting": waiting,
        "paused": [pause.as_json() for pause in shown["paused"]],
        "unreadable": [{"name": problem["metric"], "detail": problem["detail"]} for problem in shown["unreadable"]],
    }


def _card_as_json(card: dict[str, Any]) -> dict[str, Any]:
    newest, overdue, closing = card["newest"], card["overdue"], card.get("closing")
    about: dict[str, Any] = {"name": card["name"], "period": None}
    if newest is not None:
        about |= {
            "period": newest.period.name,
            "version": newest.version.label,
            "state": newest.version.state.value,
            "totals": {name: json_value(sides.after) for name, sides in newest.sides.items()},
            "adjusted": {name: json_value(value) for name, value in newest.adjusted.items()},
            "restated": newest.restated,
            "published_at": newest.version.published_at.isoformat(),
            "has_newer_data": card["behind"],
            "failed_checks": card["held"],
            "completeness": card["complete"],
            "final_from": f"{closing.day}" if closing else None,
            "waiting_for": card["waiting_for"],
        }
    shown = {"total": overdue.total, "oldest": overdue.oldest.name, "waiting_for": overdue.waiting_for} if overdue else None
    return about | {"overdue": shown}


class OverdueNumbers(NamedTuple):
    """The overdue numbers of a metric: not final although the calendar allows it. ``waiting_for`` is about the oldest one."""

    total: int
    oldest: Period
    waiting_for: list[str]


async def _paused(cache: PublishedCache) -> dict[str, pauses.PauseEvent] | Problem:
    """The pauses that hold, or why they are not known."""
    try:
        return await cache.other("pauses", lambda: pauses.paused(cache.reading))
    except DamagedLogError:
        return Problem(503, "unreadable", "its log is damaged: nobody knows what is paused; the server's log names the file")


async def _card(cache: PublishedCache, metric: MetricContract, *, with_drawing: bool) -> dict[str, Any]:
    published = await cache.published(metric)
    numbers = await run_in_threadpool(_numbers, published, with_drawing=with_drawing)
    newest = numbers["newest"]
    if newest is not None:
        numbers |= await page_views.doubts(cache, published, newest.period, newest.version)
        numbers["closing"] = page_views.closing(published.series, newest, cache.lake.now())
    about = {"name": metric.name, "contract": published.series.metric, "overdue": await _overdue(cache, metric.name)}
    return about | numbers


async def _overdue(cache: PublishedCache, name: str) -> OverdueNumbers | None:
    """The overdue numbers of a metric, for every kind of period; None without any."""
    all_published = await cache.all_published([name])
    due = await run_in_threadpool(_due, all_published, cache.lake.now())
    if not due:
        return None
    oldest, published = min(due, key=lambda of: (of[0].last, of[0].start))
    shown = page_views.glance(published, oldest.start)
    waiting_for = [] if shown is None else await cache.waiting_for(published.series, oldest, shown.version)
    return OverdueNumbers(len(due), oldest, waiting_for)


def _due(all_published: list[PublishedSeries], now: datetime) -> list[tuple[Period, PublishedSeries]]:
    """The periods that are not final although the calendar allows it, each with its series."""
    due = []
    for published in all_published:
        terms = published.series.metric.publication
        today = lifecycle.today(now, terms)
        started = published.numbers.open_starts[: bisect_right(published.numbers.open_starts, today)]
        periods = map(published.series.period, started)
        due += [(period, published) for period in periods if lifecycle.state_on(period.last, today, terms) is State.FINAL]
    return due


def _groups(cards: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group the cards whose newest numbers become final on the same day and wait for the same: often all of a source."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for card in cards:
        reasons = (card.get("closing"), *card.get("waiting_for", ())) if card["newest"] else None
        groups.setdefault((card["contract"].source, reasons, card["overdue"] is None), []).append(card)
    return list(groups.values())


def _source(observed: ObservedSource) -> dict[str, Any]:
    """A row of the table of sources: watermark, newest arrival, and counts of missing data."""
    state = observed.state
    missing = [
        (len(state.held), "held file"),
        (sum(file.rows for file in state.unread.files), "unread row"),
        (len(state.missing), "incomplete arrival day"),
        (sum(state.undecided.values()), "open review"),
    ]
    return {
        "name": state.contract.dataset,
        "watermark": state.watermark,
        "is_set": state.watermark is not None and state.watermark.watermark != BEGINNING,
        "newest": observed.newest_arrival,
        "missing": [counted(count, noun) for count, noun in missing if count],
    }


def _numbers(published: PublishedSeries, *, with_drawing: bool) -> dict[str, Any]:
    recent = page_views.glances(published, published.numbers.starts[-(_DRAWN if with_drawing else 1) :])
    names = page_views.drawn(published.series, 1)
    spark = None
    if names and len(recent) > 1:
        now = tuple(glance.sides[names[0]].after if names[0] in glance.sides else None for glance in recent)
        spark = page_views.sparkline(tuple(glance.version.state for glance in recent), now)
    return {"newest": recent[-1] if recent else None, "recent": recent, "spark": spark, "drawn": names[0] if names else None}


def _waiting(cache: PublishedCache) -> list[tuple[str, int, int]]:
    """For each source with open rows, their number, and the number of overdue ones."""
    counts = []
    for name in sorted(cache.catalog.sources):
        with suppress(Problem):
            rows = routes.listed(cache, name, StatusFilter.OPEN)
            if rows:
                now = cache.lake.now()
                counts.append((name, len(rows), sum(is_overdue(row, now) for row in rows)))
    return counts
