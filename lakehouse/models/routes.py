"""``/models`` and ``/promotions``: models with champion, versions and lineage; the promotions of data and models.

``/promotions`` has the promotions and rollbacks of data and models in one form, as JSON or as JSON lines.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from lakehouse.models import backtest_log, canary_log, lineage, promotion_log
from lakehouse.serving import released_models, responses
from lakehouse.serving.parameters import NAME, NoParameters, Parameters
from lakehouse.serving.responses import Problem
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseError, ReleaseKind
from lakehouse.training_sets.routes import ReleasedVersion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.models.backtest_log import Backtest
    from lakehouse.models.lineage import ModelLineage
    from lakehouse.models.promotion_log import ModelPromotion
    from lakehouse.serving.published_cache import PublishedCache
    from lakehouse.training_sets.releases import Release


ModelName = Annotated[str, Path(description="The name of a model.", pattern=NAME, examples=["fraud"])]
_OF_BACKTESTS = ("version", "against", "first_month", "last_month", "passed", "failed", "recorded_at")


def version_routes(cache: PublishedCache) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(prefix="/models", tags=["models"])

    @router.get("", response_model=released_models.ModelsModel, summary="Every model at a glance")
    async def models(request: Request, _: NoParameters) -> Response:
        """All models, each with its champion and the champion's training set, its newest backtest, and its canary."""
        return responses.respond(request, {"models": await run_in_threadpool(summaries, cache)})

    @router.get("/{name}", response_model=released_models.ModelDetailsModel, summary="A model and its versions")
    async def model(request: Request, name: ModelName, _: NoParameters) -> Response:
        """A model in the form of the list, with all its versions."""
        return responses.respond(request, await run_in_threadpool(details, cache, name))

    @router.get(
        "/{name}/versions/{version}",
        response_model=released_models.ModelLineageModel,
        summary="The lineage of a version of a model",
    )
    async def version(request: Request, name: ModelName, version: ReleasedVersion, _: NoParameters) -> Response:
        """The training data of a version, its quality, and its history."""
        body = (await run_in_threadpool(lineage_of, cache, name, version)).as_json()
        for backtest in body["backtests"]:  # the location of the lake is not disclosed
            backtest["report"] = backtest["report"].removeprefix(f"{cache.lake.root}/")
        return responses.respond(request, body)

    return router


def summaries(cache: PublishedCache) -> list[dict[str, Any]]:
    """All models with a contract or a version, by name."""
    released: dict[str, list[Release]] = {name: [] for name in cache.catalog.models}
    for entry in releases.all_of(cache.reading, ReleaseKind.MODEL):
        released.setdefault(entry.name, []).append(entry)
    return [_summary(cache, name, versions) for name, versions in sorted(released.items())]


def details(cache: PublishedCache, name: str) -> dict[str, Any]:
    """A model with its versions.

    :raises Problem: if no model has that name.
    """
    versions = releases.all_of(cache.lake, ReleaseKind.MODEL, name)
    if not versions and name not in cache.catalog.models:
        raise Problem(404, "unknown-model", f"there is no model {name!r}; GET /models lists them")
    summary = _summary(cache, name, versions)
    deprecations = releases.deprecations(cache.lake, ReleaseKind.MODEL, name)
    champion, canary = summary["champion"], summary["canary"]
    states = {canary["challenger"]: "challenger"} if canary else {}
    states |= {champion["version"]: "champion"} if champion else {}
    return summary | {"released": [_version(entry, states, deprecations) for entry in versions]}


def lineage_of(cache: PublishedCache, name: str, version: str) -> ModelLineage:
    """The lineage of a version, with its canaries.

    :raises Problem: if the version does not exist.
    """
    events = canary_log.events_of(cache.lake, name, version)
    try:
        return lineage.of(cache.lake, name, version, events)
    except ReleaseError as problem:
        raise Problem(404, "unknown-version", f"{problem}; GET /models/{name} lists them") from None


def _summary(cache: PublishedCache, name: str, versions: list[Release]) -> dict[str, Any]:
    lake, contract = cache.reading, cache.catalog.models.get(name)
    promotions, backtests = promotion_log.completed(lake, name), backtest_log.backtests_of(lake, name)
    return {
        "model": name,
        "description": contract.description if contract else "",
        "owner": contract.owner if contract else "",
        "training_set": contract.training_set if contract else None,
        "versions": len(versions),
        "champion": _champion(promotions[-1], versions) if promotions else None,
        "newest_backtest": _backtest(backtests[-1]) if backtests else None,
        "canary": _canary(cache, name),
    }


def _champion(promotion: ModelPromotion, versions: list[Release]) -> dict[str, Any]:
    learned_from = {entry.version: entry.about["training_set"]["full_name"] for entry in versions}
    return {
        "version": promotion.to_version,
        "since": promotion.recorded_at,
        "by": promotion.by,
        "notes": promotion.notes,
        "training_set": learned_from.get(promotion.to_version),
    }


def _backtest(backtest: Backtest) -> dict[str, Any]:
    return {name: getattr(backtest, name) for name in _OF_BACKTESTS}


def _canary(cache: PublishedCache, name: str) -> dict[str, Any] | None:
    canaries = canary_log.of(cache.reading, name)
    if not canaries or canaries[-1].stopped is not None:
        return None
    started, judged = canaries[-1].started, canaries[-1].judged
    return {
        "challenger": started.challenger,
        "champion": started.champion,
        "share": started.share,
        "since": started.recorded_at,
        "outcome": judged.outcome.value if judged and judged.outcome else None,
        "labels": judged.labels if judged else None,
    }


def _version(entry: Release, states: Mapping[str, str], deprecations: Mapping[str, Release]) -> dict[str, Any]:
    about, ended = entry.about, deprecations.get(entry.full_name)
    return {
        "version": entry.version,
        "state": states.get(entry.version, "released" if ended is None else "deprecated"),
        "training_set": about["training_set"]["full_name"],
        "evaluated_on": about["evaluated_on"],
        "metrics": about["metrics"][about["evaluated_on"]],
        "released_at": entry.recorded_at,
        "released_by": entry.by,
        "notes": entry.notes,
        "deprecated": None if ended is None else {"at": ended.recorded_at, "by": ended.by, "notes": ended.notes},
    }


#: The media type of JSON lines.
LINES = "application/x-ndjson"


class PromotionParameters(Parameters):
    """The metric or model whose promotions are returned."""

    name: Annotated[str | None, Field(pattern=NAME, description="Only those of this metric or model.")] = None


def promotion_routes(cache: PublishedCache) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(prefix="/promotions", tags=["models"])
    lines = {"description": "With 'Accept: application/x-ndjson' one promotion a line.", "content": {LINES: {"schema": {}}}}

    @router.get(
        "", response_model=released_models.PromotionsModel, responses={200: lines}, summary="Promotions of data and models"
    )
    async def promotions(request: Request, wanted: Annotated[PromotionParameters, Query()]) -> Response:
        """The promotions and rollbacks of metrics and models, oldest first: author, time, reason, and signed-off rules.

        With `Accept: application/x-ndjson`, the response is a log of JSON lines.
        """
        records = await run_in_threadpool(promotion_log.records, cache.lake, wanted.name)
        if request.headers.get("accept", "").startswith(LINES):
            text = "".join(f"{json.dumps(record, default=str, ensure_ascii=False)}\n" for record in records)
            return responses.respond_with_text(request, text, LINES)
        return responses.respond(request, {"promotions": records})

    return router
