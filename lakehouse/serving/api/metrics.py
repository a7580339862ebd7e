"""``/metrics``: the catalogue, a number, its history, and many periods of it in a row."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse.calendar.periods import Kind
from lakehouse.gold.numbers.version_selector import VersionSelector, choose
from lakehouse.serving.api import models
from lakehouse.serving.http import parameters, responses
from lakehouse.serving.http.parameters import Day, Flag, Limit, MetricName, NoParameters, Offset, Parameters
from lakehouse.serving.http.problems import Problem

if TYPE_CHECKING:
    from lakehouse.calendar.periods import Period
    from lakehouse.contracts import MetricContract
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.serving.http.published_cache import Lake, Shown
    from lakehouse.serving.http.snapshot import Head, Kept

#: So many versions are told beside a number; all are in its history. Numbers of more rows are told beside the event loop.
_HISTORY, _FEW_ROWS = 100, 100


class ForNumber(Parameters):
    """Which number, and how much of it."""

    window: parameters.Window
    version: parameters.Version = "latest"
    include_history: Flag = False
    row_offset: Annotated[int, Field(ge=0, le=10_000_000, description="So many rows of the grain are left out first.")] = 0


class ForHistory(Parameters):
    """Whose history."""

    window: parameters.Window
    limit: Limit = 100
    offset: Offset = 0


class ForSeries(Parameters):
    """Which periods."""

    start: Day
    end: Day
    version: parameters.Version = "latest"
    by: Annotated[Kind, Query(description="The length of period.")] = Kind.DAY
    limit: Limit = 400


def routes(lake: Lake) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(prefix="/metrics", tags=["metrics"])

    @router.get("", response_model=models.MetricsModel, summary="Every metric that is published")
    async def catalogue(request: Request, _: NoParameters) -> Response:
        listed = [await _described(lake, lake.catalog.metrics[name]) for name in sorted(lake.catalog.metrics)]
        return responses.respond(request, {"metrics": listed, "total": len(listed)})

    @router.get("/{name}", response_model=models.NumberModel, summary="A published number")
    async def number(request: Request, name: MetricName, wanted: Annotated[ForNumber, Query()]) -> Response:
        """One version of a number: what it says, how sure it is, how old, and how much of its period has come.

        `version=final` before the close answers with the newest number, and `note` says so. The ETag begins with the
        version's name: ask with `If-None-Match` and an unchanged number costs nothing.
        """
        metric = lake.metric(name)
        period = parameters.period_of(metric, wanted.window)
        shown = await lake.shown(metric, period.kind)
        kept = shown.kept(period)
        version = parameters.version_of(wanted.version)
        head, note = parameters.chosen(shown, period, kept, version)

        def told() -> tuple[PublishedVersion, dict[str, Any]]:
            version = kept.version(shown.series, head)
            return version, window(shown, period) | responses.version(version, wanted.row_offset)

        found, body = told() if head.rows <= _FEW_ROWS else await run_in_threadpool(told)
        more = wanted.row_offset + responses.MOST_ROWS
        behind = await lake.behind(shown, found, period)
        body["completeness"] = responses.completeness(await lake.complete(shown.series, period, found, behind=behind))
        body |= {"adjustments": _adjustments(kept, head, version), "note": note, "history": None}
        body["next_row_offset"] = more if more < head.rows else None
        if wanted.include_history:
            fit = responses.fitting(head.rows for head in kept.heads[: -_HISTORY - 1 : -1])
            last = len(kept.heads)
            body["history"] = await run_in_threadpool(_history, shown, kept, last - fit, last)
        arrivals = await lake.arrivals(metric.source)
        staleness: dict[str, Any] = {"behind": behind, "newest_arrival": arrivals.newest if arrivals else None}
        seconds = max(int((lake.settings.clock() - found.published_at).total_seconds()), 0)
        body["staleness"] = staleness
        return responses.respond(request, body, {"staleness": staleness | {"seconds": seconds}}, found.name)

    @router.get("/{name}/history", response_model=models.HistoryModel, summary="How a number came to be")
    async def history(request: Request, name: MetricName, wanted: Annotated[ForHistory, Query()]) -> Response:
        """Every revision and adjustment, oldest first: what it moved, by how much, and why."""
        metric = lake.metric(name)
        period = parameters.period_of(metric, wanted.window)
        shown = await lake.shown(metric, period.kind)
        kept, first = shown.kept(period), wanted.offset
        more = first + responses.fitting(head.rows for head in kept.heads[first : first + wanted.limit])
        page = await run_in_threadpool(_history, shown, kept, first, more) if more > first else []
        following = {"total": len(kept.heads), "next_offset": more if more < len(kept.heads) else None}
        return responses.respond(request, window(shown, period) | {"versions": page} | following)

    @router.get("/{name}/series", response_model=models.PointsModel, summary="A number of many periods in a row")
    async def series(request: Request, name: MetricName, wanted: Annotated[ForSeries, Query()]) -> Response:
        """The version asked for of each period from one day through another; all as of one moment."""
        metric = lake.metric(name)
        start, end = parameters.span(wanted.start, wanted.end)
        version = parameters.version_of(wanted.version)
        shown = await lake.shown(metric, wanted.by)
        if version.series not in (None, shown.series.name):
            detail = f"{version.text} is a version of {version.series}, and not of {shown.series.name}"
            raise Problem(404, "unknown-version", detail)
        points, more = await run_in_threadpool(_points, shown, (start, end), version, wanted.limit)
        body = {"metric": shown.series.metric.metric, "series": shown.series.name, "version": wanted.version}
        return responses.respond(request, body | {"points": points, "next_start": more})

    return router


def window(shown: Shown, period: Period) -> dict[str, Any]:
    """Which number it is."""
    one = shown.series
    days = {"first_day": period.start, "last_day": period.last}
    return {"metric": one.metric.metric, "series": one.name, "window": period.name, **days}


def _adjustments(kept: Kept, head: Head, version: VersionSelector) -> list[str]:
    """The adjustments of a revision; as of a time, those that had been published."""
    own = [one for one in kept.heads if one.adjustment is not None and one.revision == head.revision]
    return [f"r{one.revision}.a{one.adjustment}" for one in own if version.at is None or one.published_at <= version.at]


def _history(shown: Shown, kept: Kept, first: int, behind: int) -> list[dict[str, Any]]:
    found = kept.moved(shown.series, first, behind)
    return [responses.version(one) | {"moved": responses.moves(told)} for one, told in found]


def _points(
    shown: Shown, span: tuple[date, date], version: VersionSelector, limit: int
) -> tuple[list[dict[str, Any]], date | None]:
    one = shown.series
    first = one.period(span[0]).start
    starts = [start for start in shown.numbers.starts if first <= start <= span[1]]
    asked_for = [start for start in starts[:limit] if version.period in (None, one.period(start).name)]
    known = {start: choose(shown.numbers.periods[start].heads, version) for start in asked_for}
    heads = {start: chosen[0] for start, chosen in known.items() if chosen is not None}
    fit = responses.fitting(head.rows for head in heads.values())
    points = []
    for start, head in list(heads.items())[:fit]:
        said, period = responses.version(shown.numbers.periods[start].version(one, head)), one.period(start)
        days = {"window": period.name, "first_day": start, "last_day": period.last}
        points.append(days | {name: said[name] for name in _OF_POINT})
    following = [*list(heads)[fit:], *starts[limit:]]
    return points, following[0] if following else None


_OF_POINT = ("version", "state", "label", "is_final", "revision", "event_count", "computed_at", "result", "total_rows")


async def _described(lake: Lake, metric: MetricContract) -> dict[str, Any]:
    shown = await lake.shown(metric)
    made = shown.series.metric
    terms, starts = made.publication, shown.numbers.starts
    return {
        "name": metric.name,
        "description": made.description,
        "owner": made.owner,
        "source": made.source,
        "grain": made.grain,
        "measures": responses.measures(shown.series),
        "windows": ["day", *metric.publication.rollups],
        "terms": {
            "start_delay": terms.start_delay,
            "preliminary_after": terms.preliminary_after,
            "final_after": terms.final_after,
            "after_close": terms.after_close,
            "timezone": terms.timezone or "UTC",
        },
        "consumers": made.consumers,
        "dataset_version": made.dataset_version,
        "deprecated_on": made.deprecated_on,
        "published": len(starts),
        "first_day": starts[0] if starts else None,
        "last_day": starts[-1] if starts else None,
    }
