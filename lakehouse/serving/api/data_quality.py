"""``/data-quality``: how late rows come, which watermark that asks for, and which numbers were changed after publication."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, time, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.delta import table_io
from lakehouse.lateness import measurement
from lakehouse.lateness import rules as judging
from lakehouse.serving.api import quality_models
from lakehouse.serving.api.metrics import window
from lakehouse.serving.http import parameters, responses
from lakehouse.serving.http.parameters import Day, Limit, Offset, Parameters
from lakehouse.serving.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.contracts import SourceContract
    from lakehouse.lateness.measurement import EventTypeLateness, LatenessMeasurement
    from lakehouse.lateness.rules import Proposal
    from lakehouse.serving.http.published_cache import Lake, Shown
    from lakehouse.serving.http.snapshot import Head

#: So many arrival days are measured at once, and so many event types are told apart.
_DAYS, _TYPES = 92, 50
_ACCEPTED = ("applied", "superseded", "duplicate")
_ANSWERS = 64


class ForLateness(Parameters):
    """Which arrival days."""

    start_date: Day
    end_date: Day
    source: Annotated[str | None, Field(pattern=parameters.NAME, description="One source; default: all.")] = None


class ForRestatements(Parameters):
    """When, and of what."""

    start_date: Day
    end_date: Day
    metric: Annotated[str | None, Field(pattern=parameters.NAME, description="One metric; default: all.")] = None
    by: Annotated[Kind | None, Field(description="One length of period; default: all.")] = None
    limit: Limit = 100
    offset: Offset = 0


def routes(lake: Lake) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(prefix="/data-quality", tags=["data quality"])

    @lru_cache(_ANSWERS)
    def measured(source: str, start: date, end: date, _version: int) -> dict[str, Any]:
        contract = lake.source(source)
        return _source(contract, measurement.measure(lake.settings, contract, start, end))

    def source_told(source: str, start: date, end: date) -> dict[str, Any]:
        version = table_io.version(locations.dispositions(lake.settings, source), lake.settings.storage_options)
        return measured(source, start, end, version)

    @router.get("/lateness", response_model=quality_models.LatenessModel, summary="How late rows came")
    async def late(request: Request, wanted: Annotated[ForLateness, Query()]) -> Response:
        """Measured on the rows that arrived from one day through another, 92 days at most: shares, percentiles per source and
        event type, what became of the rows, and which watermark they ask for, with what others would have caught.
        """
        start, end = parameters.span(wanted.start_date, wanted.end_date)
        if (end - start).days >= _DAYS:
            raise Problem(400, "too-much", f"ask for {_DAYS} days at most")
        names = [lake.source(wanted.source).dataset] if wanted.source else sorted(lake.catalog.sources)
        told = [await run_in_threadpool(source_told, name, start, end) for name in names]
        return responses.respond(request, {"start_date": start, "end_date": end, "sources": told})

    @router.get(
        "/restatements", response_model=quality_models.RestatementsModel, summary="Numbers that changed after publication"
    )
    async def restated(request: Request, wanted: Annotated[ForRestatements, Query()]) -> Response:
        """Revisions with other content, and adjustments, that were published from one day through another (UTC); newest first."""
        start, end = parameters.span(wanted.start_date, wanted.end_date)
        names = [lake.metric(wanted.metric).name] if wanted.metric else sorted(lake.catalog.metrics)
        shown = await lake.every(names, wanted.by)
        page = (wanted.offset, wanted.limit)
        body = await run_in_threadpool(_restated, shown, start, end, page)
        return responses.respond(request, {"start_date": start, "end_date": end} | body)

    return router


def _source(contract: SourceContract, measured: LatenessMeasurement) -> dict[str, Any]:
    rows, late = measured.rows, measured.late
    said = measured.dispositions
    return {
        "source": contract.dataset,
        "expected_seconds": contract.lateness.expected,
        "rows": rows,
        "on_time_share": round((rows - late) / rows, 6) if rows else None,
        "late_share": round(judging.late_share(late, rows), 6) if rows else None,
        "seconds": _percentiles(measurement.together(measured.types)),
        "without_event_time": measured.unclocked,
        "accepted": sum(said[one] for one in _ACCEPTED),
        "quarantined": said["quarantined"],
        "dropped": said["dropped"],
        "dispositions": dict(said),
        "recommendation": recommendation(measurement.proposals(contract, measured)[None], contract.lateness.tuning.catch),
        "event_types": [_type(contract, of_type, measured.next_day) for of_type in measured.largest_first[:_TYPES]],
        "event_types_left_out": max(len(measured.types) - _TYPES, 0),
    }


def _type(contract: SourceContract, of_type: EventTypeLateness, day: date) -> dict[str, Any]:
    bounds = contract.lateness.as_of(of_type.event_type, day)
    proposal = judging.propose(of_type.seconds, bounds.watermark, contract.lateness.tuning)
    return {
        "event_type": of_type.event_type,
        "rows": of_type.rows,
        "on_time": of_type.on_time,
        "on_time_share": round(of_type.on_time / of_type.rows, 6),
        "late_share": round(judging.late_share(of_type.late, of_type.rows), 6),
        "seconds": _percentiles(of_type.seconds),
        "recommendation": recommendation(proposal, contract.lateness.tuning.catch),
    }


def _percentiles(seconds: Sequence[int]) -> dict[str, int | None] | None:
    """None of no rows."""
    if not len(seconds):
        return None
    named = {name.replace(".", "_"): value for name, value in judging.percentiles(seconds).items()}
    return named | {"max": int(seconds[-1])}


def recommendation(proposal: Proposal, wanted: float) -> dict[str, Any]:
    """A proposal as the answer has it."""
    return {
        "verdict": proposal.verdict.value,
        "wanted_share": wanted,
        "current_seconds": proposal.current,
        "proposed_seconds": proposal.watermark,
        "needed_seconds": proposal.needed,
        "because": proposal.because,
        "evidence": [{"watermark_seconds": one.watermark, "share": round(one.share, 6)} for one in proposal.evidence],
    }


def restatements(shown: list[Shown], start: date, end: date) -> list[tuple[Shown, date, Head]]:
    """Every number that changed from one day through another (UTC), newest first: its series, its period's first day, how."""
    first = datetime.combine(start, time.min, timezone.utc)
    behind = datetime.combine(end + timedelta(days=1), time.min, timezone.utc)
    found = [
        (one, day, head)
        for one in shown
        for day, kept in one.numbers.periods.items()
        for head in kept.heads
        if head.restates and first <= head.published_at < behind
    ]
    return sorted(found, key=lambda of: (of[2].published_at, of[0].series.name, of[1], of[2].first_row), reverse=True)


def _restated(shown: list[Shown], start: date, end: date, page: tuple[int, int]) -> dict[str, Any]:
    found = restatements(shown, start, end)
    offset, limit = page
    told = [_told(*change) for change in found[offset : offset + limit]]
    more = offset + len(told)
    return {
        "restatements": told,
        "total": len(found),
        "by_reason": dict(Counter(head.reason for *_, head in found)),
        "by_state": dict(Counter(head.state.value for *_, head in found)),
        "next_offset": more if more < len(found) else None,
    }


def _told(shown: Shown, day: date, head: Head) -> dict[str, Any]:
    kept = shown.numbers.periods[day]
    place = kept.heads.index(head)
    ((version, moved),) = kept.moved(shown.series, place, place + 1)
    said = responses.version(version)
    names = ("version", "version_name", "state", "reason", "restatement_reason", "changed_rows", "booked_on", "signed_off_by")
    which = window(shown, shown.series.period(day)) | {name: said[name] for name in names}
    return which | {"restated_on": head.published_at, "moved": responses.moves(moved)}
