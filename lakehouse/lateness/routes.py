"""``/sources/{source}/watermark`` and ``/data-quality``: a source's watermark with its tuning, and the lateness of its rows.

The watermark route has the event-time watermark and the tuning of its ``max_lateness``; ``/data-quality`` the lateness of rows,
the proposed watermark, and the numbers that changed after publication. The response models are in this module, too.
"""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, time, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse.calendar.periods import Kind
from lakehouse.dispositions import account_tables
from lakehouse.gold.numbers.routes import window
from lakehouse.lateness import event_watermark, measurement, recommendation
from lakehouse.lateness import rules as judging
from lakehouse.lateness.max_lateness import DecisionKind
from lakehouse.lateness.recommendation import percentiles_as_json, proposal_as_json, recommendation_as_json, state_as_json
from lakehouse.serving import parameters, quality_models, responses
from lakehouse.serving.models import Shape
from lakehouse.serving.parameters import Day, Limit, NoParameters, Offset, Parameters, SourceName
from lakehouse.serving.quality_models import QuantilesModel, RecommendationModel
from lakehouse.serving.responses import Problem

if TYPE_CHECKING:
    from collections.abc import Hashable

    from lakehouse.contracts import SourceContract
    from lakehouse.lateness.measurement import EventTypeLateness, LatenessMeasurement
    from lakehouse.serving.published_cache import PublishedCache, PublishedSeries
    from lakehouse.serving.snapshot import VersionSummary


#: The greatest number of arrival days of a request, and the greatest number of event types listed.
_DAYS, _TYPES = 92, 50
_ANSWERS = 64


class LatenessParameters(Parameters):
    """The arrival days to measure."""

    start_date: Day
    end_date: Day
    source: Annotated[str | None, Field(pattern=parameters.NAME, description="One source; default: all.")] = None


class RestatementsParameters(Parameters):
    """The days of publication, and the metrics."""

    start_date: Day
    end_date: Day
    metric: Annotated[str | None, Field(pattern=parameters.NAME, description="One metric; default: all.")] = None
    by: Annotated[Kind | None, Field(description="One length of period; default: all.")] = None
    limit: Limit = 100
    offset: Offset = 0


def data_quality_routes(cache: PublishedCache) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(prefix="/data-quality", tags=["data quality"])

    @lru_cache(_ANSWERS)
    def measured(source: str, start: date, end: date, _version: Hashable) -> dict[str, Any]:
        contract = cache.source(source)
        of_rows = measurement.measure(cache.lake, contract, start, end)
        late = measurement.sums_of(measurement.late_dispositions(cache.lake, contract, start, end))
        recommended = [one.as_json() for one in recommendation.advice_of_source(cache.lake, contract, of_rows)]
        return (
            _source(contract, of_rows)
            | {f"late_{name}": count for name, count in late.items()}
            | {"recommendations": recommended}
        )

    def source_lateness(source: str, start: date, end: date) -> dict[str, Any]:
        return measured(source, start, end, measurement.version(cache.lake, source))

    @router.get("/lateness", response_model=quality_models.LatenessModel, summary="How late rows arrived")
    async def late(request: Request, wanted: Annotated[LatenessParameters, Query()]) -> Response:
        """The lateness of the rows that arrived from `start_date` through `end_date`, 92 days at most: shares, percentiles per
        source and event type, dispositions, the treatment of late rows, recommendations with their severity, and the proposed
        cutoff with the shares of rows that other cutoffs would have caught.
        """
        start, end = parameters.span(wanted.start_date, wanted.end_date)
        if (end - start).days >= _DAYS:
            raise Problem(400, "too-much", f"request {_DAYS} days at most")
        names = [cache.source(wanted.source).dataset] if wanted.source else sorted(cache.catalog.sources)
        lateness = [await run_in_threadpool(source_lateness, name, start, end) for name in names]
        return responses.respond(request, {"start_date": start, "end_date": end, "sources": lateness})

    @router.get(
        "/restatements", response_model=quality_models.RestatementsModel, summary="Numbers that were restated or adjusted"
    )
    async def restated(request: Request, wanted: Annotated[RestatementsParameters, Query()]) -> Response:
        """Restatements and adjustments published from `start_date` through `end_date` (UTC), newest first.

        The growth of a running period is none.
        """
        start, end = parameters.span(wanted.start_date, wanted.end_date)
        names = [cache.metric(wanted.metric).name] if wanted.metric else sorted(cache.catalog.metrics)
        published, unreadable = await cache.readable(names, wanted.by)
        page = (wanted.offset, wanted.limit)
        body = await run_in_threadpool(_restated, published, start, end, page)
        return responses.respond(request, {"start_date": start, "end_date": end, "unreadable": unreadable} | body)

    return router


