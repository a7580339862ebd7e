"""``/health``: whether published numbers can be read."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from lakehouse.serving.api import quality_models
from lakehouse.serving.http import responses
from lakehouse.serving.http.parameters import NoParameters

if TYPE_CHECKING:
    from lakehouse.serving.http.published_cache import PublishedCache


def routes(cache: PublishedCache, *, lists_metrics: bool) -> APIRouter:
    """The routes of this resource.

    :param lists_metrics: whether the response names the metrics.
    """
    router = APIRouter(prefix="/health", tags=["health"])

    @router.get("", response_model=quality_models.HealthModel, summary="Whether numbers can be read")
    async def health(request: Request, _: NoParameters) -> Response:
        """Reads every metric's table; returns 503 if one cannot be read."""
        published = [await cache.published(cache.catalog.metrics[name]) for name in sorted(cache.catalog.metrics)]
        metrics = [
            {"metric": name, "table_version": series.numbers.version, "periods": len(series.numbers.periods)}
            for name, series in zip(sorted(cache.catalog.metrics), published)
        ]
        body = {"status": "ok", "version": metadata.version("lakehouse"), "metrics": metrics if lists_metrics else []}
        return responses.respond(request, body, {"now": cache.lake.now()})

    return router
