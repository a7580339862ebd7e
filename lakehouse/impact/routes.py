"""``/sources/{source}/impact``: the impact of a delivered file, a key, a decision or days on numbers, training sets and models.

The response models are in this module, too. Local files that were not delivered are never read for a request.
"""

from __future__ import annotations

from asyncio import Semaphore
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse.impact import analysis
from lakehouse.impact.analysis import UnknownSubjectError
from lakehouse.models import lineage
from lakehouse.serving import parameters, responses
from lakehouse.serving.models import Shape
from lakehouse.serving.parameters import Day, Parameters, SourceName
from lakehouse.serving.responses import Problem
from lakehouse.training_sets.affected import columns_searched

if TYPE_CHECKING:
    from lakehouse.contracts import SourceContract
    from lakehouse.impact.analysis import Impact
    from lakehouse.serving.published_cache import PublishedCache


#: The number of requests analysed at once, and the number of days in a request.
_AT_ONCE, _MOST_DAYS = 2, 400
_SUBJECTS = ("file", "key", "decision", "start_date")


class ImpactParameters(Parameters):
    """The subject to analyse: exactly one of file, key, decision and start_date."""

    file: Annotated[str | None, Field(min_length=1, max_length=500, description="The name of a delivered file.")] = None
    key: Annotated[str | None, Field(min_length=1, max_length=500, description="A record key.")] = None
    decision: Annotated[str | None, Field(pattern="^[a-z]+:[0-9a-f]{1,64}$", description="A steward's decision.")] = None
    start_date: Annotated[Day | None, Field(description="The first event day.")] = None
    end_date: Annotated[Day | None, Field(description="The last event day; default: the first.")] = None


class AffectedPeriodModel(Shape):
    """A period of a series, and the outcome of a change of its days for its number."""

    series: str
    period: str
    start: date
    version: str | None
    state: str | None
    outcome: Literal["published", "restated", "adjusted", "unchanged"]
    booked_to: date | None
    held: bool = Field(description="Whether a newer number waits for a person.")


class PublishedBecauseModel(Shape):
    """A version that was published because of the subject."""

    series: str
    period: str
    version: str
    state: str
    reason: str
    published_at: datetime
    publication_id: str


class AffectedSetModel(Shape):
    """A training set with affected rows."""

    name: str
    version: str
    rows: int | None = Field(description="Null if its table is gone.")
    total: int
    share: float | None


class AffectedModelModel(Shape):
    """A model version trained on such a set."""

    model: str
    version: str
    training_set: str
    is_live: bool = Field(description="Whether it is the champion.")
    is_challenger: bool = Field(description="Whether a canary of it is running.")


class AffectedReleasesModel(Shape):
    """The affected labels, training sets and models."""

    labels: list[str]
    training_sets: list[AffectedSetModel]
    models: list[AffectedModelModel]


class ImpactModel(Shape):
    """The impact of the subject. `applied` is false if it has not happened yet."""

    source: str
    about: str
    applied: bool
    days: list[date] = Field(description="The event days of silver.")
    rows: dict[str, int] = Field(description="The rows of a file by event day.")
    out: dict[str, int] = Field(description="Rows that change nothing, by reason.")
    waiting: list[date] = Field(description="Days on which silver does not contain it yet.")
    lives_on: list[date] = Field(description="Of a key: the days on which it is now.")
    periods: list[AffectedPeriodModel]
    moved: list[PublishedBecauseModel]
    readers: dict[str, list[str]] = Field(description="The consumers of each metric.")
    models: list[str] = Field(description="Metrics that are computed from these.")
    notes: list[str]
    released: AffectedReleasesModel


def routes(cache: PublishedCache) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(prefix="/sources", tags=["lineage"])
    at_once = Semaphore(_AT_ONCE)

    @router.get("/{source}/impact", response_model=ImpactModel, summary="What a correction affects")
    async def impact(request: Request, source: SourceName, wanted: Annotated[ImpactParameters, Query()]) -> Response:
        """The days, published numbers and readers affected by a file, a key, a decision or a range of days; and the affected
        released labels, training sets and model versions.
        """
        contract = cache.source(source)
        _check(wanted)
        async with at_once:
            body = await run_in_threadpool(_body, cache, contract, wanted)
        return responses.respond(request, body)

    return router


def _check(wanted: ImpactParameters) -> None:
    """:raises Problem: unless exactly one subject is given, and the days are in order."""
    if sum(getattr(wanted, name) is not None for name in _SUBJECTS) != 1:
        raise Problem(400, "makes-no-sense", f"pass one of {', '.join(_SUBJECTS)}")
    if wanted.end_date is not None:
        if wanted.start_date is None:
            raise Problem(400, "makes-no-sense", "end_date needs a start_date")
        first, last = parameters.span(wanted.start_date, wanted.end_date)
        if (last - first).days >= _MOST_DAYS:
            raise Problem(400, "makes-no-sense", f"at most {_MOST_DAYS} days are analysed at once")


def _body(cache: PublishedCache, contract: SourceContract, wanted: ImpactParameters) -> dict[str, Any]:
    try:
        result = _analysed(cache, contract, wanted)
    except UnknownSubjectError:
        subject = f"file {wanted.file}" if wanted.file else f"key {wanted.key}" if wanted.key else f"decision {wanted.decision}"
        raise Problem(404, "unknown-subject", f"{contract.dataset} has no {subject}") from None
    released = lineage.of_impact(cache.lake.cached(), contract, result)
    return result.as_json() | {"released": released.as_json()}


def _analysed(cache: PublishedCache, contract: SourceContract, wanted: ImpactParameters) -> Impact:
    lake, catalog, source = cache.lake.cached(), cache.catalog, contract.dataset
    if wanted.file is not None:
        values_of = columns_searched(lake, contract)
        return analysis.of_delivered_file(lake, catalog, source, wanted.file, values_of)
    if wanted.decision is not None:
        return analysis.of_decision(lake, catalog, source, wanted.decision)
    if wanted.start_date is not None:
        first, last = parameters.span(wanted.start_date, wanted.end_date or wanted.start_date)
        return analysis.of_days(lake, catalog, source, first, last)
    return analysis.of_key(lake, catalog, source, wanted.key or "")