def _source(contract: SourceContract, measured: LatenessMeasurement) -> dict[str, Any]:
    rows, late = measured.rows, measured.late
    dispositions = measured.dispositions
    return {
        "source": contract.dataset,
        "expected_seconds": contract.lateness.expected,
        "rows": rows,
        "on_time_share": round((rows - late) / rows, 6) if rows else None,
        "late_share": round(judging.late_share(late, rows), 6) if rows else None,
        "seconds": percentiles_as_json(measurement.together(measured.types)),
        "without_event_time": measured.unclocked,
        "accepted": sum(dispositions[name] for name in measurement.ACCEPTED),
        "quarantined": dispositions["quarantined"],
        "dropped": dispositions["dropped"],
        "dispositions": dict(dispositions),
        "recommendation": proposal_as_json(measurement.proposals(contract, measured)[None], contract.lateness.tuning.catch),
        "event_types": [_type(contract, of_type, measured.next_day) for of_type in measured.largest_first[:_TYPES]],
        "event_types_left_out": max(len(measured.types) - _TYPES, 0),
        "skewed": measured.skewed,
        "history": measured.historical,
        "tiers": [
            {
                "within_seconds": late.tier.within,
                "serves": late.tier.serves,
                "tolerated_share": late.tier.tolerated,
                "beyond": late.beyond,
                "share": round(late.share, 6),
                "is_exceeded": late.is_exceeded,
            }
            for late in measurement.beyond_tiers(contract, measured)
        ],
    }


def _type(contract: SourceContract, of_type: EventTypeLateness, day: date) -> dict[str, Any]:
    bounds = contract.lateness.as_of(of_type.event_type, day)
    proposal = judging.propose(of_type.seconds, bounds.watermark, bounds.tuning)
    return {
        "event_type": of_type.event_type,
        "rows": of_type.rows,
        "on_time": of_type.on_time,
        "on_time_share": round(of_type.on_time / of_type.rows, 6),
        "late_share": round(judging.late_share(of_type.late, of_type.rows), 6),
        "seconds": percentiles_as_json(of_type.seconds),
        "recommendation": proposal_as_json(proposal, bounds.tuning.catch),
    }


def restatements(published: list[PublishedSeries], start: date, end: date) -> list[tuple[PublishedSeries, date, VersionSummary]]:
    """The numbers that changed from ``start`` through ``end`` (UTC), newest first: series, first day of the period, version."""
    first = datetime.combine(start, time.min, timezone.utc)
    following = datetime.combine(end + timedelta(days=1), time.min, timezone.utc)
    restated = [
        (series, day, summary)
        for series in published
        for day, period_versions in series.numbers.periods.items()
        for summary in period_versions.summaries
        if summary.restates and first <= summary.published_at < following
    ]
    return sorted(restated, key=lambda of: (of[2].published_at, of[0].series.name, of[1], of[2].first_row), reverse=True)


def _restated(published: list[PublishedSeries], start: date, end: date, page: tuple[int, int]) -> dict[str, Any]:
    restated = restatements(published, start, end)
    offset, limit = page
    entries = [_restatement(*entry) for entry in restated[offset : offset + limit]]
    more = offset + len(entries)
    return {
        "restatements": entries,
        "total": len(restated),
        "by_reason": dict(Counter(summary.reason for *_, summary in restated)),
        "by_state": dict(Counter(summary.state.value for *_, summary in restated)),
        "next_offset": more if more < len(restated) else None,
    }


def _restatement(published: PublishedSeries, day: date, summary: VersionSummary) -> dict[str, Any]:
    period_versions = published.numbers.periods[day]
    place = period_versions.summaries.index(summary)
    ((version, moved),) = period_versions.moved(published.series, place, place + 1)
    values = responses.version(version)
    names = ("version", "version_name", "state", "reason", "restatement_reason", "changed_rows", "booked_on", "signed_off_by")
    which = window(published, published.series.period(day)) | {name: values[name] for name in names}
    return which | {"restated_on": summary.published_at, "moved": responses.moves(moved)}


