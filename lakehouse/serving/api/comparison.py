"""``/metrics/{name}/compare`` and ``/at-this-time``: two versions of a number; yesterday as it was known at this time of day."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse.calendar.event_day import same_time_before
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers.comparison import Sides
from lakehouse.gold.numbers.version_selector import SelectBy, VersionSelector, adjustments_of, choose
from lakehouse.reports.formatting import LABELS
from lakehouse.serving.api import models
from lakehouse.serving.api.metrics import window
from lakehouse.serving.http import parameters, responses
from lakehouse.serving.http.parameters import Limit, MetricName, Moment, Offset, Parameters
from lakehouse.serving.http.problems import Problem

if TYPE_CHECKING:
    from datetime import date

    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.serving.http.published_cache import PublishedCache, PublishedSeries
    from lakehouse.serving.http.snapshot import PeriodVersions, VersionSummary


class ComparisonParameters(Parameters):
    """The two versions to compare."""

    window: parameters.Window
    version_a: parameters.Version = "first"
    version_b: Annotated[
        parameters.Version | None, Field(description="Default: the final number, with the adjustments that were booked for it.")
    ] = None
    limit: Limit = 1000
    offset: Offset = 0


class AtThisTimeParameters(Parameters):
    """The time that counts as now."""

    at: Annotated[Moment | None, Field(description="The time that counts as now; default: now.")] = None


def routes(cache: PublishedCache) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(prefix="/metrics", tags=["metrics"])

    @router.get("/{name}/compare", response_model=models.ComparisonModel, summary="Compare two versions of a number")
    async def compare(request: Request, name: MetricName, wanted: Annotated[ComparisonParameters, Query()]) -> Response:
        """The difference per measure and row of the grain, absolute and in percent; percent is null if the base is 0.

        By default the first number is compared with the final one, together with the adjustments that were booked for it.
        """
        metric = cache.metric(name)
        period = parameters.period_of(metric, wanted.window)
        published = await cache.published(metric, period.kind)
        period_versions = published.versions_of(period)
        texts = (wanted.version_a, wanted.version_b or SelectBy.FINAL.value)
        summaries = [parameters.chosen(published, period, period_versions, parameters.version_of(text)) for text in texts]
        if wanted.version_b is None:
            summaries[1] = _with_adjustments(period_versions, *summaries[1])
        versions = [await run_in_threadpool(period_versions.version, published.series, summary) for summary, _ in summaries]
        compared = await run_in_threadpool(_compared, published, period_versions, versions, (wanted.offset, wanted.limit))
        requested = zip(("version_a", "version_b"), texts, versions, summaries)
        sides = {side: _side(text, version, note) for side, text, version, (_, note) in requested}
        return responses.respond(request, window(published, period) | sides | compared)

    @router.get("/{name}/at-this-time", response_model=models.AtThisTimeModel, summary="Yesterday as it was known at this time")
    async def at_this_time(request: Request, name: MetricName, wanted: Annotated[AtThisTimeParameters, Query()]) -> Response:
        """Compares today so far with yesterday at the same time of day. Returns what was known of yesterday then, what is known
        of it now, and today.
        """
        metric = cache.metric(name)
        published = await cache.published(metric)
        contract = published.series.metric
        zone = ZoneInfo(contract.publication.timezone or "UTC")
        now = _zoned(wanted.at or cache.settings.clock(), zone)
        try:
            today, then = now.date(), same_time_before(now, 1, zone)
        except OverflowError:
            raise Problem(400, "makes-no-sense", "there is no day before that") from None
        wanted_sides = ((then.date(), then, SelectBy.LATEST), (then.date(), now, SelectBy.FINAL), (today, now, SelectBy.LATEST))
        sides = [await run_in_threadpool(_number_at, published, *side) for side in wanted_sides]
        names = ("yesterday_at_this_time", "yesterday", "today")
        body: dict[str, Any] = {"metric": contract.metric, "series": published.series.name}
        numbers = {name: number for name, (number, _) in zip(names, sides)}
        totals = [_totals(published, version) for _, version in sides]
        body["yesterday_moved"] = responses.moves(_between(totals[0], totals[1]))
        body["today_against_yesterday"] = responses.moves(_between(totals[0], totals[2]))
        ticking = {"at": now} | numbers
        steady = {name: {**numbers[name], "at": None} for name in names}
        return responses.respond(request, body | steady, ticking)

    return router


def _with_adjustments(
    period_versions: PeriodVersions, summary: VersionSummary, note: str | None
) -> tuple[VersionSummary, str | None]:
    """The newest adjustment of a number, which stands for the number with all of them, and a note; the number without one."""
    adjustments = adjustments_of(period_versions.summaries, summary)
    return (adjustments[-1], f"{summary.label} with its adjustments") if adjustments else (summary, note)


def _zoned(moment: datetime, zone: ZoneInfo) -> datetime:
    """:raises Problem: if the time is outside the calendar."""
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(zone)
    except OverflowError:
        raise Problem(400, "makes-no-sense", "that time is outside the calendar") from None


def _side(text: str, version: PublishedVersion, note: str | None) -> dict[str, Any]:
    return {
        "asked": text,
        "version_name": version.name,
        "version": version.label,
        "state": version.state.value,
        "label": LABELS[version.state.value],
        "computed_at": version.published_at,
        "note": note,
    }


def _compared(
    published: PublishedSeries, period_versions: PeriodVersions, versions: list[PublishedVersion], page: tuple[int, int]
) -> dict[str, Any]:
    series, (before, after) = published.series, versions
    first, last = sorted((before.revision, after.revision))
    between = [
        period_versions.version(series, summary) for summary in period_versions.summaries if first <= summary.revision <= last
    ]
    start, names = before.start, (before.name, after.name)
    compared = numbers_history.comparison(
        series, {start: before}, {start: after}, names, after.published_at, known={start: between}
    )
    offset, limit = page
    changes = [
        {"grain": dict(change.grain), "measure": change.measure, **responses.sides(change.sides)}
        for change in compared.changes[offset : offset + limit]
    ]
    more = offset + len(changes)
    return {
        "changes": changes,
        "total": len(compared.changes),
        "next_offset": more if more < len(compared.changes) else None,
        "totals": responses.moves(compared.totals()),
        "reason": next((change.reason for change in compared.changes), None),
        "changed_rows": next((change.rows for change in compared.changes), None),
    }


def _number_at(
    published: PublishedSeries, day: date, at: datetime, by: SelectBy
) -> tuple[dict[str, Any], PublishedVersion | None]:
    """A day's number as it was known at a time: as JSON, and as a version."""
    period_versions = published.numbers.periods.get(day)
    if period_versions is not None:
        by_then = [summary for summary in period_versions.summaries if summary.published_at <= at]
        if (selected := choose(by_then, VersionSelector(by, by.value))) is not None:
            version = period_versions.version(published.series, selected[0])
            return {"window": f"{day}", "at": at, "number": responses.version(version), "note": selected[1]}, version
    return {"window": f"{day}", "at": at, "number": None, "note": "nothing had been published"}, None


def _totals(published: PublishedSeries, version: PublishedVersion | None) -> dict[str, Sides]:
    return numbers_history.moved(published.series, [version])[0] if version is not None else {}


def _between(before: dict[str, Sides], after: dict[str, Sides]) -> dict[str, Sides]:
    """The difference between two numbers, measure by measure."""
    names = dict.fromkeys([*before, *after])
    missing = Sides(None, None)
    return {name: Sides(before.get(name, missing).after, after.get(name, missing).after) for name in names}
