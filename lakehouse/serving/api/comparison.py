"""``/metrics/{name}/compare`` and ``/at-this-time``: two versions of a number, yesterday as it was known at this hour."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers.comparison import Sides
from lakehouse.gold.numbers.version_selector import SelectBy, VersionSelector, choose
from lakehouse.serving.api import models
from lakehouse.serving.api.metrics import window
from lakehouse.serving.http import parameters, responses
from lakehouse.serving.http.parameters import Limit, MetricName, Moment, Offset, Parameters
from lakehouse.serving.http.problems import Problem
from lakehouse.serving.reports.wording import LABELS

if TYPE_CHECKING:
    from datetime import date

    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.serving.http.published_cache import Lake, Shown
    from lakehouse.serving.http.snapshot import Kept


class ForComparison(Parameters):
    """Which two versions."""

    window: parameters.Window
    version_a: parameters.Version = "first"
    version_b: parameters.Version = "latest"
    limit: Limit = 1000
    offset: Offset = 0


class ForThisTime(Parameters):
    """As of when."""

    at: Annotated[Moment | None, Field(description="The time that counts as now; default: now.")] = None


def routes(lake: Lake) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(prefix="/metrics", tags=["metrics"])

    @router.get("/{name}/compare", response_model=models.ComparisonModel, summary="Two versions of a number side by side")
    async def compare(request: Request, name: MetricName, wanted: Annotated[ForComparison, Query()]) -> Response:
        """Per measure and row of the grain the difference, absolute and in percent; percent is null where the base is 0."""
        metric = lake.metric(name)
        period = parameters.period_of(metric, wanted.window)
        shown = await lake.shown(metric, period.kind)
        kept = shown.kept(period)
        texts = (wanted.version_a, wanted.version_b)
        heads = [parameters.chosen(shown, period, kept, parameters.version_of(text)) for text in texts]
        versions = [await run_in_threadpool(kept.version, shown.series, head) for head, _ in heads]
        compared = await run_in_threadpool(_compared, shown, kept, versions, (wanted.offset, wanted.limit))
        told = zip(("version_a", "version_b"), texts, versions, heads)
        told_of = {side: _side(text, version, note) for side, text, version, (_, note) in told}
        return responses.respond(request, window(shown, period) | told_of | compared)

    @router.get("/{name}/at-this-time", response_model=models.AtThisTimeModel, summary="Yesterday as it was known at this time")
    async def at_this_time(request: Request, name: MetricName, wanted: Annotated[ForThisTime, Query()]) -> Response:
        """Today so far is not to be held against all of yesterday: here is what was known of yesterday at this time of day,
        beside what is known of it now.
        """
        metric = lake.metric(name)
        shown = await lake.shown(metric)
        one = shown.series
        zone = ZoneInfo(one.metric.publication.timezone or "UTC")
        now = _zoned(wanted.at or lake.settings.clock(), zone)
        try:
            today, then = now.date(), now - timedelta(days=1)  # the same time by the wall, also where clocks were changed
        except OverflowError:
            raise Problem(400, "makes-no-sense", "there is no day before that") from None
        wanted_sides = ((then.date(), then, SelectBy.LATEST), (then.date(), now, SelectBy.FINAL), (today, now, SelectBy.LATEST))
        sides = [await run_in_threadpool(_known, shown, *side) for side in wanted_sides]
        names = ("yesterday_at_this_time", "yesterday", "today")
        body: dict[str, Any] = {"metric": one.metric.metric, "series": one.name}
        told = {name: known for name, (known, _) in zip(names, sides)}
        totals = [_totals(shown, version) for _, version in sides]
        body["yesterday_moved"] = responses.moves(_between(totals[0], totals[1]))
        body["today_against_yesterday"] = responses.moves(_between(totals[0], totals[2]))
        ticking = {"at": now} | {name: told[name] for name in names}
        steady = {name: {**told[name], "at": None} for name in names}
        return responses.respond(request, body | steady, ticking)

    return router


def _zoned(moment: datetime, zone: ZoneInfo) -> datetime:
    """:raises Problem: at the ends of the calendar."""
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(zone)
    except OverflowError:
        raise Problem(400, "makes-no-sense", "that time is beyond the calendar") from None


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


def _compared(shown: Shown, kept: Kept, versions: list[PublishedVersion], page: tuple[int, int]) -> dict[str, Any]:
    one, (before, after) = shown.series, versions
    first, last = sorted((before.revision, after.revision))
    known = [kept.version(one, head) for head in kept.heads if first <= head.revision <= last]
    start, names = before.start, (before.name, after.name)
    found = numbers_history.comparison(one, {start: before}, {start: after}, names, after.published_at, known={start: known})
    offset, limit = page
    changes = [
        {"grain": dict(change.grain), "measure": change.measure, **responses.sides(change.sides)}
        for change in found.changes[offset : offset + limit]
    ]
    more = offset + len(changes)
    reason = next((change.reason for change in found.changes), None)
    counted = next((change.rows for change in found.changes), None)
    totals = responses.moves(found.totals())
    paged = {"changes": changes, "total": len(found.changes), "next_offset": more if more < len(found.changes) else None}
    return paged | {"totals": totals, "reason": reason, "changed_rows": counted}


def _known(shown: Shown, day: date, at: datetime, by: SelectBy) -> tuple[dict[str, Any], PublishedVersion | None]:
    """A day's number as it was known at a time: as the answer has it, and as it is."""
    kept = shown.numbers.periods.get(day)
    found = (
        None if kept is None else choose([head for head in kept.heads if head.published_at <= at], VersionSelector(by, by.value))
    )
    if kept is None or found is None:
        return {"window": f"{day}", "at": at, "number": None, "note": "nothing had been published"}, None
    version = kept.version(shown.series, found[0])
    return {"window": f"{day}", "at": at, "number": responses.version(version), "note": found[1]}, version


def _totals(shown: Shown, version: PublishedVersion | None) -> dict[str, Sides]:
    return numbers_history.moved(shown.series, [version])[0] if version is not None else {}


def _between(before: dict[str, Sides], after: dict[str, Sides]) -> dict[str, Sides]:
    """From one number to another, measure by measure."""
    names = dict.fromkeys([*before, *after])
    missing = Sides(None, None)
    return {name: Sides(before.get(name, missing).after, after.get(name, missing).after) for name in names}
