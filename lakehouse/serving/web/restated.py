"""``/page/restated``: the published numbers that changed in a week, with values before and after, and reasons.

``/page/restated/{name}/{publication_id}`` is the stored report of one publication.
"""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from lakehouse.gold.publication import attribute_changes, restatement_reports
from lakehouse.ledger import publications
from lakehouse.reports.formatting import LABELS
from lakehouse.serving.api.data_quality import restatements
from lakehouse.serving.api.lineage import PublicationId, report_of
from lakehouse.serving.http import parameters
from lakehouse.serving.http.parameters import Day, MetricName, NoParameters, Parameters
from lakehouse.serving.web.page import PREFIX, respond

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import APIRouter

    from lakehouse.gold.numbers.comparison import Sides
    from lakehouse.gold.publication.restatement_reports import RestatementReport
    from lakehouse.serving.http.published_cache import PublishedCache, PublishedSeries
    from lakehouse.serving.http.snapshot import VersionSummary

_WEEK, _MOST = timedelta(days=7), 200


class RestatedPageParameters(Parameters):
    """The week that ends with the day ``through``, by default today."""

    through: Day | None = None


def add(router: APIRouter, cache: PublishedCache) -> None:
    """Add the page."""

    @router.get(PREFIX + "/restated")
    async def restated(request: Request, wanted: Annotated[RestatedPageParameters, Query()]) -> Response:
        today = cache.settings.clock().date()
        _, end = parameters.span(wanted.through or today, wanted.through or today)
        published, unreadable = await cache.readable(sorted(cache.catalog.metrics))
        changes = await run_in_threadpool(_changes, published, end - _WEEK + timedelta(days=1), end)
        changes["reported"] = await run_in_threadpool(reported, cache, {one.series.name for one in published})
        changes["unreadable"] = unreadable
        around = {"older": end - _WEEK, "newer": end + _WEEK if end < today else None, "today": today}
        return respond(request, "restated", "restated", changes | around)

    @router.get(PREFIX + "/restated/{name}/{publication_id}")
    async def report(request: Request, name: MetricName, publication_id: PublicationId, _: NoParameters) -> Response:
        published, stored = await report_of(cache, name, publication_id)
        because = await run_in_threadpool(_because, cache, published, stored)
        return respond(request, "restatement_report", "restated", {"name": name, "because": because} | _report(published, stored))


def reported(cache: PublishedCache, series: set[str]) -> set[str]:
    """The ids of publications of ``series`` that have a report."""
    return restatement_reports.reported(cache.settings, series)


def _because(cache: PublishedCache, published: PublishedSeries, stored: RestatementReport) -> str | None:
    """The dimension changes that restated the periods of a report, in words."""
    publication = publications.find(cache.settings, stored.series, stored.publication_id)
    starts = [date.fromisoformat(entry["start"]) for entry in stored.periods.values()]
    if publication is None:
        return None
    return attribute_changes.words(attribute_changes.recorded(cache.settings, publication), published.series.metric, starts)


def _report(published: PublishedSeries, stored: RestatementReport) -> dict[str, Any]:
    """The report with its numbers in the form of the templates."""
    periods = [
        {
            "name": name,
            "entry": entry,
            "label": LABELS[entry["state"]],
            "told": (entry["explanation"] or "").partition(": ")[2],
            "moved": _changed(stored, entry["moved"]),
            "rows": [{"grain": row["grain"], "moved": _changed(stored, row["moved"])} for row in entry["rows"]],
        }
        for name, entry in sorted(stored.periods.items(), key=lambda item: str(item[1]["start"]))
    ]
    return {
        "report": stored,
        "by": published.series.kind.value,
        "periods": periods,
        "totals": _changed(stored, stored.totals),
    }


def _changed(stored: RestatementReport, moved: Mapping[str, Any]) -> dict[str, Sides]:
    """The measures that changed, in the order of the contract at that time."""
    every = {name: restatement_reports.sides_of(moved[name]) for name in stored.measures if name in moved}
    return {name: sides for name, sides in every.items() if sides.changed}


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
        "publication": version.row["publication_id"],
        "period": published.series.period(day),
        "version": version,
        "label": LABELS[summary.state.value],
        "moved": {name: sides for name, sides in moved.items() if sides.changed},
    }


def _last(published: list[PublishedSeries]) -> datetime | None:
    """The time of the last restatement."""
    every = (
        summary.published_at
        for one in published
        for period_versions in one.numbers.periods.values()
        for summary in period_versions.summaries
        if summary.restates
    )
    return max(every, default=None)
