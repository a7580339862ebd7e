"""``/health``: whether numbers can be read."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from lakehouse.serving.api import quality_models
from lakehouse.serving.http import responses
from lakehouse.serving.http.parameters import NoParameters

if TYPE_CHECKING:
    from lakehouse.serving.http.published_cache import Lake


def routes(lake: Lake, *, tells: bool) -> APIRouter:
    """The routes of this resource.

    :param tells: whether metrics are named to everybody.
    """
    router = APIRouter(prefix="/health", tags=["health"])

    @router.get("", response_model=quality_models.HealthModel, summary="Whether numbers can be read")
    async def health(request: Request, _: NoParameters) -> Response:
        """Looks at every metric's table; 503 where one cannot be read."""
        shown = [await lake.shown(lake.catalog.metrics[name]) for name in sorted(lake.catalog.metrics)]
        metrics = [
            {"metric": name, "table_version": one.numbers.version, "periods": len(one.numbers.periods)}
            for name, one in zip(sorted(lake.catalog.metrics), shown)
        ]
        body = {"status": "ok", "version": metadata.version("lakehouse"), "metrics": metrics if tells else []}
        return responses.respond(request, body, {"now": lake.settings.clock()})

    return router
