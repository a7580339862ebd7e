"""``/lineage``: the inputs, code and contract of a number, and the trigger of its publication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from lakehouse.ledger import publications
from lakehouse.serving.api import quality_models
from lakehouse.serving.api.metrics import window
from lakehouse.serving.http import parameters, responses
from lakehouse.serving.http.parameters import MetricName, Parameters, WindowName

if TYPE_CHECKING:
    from lakehouse.serving.http.published_cache import PublishedCache
    from lakehouse.settings import Settings

_SAID = ("inputs", "inputs_without", "known_through", "silver_version", "code_version", "contract_version", "run_id")
_COMMIT = ("publication_id", "gold_version", "recorded_at", "job_name", "trigger", "input_versions", "validation", "keys")


class LineageParameters(Parameters):
    """The version whose lineage is returned."""

    version: parameters.Version = "latest"


def routes(cache: PublishedCache) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(prefix="/lineage", tags=["lineage"])

    @router.get("/{name}/{window_name}", response_model=quality_models.LineageModel, summary="The lineage of a number")
    async def lineage(
        request: Request, name: MetricName, window_name: WindowName, wanted: Annotated[LineageParameters, Query()]
    ) -> Response:
        """The inputs of its revision, the commit that published it, and what that affects downstream."""
        metric = cache.metric(name)
        period = parameters.period_of(metric, window_name)
        published = await cache.published(metric, period.kind)
        period_versions = published.versions_of(period)
        summary, _ = parameters.chosen(published, period, period_versions, parameters.version_of(wanted.version))
        version = period_versions.version(published.series, summary)
        body = window(published, period) | {"version": version.label, "version_name": version.name, "state": version.state.value}
        body |= {name: version.row[name] for name in (*_SAID, "signed_off_by", "sign_off_reason")}
        body |= {"source": published.series.metric.source, "made_from": version.made_from.as_json()}
        publication_id = version.row["publication_id"]
        body["publication"] = await run_in_threadpool(_publication, cache.settings, published.series.name, publication_id)
        return responses.respond(request, body)

    return router


def _publication(settings: Settings, series: str, publication_id: str) -> dict[str, Any] | None:
    publication = publications.find(settings, series, publication_id)
    if publication is None:
        return None
    return {name: getattr(publication, name) for name in _COMMIT} | {"downstream": publication.downstream}
