"""``/sources/{source}/watermark``: the event-time watermark of a source, and the tuning of its ``max_lateness``.

The response models are in this module, too.
"""

from __future__ import annotations

from datetime import date, datetime, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.lateness import event_watermark
from lakehouse.lateness.tuning import recommendation
from lakehouse.lateness.tuning.history import DecisionKind
from lakehouse.lateness.tuning.report import recommendation_as_json, state_as_json
from lakehouse.serving.api.models import Shape
from lakehouse.serving.api.quality_models import QuantilesModel, RecommendationModel
from lakehouse.serving.http import responses
from lakehouse.serving.http.parameters import NoParameters, SourceName
from lakehouse.serving.http.problems import Problem

if TYPE_CHECKING:
    from datetime import timedelta

    from lakehouse.serving.http.published_cache import PublishedCache

_ANSWERS = 64


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


def routes(cache: PublishedCache) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(prefix="/sources", tags=["sources"])

    @lru_cache(_ANSWERS)
    def measured(source: str, current: timedelta, _version: int, _today: date) -> dict[str, Any] | None:
        contract = cache.source(source)
        watermark = recommendation.tunable(contract)
        advice = recommendation.recommend(cache.settings, contract, current) if watermark else None
        return recommendation_as_json(advice, watermark.tuning.catch) if watermark and advice else None

    def body(source: str) -> dict[str, Any]:
        settings, contract = cache.settings, cache.source(source)
        watermark = event_watermark.of_source(settings, contract)
        if watermark is None:
            raise Problem(404, "no-watermark", f"the contract of {source} has no clocks.watermark")
        has_moved = watermark.watermark != event_watermark.BEGINNING
        moved, tuning = watermark.moved_by, None
        if recommendation.tunable(contract):
            state = recommendation.state_of(settings, contract)
            version = table_io.version(locations.dispositions(settings, source), settings.storage_options)
            advice = measured(source, state.in_force.max_lateness, version, settings.clock().astimezone(timezone.utc).date())
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