class TypeQuantilesModel(Shape):
    """The lateness of one event type."""

    event_type: str
    rows: int
    seconds: QuantilesModel


class TradeOffModel(Shape):
    """The consequences of a `max_lateness`."""

    max_lateness_seconds: int
    share: float = Field(description="The share of rows that came within it.")
    delay_seconds: int | None = Field(description="How long after its end a day was over by the watermark; the median.")
    open_days: int = Field(description="Event days that were not over at the newest arrival.")


class MaxLatenessAdviceModel(Shape):
    """The lateness of the rows of the newest arrival days, and the proposal."""

    first: date
    last: date
    rows: int
    skewed: int
    history: int = Field(description="Rows of a first load or a backfill plan, which are left out.")
    without_event_time: int
    seconds: QuantilesModel | None
    event_types: list[TypeQuantilesModel]
    proposal: RecommendationModel
    next_step_seconds: int | None = Field(description="The value after the next daily step; null if it stays.")
    trade_offs: list[TradeOffModel]


class MaxLatenessDecisionModel(Shape):
    """A decision of tuning, or of a person."""

    number: int
    kind: DecisionKind
    seconds_before: int
    seconds: int
    by: str
    reason: str
    automatic: bool
    decided_at: datetime
    evidence: dict[str, Any]


class TuningTermsModel(Shape):
    """The section `tuning` of the contract."""

    auto: bool
    catch: float
    at_least_seconds: int
    at_most_seconds: int
    band: float
    days: int
    rows: int
    event_types: list[str]


class MaxLatenessModel(Shape):
    """The `max_lateness` in force, and its origin."""

    max_lateness_seconds: int
    contract_seconds: int
    pinned: MaxLatenessDecisionModel | None = Field(description="The decision by which tuning leaves the value alone.")
    tuning: TuningTermsModel
    decisions: list[MaxLatenessDecisionModel]
    recommendation: MaxLatenessAdviceModel | None = Field(description="Null until something has arrived.")


class WatermarkModel(Shape):
    """The event-time watermark of a source."""

    source: str
    strategy: str
    watermark: datetime | None = Field(description="Everything before it is expected to have arrived; null if nothing is.")
    moved_by: str | None = Field(description="The delivery that moved it there.")
    newest_arrival: datetime | None
    skewed: int = Field(description="Rows whose event lies ahead of their arrival.")
    tuning: MaxLatenessModel | None = Field(description="Null if the strategy has no `max_lateness`.")


def watermark_routes(cache: PublishedCache) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(prefix="/sources", tags=["sources"])

    @lru_cache(_ANSWERS)
    def measured(source: str, current: timedelta, _version: int, _today: date) -> dict[str, Any] | None:
        contract = cache.source(source)
        watermark = recommendation.tunable(contract)
        advice = recommendation.recommend(cache.lake, contract, current) if watermark else None
        return recommendation_as_json(advice, watermark.tuning.catch) if watermark and advice else None

    def body(source: str) -> dict[str, Any]:
        lake, contract = cache.lake, cache.source(source)
        watermark = event_watermark.of_source(lake, contract)
        if watermark is None:
            raise Problem(404, "no-watermark", f"the contract of {source} has no clocks.watermark")
        has_moved = watermark.watermark != event_watermark.BEGINNING
        moved, tuning = watermark.moved_by, None
        if recommendation.tunable(contract):
            state = recommendation.state_of(lake, contract)
            version = account_tables.version(lake, source)
            advice = measured(source, state.in_force.max_lateness, version, lake.now().astimezone(timezone.utc).date())
            tuning = state_as_json(state) | {"recommendation": advice}
        return {
            "source": source,
            "strategy": watermark.strategy.strategy,
            "watermark": watermark.watermark if has_moved else None,
            "moved_by": moved.delivery.source_file if moved else None,
            "newest_arrival": watermark.steps[-1].arrived if watermark.steps else None,
            "skewed": watermark.skewed,
            "tuning": tuning,
        }

    @router.get("/{source}/watermark", response_model=WatermarkModel, summary="The event-time watermark of a source")
    async def watermark(request: Request, source: SourceName, _: NoParameters) -> Response:
        """The time before which all data is assumed to have arrived. Includes the `max_lateness` in force, the evidence from the
        newest arrival days, and the decisions that changed it.
        """
        return responses.respond(request, await run_in_threadpool(body, source))

    return router
