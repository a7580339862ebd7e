"""``/metrics``: the catalogue, a number, its history, and a series of periods."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse.calendar.periods import Kind
from lakehouse.contracts.windows import WINDOW_START
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers import lifecycle, version_selector, window_history
from lakehouse.gold.numbers.lifecycle import RevisionReason
from lakehouse.gold.numbers.version_selector import choose
from lakehouse.live import routes as live_numbers
from lakehouse.live.routes import LiveNumberModel, LivePointsModel
from lakehouse.live.table import NumberLayer
from lakehouse.serving import models, parameters, responses
from lakehouse.serving.parameters import Day, Flag, Limit, MetricName, MetricSearch, Offset, Parameters
from lakehouse.serving.responses import Problem
from lakehouse.text import json_value

if TYPE_CHECKING:
    from lakehouse.calendar.periods import Period
    from lakehouse.contracts import MetricContract
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.gold.numbers.version_selector import VersionSelector
    from lakehouse.serving.published_cache import PublishedCache, PublishedSeries
    from lakehouse.serving.snapshot import PeriodVersions, VersionSummary


#: The greatest number of versions returned with a number (its history has all), and the greatest number of rows of a number that
#: is converted in the event loop; larger numbers are converted in a thread.
_HISTORY, _FEW_ROWS = 100, 100
_BOOKS = {"layer": NumberLayer.BOOKS.value}
_ByLayer = Field(discriminator="layer")
_NumberOfLayer = Annotated[models.NumberModel | LiveNumberModel, _ByLayer]
_PointsOfLayer = Annotated[models.PointsModel | LivePointsModel, _ByLayer]


class CatalogueParameters(MetricSearch):
    """The metrics to return."""

    limit: Limit | None = None
    offset: Offset = 0


class NumberParameters(Parameters):
    """The number to return, and its extent."""

    window: parameters.PeriodOrWindow
    version: parameters.VersionOrLive = "latest"
    include_history: Flag = False
    row_offset: Annotated[int, Field(ge=0, le=10_000_000, description="The number of rows of the grain to skip.")] = 0


class HistoryParameters(Parameters):
    """The number whose history is returned."""

    window: parameters.PeriodOrWindow
    limit: Limit = 100
    offset: Offset = 0


class SeriesParameters(Parameters):
    """The periods to return."""

    start: Day
    end: Day
    version: parameters.VersionOrLive = "latest"
    by: Annotated[Kind, Query(description="The length of period.")] = Kind.DAY
    limit: Limit = 400


def routes(cache: PublishedCache) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(prefix="/metrics", tags=["metrics"])

    @router.get("", response_model=models.MetricsModel, summary="Every metric that is published")
    async def catalogue(request: Request, wanted: Annotated[CatalogueParameters, Query()]) -> Response:
        """`total` counts the metrics that the search finds, on all pages."""
        return responses.respond(request, await _catalogue(cache, wanted))

    @router.get("/{name}", response_model=_NumberOfLayer, summary="A published number, or a live one")
    async def number(request: Request, name: MetricName, wanted: Annotated[NumberParameters, Query()]) -> Response:
        """One version of a number with its state, its age and its completeness.

        Before the close, `version=final` returns the newest number, and `note` reports this. The ETag begins with the version's
        name; a request with `If-None-Match` gets 304 for an unchanged number. With `version=live`, the response has the numbers
        of the stream for a day or a window; `layer` names the origin.
        """
        metric = cache.metric(name)
        period, start = parameters.period_or_window(metric, wanted.window)
        published = await cache.published(metric, period.kind)
        if wanted.version == live_numbers.LIVE:
            if wanted.include_history:
                raise Problem(400, "makes-no-sense", "live numbers have no history; leave include_history out")
            live = await run_in_threadpool(live_numbers.number, cache.lake, metric, period, start, wanted.row_offset)
            return responses.respond(request, window(published, period, start) | live, tag=live_numbers.LIVE)
        period_versions = published.versions_of(period)
        version = parameters.version_of(wanted.version)
        summary, note = parameters.chosen(published, period, period_versions, version)

        def with_content() -> tuple[PublishedVersion, dict[str, Any]]:
            content, adjustments, updates = _content(published, period, summary, version, start)
            about = {"adjustments": adjustments, "update_count": updates}
            body = window(published, period, start) | _BOOKS | responses.version(content, wanted.row_offset)
            return content, body | about

        is_small = summary.rows <= _FEW_ROWS and start is None
        content, body = with_content() if is_small else await run_in_threadpool(with_content)
        more, rows = wanted.row_offset + responses.MOST_ROWS, summary.rows if start is None else len(content.rows)
        stale = await cache.is_stale(published, content, period)
        complete = await cache.completeness(published.series, period, content, stale=stale, window=start)
        end, passed = await cache.end_of(published.series, period, start)
        body |= {"completeness": responses.completeness(complete), "window_end": end, "watermark_passed": passed}
        body |= await _beside(cache, published, period, content)
        adjusted = await run_in_threadpool(_adjusted, published, period, version, start) if body["adjustments"] else {}
        body |= {"adjusted": adjusted, "note": note, "history": None, "next_row_offset": more if more < rows else None}
        if wanted.include_history:
            fit = responses.fitting(summary.rows for summary in period_versions.summaries[: -_HISTORY - 1 : -1])
            last = len(period_versions.summaries)
            body["history"] = await run_in_threadpool(_history, published, period_versions, last - fit, last, start)
        arrivals = await cache.arrivals(metric.source)
        staleness: dict[str, Any] = {"behind": stale, "newest_arrival": arrivals.newest if arrivals else None}
        seconds = max(int((cache.lake.now() - content.published_at).total_seconds()), 0)
        return responses.respond(
            request, body | {"staleness": staleness}, {"staleness": staleness | {"seconds": seconds}}, content.name
        )

    @router.get("/{name}/history", response_model=models.HistoryModel, summary="The history of a number")
    async def history(request: Request, name: MetricName, wanted: Annotated[HistoryParameters, Query()]) -> Response:
        """All revisions and adjustments, oldest first, with the changes and the reason of each.

        For a window of a day, only the day's versions that changed the window; `limit` and `offset` count the day's versions.
        """
        metric = cache.metric(name)
        period, start = parameters.period_or_window(metric, wanted.window)
        published = await cache.published(metric, period.kind)
        period_versions, first = published.versions_of(period), wanted.offset
        more = first + responses.fitting(summary.rows for summary in period_versions.summaries[first : first + wanted.limit])
        page = await run_in_threadpool(_history, published, period_versions, first, more, start) if more > first else []
        following = {
            "total": len(period_versions.summaries),
            "next_offset": more if more < len(period_versions.summaries) else None,
        }
        return responses.respond(request, window(published, period, start) | {"versions": page} | following)

    _add_series(router, cache)
    return router


def _add_series(router: APIRouter, cache: PublishedCache) -> None:
    @router.get("/{name}/series", response_model=_PointsOfLayer, summary="The numbers of consecutive periods")
    async def series(request: Request, name: MetricName, wanted: Annotated[SeriesParameters, Query()]) -> Response:
        """The requested version of each period from `start` through `end`, all read at the same moment.

        With `version=live`, the days of the stream; each day is read as a whole.
        """
        metric = cache.metric(name)
        start, end = parameters.span(wanted.start, wanted.end)
        published = await cache.published(metric, wanted.by)
        made = published.series.metric
        head = {"metric": made.metric, "series": published.series.name, "deprecated_on": made.deprecated_on}
        if wanted.version == live_numbers.LIVE:
            span = (start, end)
            live = await run_in_threadpool(live_numbers.points, cache.lake, metric, span, wanted.by, wanted.limit)
            return responses.respond(request, head | live)
        version = parameters.version_of(wanted.version)
        if version.series not in (None, published.series.name):
            detail = f"{version.text} is a version of {version.series}, and not of {published.series.name}"
            raise Problem(404, "unknown-version", detail)
        points, more = await run_in_threadpool(_points, published, (start, end), version, wanted.limit)
        body = head | _BOOKS | {"version": wanted.version}
        return responses.respond(request, body | {"points": points, "next_start": more})


async def _beside(cache: PublishedCache, published: PublishedSeries, period: Period, version: PublishedVersion) -> dict[str, Any]:
    """What stands beside a number: what it waits for, and a newer one that is held."""
    held = await cache.held(published.series, period) if version.is_latest else None
    return {
        "waiting_for": await cache.waiting_for(published.series, period, version),
        "held": held.because if held else None,
    }


def _adjusted(published: PublishedSeries, period: Period, version: VersionSelector, start: datetime | None) -> dict[str, Any]:
    """The totals of a version, or of a window of it, with its adjustments."""
    return {name: json_value(value) for name, value in _selected(published, period, version, start).adjusted.items()}


def _selected(
    published: PublishedSeries, period: Period, version: VersionSelector, start: datetime | None
) -> numbers_history.SelectedVersion:
    versions = published.versions_of(period).versions(published.series)
    return numbers_history.selected(published.series, period, versions, version, start)


def window(published: PublishedSeries, period: Period, start: datetime | None = None) -> dict[str, Any]:
    """The metric, the series and the period of a number, and when the metric's dataset version ends.

    :param start: the first moment of a window of the day, if only the window's number is meant.
    """
    series = published.series
    name = period.name if start is None else window_history.text(WINDOW_START, start, series.metric)
    days = {"first_day": period.start, "last_day": period.last}
    return {
        "metric": series.metric.metric,
        "series": series.name,
        "window": name,
        **days,
        "deprecated_on": series.metric.deprecated_on,
    }


def _content(
    published: PublishedSeries,
    period: Period,
    summary: VersionSummary,
    selector: VersionSelector,
    start: datetime | None,
) -> tuple[PublishedVersion, list[str], int]:
    """The content of a version, the adjustments that belong to it, and how often the number was updated.

    :param start: the first moment of a window; then all of it is the window's own.
    """
    if start is not None:
        of_window = _selected(published, period, selector, start)
        return of_window.version, [one.label for one in of_window.adjustments], of_window.update_count
    period_versions, series = published.versions_of(period), published.series
    booked = version_selector.adjustments_of(period_versions.summaries, summary, selector)
    revisions = [RevisionReason(each.reason) for each in period_versions.summaries if each.adjustment is None]
    return period_versions.version(series, summary), [one.label for one in booked], lifecycle.update_count(revisions)


def _history(
    published: PublishedSeries, period_versions: PeriodVersions, first: int, end: int, start: datetime | None = None
) -> list[dict[str, Any]]:
    """The versions from position ``first`` up to, not including, ``end``, each with its changes.

    :param start: the first moment of a window; only versions that changed the window are returned then.
    """
    if start is None:
        versions = period_versions.moved(published.series, first, end)
    else:
        of_day = period_versions.versions(published.series)
        of_window = window_history.history(of_day, start)
        wanted = {one.label for one in of_day[first:end]}
        changes = zip(of_window, numbers_history.moved(published.series, of_window))
        versions = [(version, sides) for version, sides in changes if version.label in wanted]
    return [responses.version(version) | {"moved": responses.moves(sides)} for version, sides in versions]


def _points(
    published: PublishedSeries, span: tuple[date, date], version: VersionSelector, limit: int
) -> tuple[list[dict[str, Any]], date | None]:
    series = published.series
    first = series.period(span[0]).start
    starts = [start for start in published.numbers.starts if first <= start <= span[1]]
    requested = [start for start in starts[:limit] if version.period in (None, series.period(start).name)]
    selected = {start: choose(published.numbers.periods[start].summaries, version) for start in requested}
    summaries = {start: choice[0] for start, choice in selected.items() if choice is not None}
    fit = responses.fitting(summary.rows for summary in summaries.values())
    points = []
    for start, summary in list(summaries.items())[:fit]:
        version_of_period = published.numbers.periods[start].version(series, summary)
        values, period = responses.version(version_of_period), series.period(start)
        days = {"window": period.name, "first_day": start, "last_day": period.last}
        points.append(days | {name: values[name] for name in _OF_POINT})
    following = [*list(summaries)[fit:], *starts[limit:]]
    return points, following[0] if following else None


_OF_POINT = ("version", "state", "label", "is_final", "revision", "event_count", "computed_at", "result", "total_rows")


async def _catalogue(cache: PublishedCache, wanted: CatalogueParameters) -> dict[str, Any]:
    metrics = cache.catalog.metrics
    described, unreadable = await cache.composed("catalogue", lambda: _all_described(cache))
    listed = [one for one in described if wanted.finds(metrics[one["name"]])]
    return {
        "metrics": listed[wanted.offset :][: wanted.limit],
        "total": len(listed),
        "unreadable": [one for one in unreadable if wanted.finds(metrics[one["metric"]])],
    }


async def _all_described(cache: PublishedCache) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    metrics = cache.catalog.metrics
    days, unreadable = await cache.readable(sorted(metrics), Kind.DAY)
    return [_described(metrics[published.series.name], published) for published in days], unreadable


def _described(metric: MetricContract, published: PublishedSeries) -> dict[str, Any]:
    made = published.series.metric
    terms, starts = made.publication, published.numbers.starts
    return {
        "name": metric.name,
        "description": made.description,
        "owner": made.owner,
        "source": made.source,
        "from": made.derived_from,
        "joins": [{"dimension": join.dimension, "on": join.on, "columns": join.names} for join in made.joins],
        "grain": made.grain,
        "measures": responses.measures(published.series),
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
        "last_restated_at": published.numbers.last_restated_at,
    }
