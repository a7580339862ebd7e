"""``/page/lateness``: how late the rows of a source came, what a watermark catches of them, and how that goes day by day."""

from __future__ import annotations

from datetime import date, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.lateness import measurement
from lakehouse.lateness import rules as judging
from lakehouse.serving.http import parameters
from lakehouse.serving.http.parameters import Day, Parameters
from lakehouse.serving.web import charts
from lakehouse.serving.web.page import PREFIX, respond
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from fastapi import APIRouter

    from lakehouse.contracts import SourceContract
    from lakehouse.lateness.measurement import EventTypeLateness, LatenessMeasurement
    from lakehouse.serving.http.published_cache import Lake

_CHOICES = (7, 28, 92)
_KEPT = 32
_PERCENTILES = ("p50", "p95", "p99")


class ForLateness(Parameters):
    """Of which source, and which arrival days: so many ``through`` a day, by default the newest."""

    source: Annotated[str | None, Field(pattern=parameters.NAME)] = None
    through: Day | None = None
    days: Annotated[int, Field(ge=1, le=max(_CHOICES))] = 28


def add(router: APIRouter, lake: Lake) -> None:
    """Add the page."""

    @lru_cache(_KEPT)
    def measured(source: str, first: date, last: date, _version: int) -> dict[str, Any]:
        contract = lake.source(source)
        found = measurement.measure(lake.settings, contract, first, last)
        return _told(contract, found) | _trend(measurement.by_day(lake.settings, contract, first, last))

    def looked_at(wanted: ForLateness) -> dict[str, Any]:
        every = sorted(lake.catalog.sources)
        newest = {name: measurement.newest_arrival(lake.settings, name) for name in every}
        known = [name for name in every if newest[name] is not None]
        source = lake.source(wanted.source).dataset if wanted.source else next(iter(known or every), None)
        about = {"sources": every, "source": source, "days": wanted.days, "choices": _CHOICES}
        last = None if source is None else newest[source]
        if source is None or last is None:
            return about | {"found": None, "first": None, "last": None}
        _, through = parameters.span(wanted.through or last, wanted.through or last)
        first, last = measurement.window(through, wanted.days)
        version = table_io.version(locations.dispositions(lake.settings, source), lake.settings.storage_options)
        found = measured(source, first, last, version)
        return about | {"found": found, "first": first, "last": last}

    @router.get(PREFIX + "/lateness")
    async def late(request: Request, wanted: Annotated[ForLateness, Query()]) -> Response:
        return respond(request, "lateness", "lateness", await run_in_threadpool(looked_at, wanted))


def _told(contract: SourceContract, found: LatenessMeasurement) -> dict[str, Any]:
    types = [_type(contract, of_type, found.next_day) for of_type in found.largest_first]
    beyond = [one["beyond"] for one in types if one["beyond"] is not None]
    return {
        "rows": found.rows,
        "late": found.late,
        "beyond": judging.late_share(sum(beyond), found.rows) if beyond else None,
        "unclocked": found.unclocked,
        "contract": contract.lateness,
        "types": types,
        "dispositions": found.dispositions.most_common(),
        **_without_own(contract, found),
    }


def _type(contract: SourceContract, of_type: EventTypeLateness, day: date) -> dict[str, Any]:
    watermark = contract.lateness.as_of(of_type.event_type, day).watermark
    counts = {"type": of_type.event_type, "rows": of_type.rows, "late": of_type.late, "most": of_type.latest}
    bounds = {"watermark": watermark, "beyond": of_type.beyond(watermark)}
    return counts | judging.percentiles(of_type.seconds, _PERCENTILES) | bounds


def _without_own(contract: SourceContract, found: LatenessMeasurement) -> dict[str, Any]:
    """The rows that the source's own bounds are for: those of the event types without others, which ``own`` names."""
    seconds, expected = measurement.pools(contract, found)[None], contract.lateness.expected
    proposals = measurement.proposals(contract, found)
    proposal = proposals.pop(None)
    watermark = proposal.current
    bounds = [charts.Bound("expected", f"on time: {format_duration(expected)}", _whole(expected))]
    if watermark is not None:
        bounds.append(charts.Bound("watermark", f"watermark: {format_duration(watermark)}", _whole(watermark)))
    if proposal.moves and proposal.watermark is not None:
        bounds.append(charts.Bound("asked", f"asked for: {format_duration(proposal.watermark)}", _whole(proposal.watermark)))
    return {
        "own": {kind: one for kind, one in proposals.items() if one.rows},
        "watermark": watermark,
        "proposal": proposal,
        "evidence": judging.evidence(seconds, [watermark, proposal.watermark, expected]),
        "distribution": charts.distribution(tuple(int(one) for one in seconds), tuple(bounds)) if len(seconds) else None,
        "bounds": bounds,
    }


def _trend(days: dict[date, Any]) -> dict[str, Any]:
    lines = [
        {"day": f"{day}", "rows": len(seconds)} | judging.percentiles(seconds, _PERCENTILES) for day, seconds in days.items()
    ]
    columns = [tuple(line[name] for line in lines) for name in ("day", *_PERCENTILES)]
    return {"trend": lines, "chart": charts.trend(*columns) if lines else None}


def _whole(bound: timedelta) -> int:
    return int(bound.total_seconds())
