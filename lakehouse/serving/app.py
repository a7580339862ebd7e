"""The ASGI application: it mounts the API, the pages and ``/health``, and adds the middleware.

Routes belong in the modules ``routes`` and ``pages`` of their capability; this module is the only one that imports both.
``/health`` answers whether published numbers can be read.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING

from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from lakehouse.gold.numbers import comparison_routes
from lakehouse.gold.numbers import routes as numbers
from lakehouse.impact import routes as impact
from lakehouse.lake import Lake
from lakehouse.late_events import routes as late_events
from lakehouse.lateness import routes as lateness
from lakehouse.live import routes as live
from lakehouse.models import routes as models
from lakehouse.serving import overview, pages, quality_models, responses
from lakehouse.serving.openapi import ERRORS, STEWARD_ERRORS, TOKEN_ERRORS, WRITE_ERRORS, DocumentedAPI, problem_responses
from lakehouse.serving.parameters import NoParameters
from lakehouse.serving.published_cache import PublishedCache
from lakehouse.serving.request_guard import ForwardedRequests, RequestGuard, TrustedProxies
from lakehouse.serving.responses import Problem
from lakehouse.serving.tokens import Authenticator
from lakehouse.snapshots import routes as snapshots
from lakehouse.stewardship import routes as stewardship
from lakehouse.training_sets import routes as training_sets

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping

    from fastapi import FastAPI, Response

    from lakehouse.contracts import Catalog
    from lakehouse.settings import Settings

_ABOUT = """Published numbers with their state (live, preliminary or final) and their history.

Every number is one version of a period: `latest`, `final`, `r3`, or what readers saw at a time. Responses have an `ETag`; errors
are problem documents (RFC 9457) with a stable `type`. Decimals are text."""


@dataclass(frozen=True)
class AccessPolicy:
    """Limits on access to the server.

    :param hosts: the accepted host names; empty to accept any.
    :param rate: requests per second from one client address.
    :param proxies: the proxies whose ``X-Forwarded-`` headers are read.
    """

    hosts: Collection[str] = field(default_factory=tuple)
    rate: float = 200.0
    reading_needs_token: bool = False
    proxies: TrustedProxies = field(default_factory=TrustedProxies)


def create(settings: Settings, catalog: Catalog, policy: AccessPolicy | None = None) -> FastAPI:
    """Create the ASGI application for a deployment; it can also run in another ASGI server.

    :param catalog: the contracts, as ``lakehouse.contracts.load_catalog`` reads them.
    :param policy: the limits on access; by default, everyone who reaches the server may read.
    """
    return application_of(Lake(settings), catalog, policy)


def application_of(
    lake: Lake,
    catalog: Catalog,
    policy: AccessPolicy | None = None,
    sensor_ages: Callable[[], Mapping[str, float]] | None = None,
) -> FastAPI:
    """The same for a lake, which may have a clock of its own.

    :param sensor_ages: reads the seconds since the last tick of each sensor, for ``/prometheus``.
    """
    policy = policy or AccessPolicy()
    cache = PublishedCache(lake, catalog)
    authenticator = Authenticator(cache)

    async def fill() -> None:
        await cache.fill()
        with suppress(Exception):  # the page reports it
            await overview.kept(cache)

    @asynccontextmanager
    async def fill_cache(_: FastAPI) -> AsyncIterator[None]:
        filling = asyncio.create_task(fill())  # the server listens meanwhile; a request reads what it needs itself
        yield
        filling.cancel()
        with suppress(asyncio.CancelledError):
            await filling

    app = DocumentedAPI(
        title="lakehouse",
        version=metadata.version("lakehouse"),
        description=_ABOUT,
        docs_url=None,  # its scripts would be loaded from other hosts
        redoc_url=None,
        lifespan=fill_cache,
        redirect_slashes=False,
    )
    app.add_exception_handler(Problem, responses.on_problem)
    app.add_exception_handler(HTTPException, responses.on_http)
    app.add_exception_handler(RequestValidationError, responses.on_invalid)
    reading = [Depends(authenticator.reader)] if policy.reading_needs_token else []
    errors = problem_responses(ERRORS | (TOKEN_ERRORS if policy.reading_needs_token else {}))
    for routes in (
        comparison_routes.comparison_routes,
        numbers.routes,
        live.layer_routes,
        live.stream_routes,
        lateness.data_quality_routes,
        lateness.watermark_routes,
        late_events.routes,
        comparison_routes.lineage_routes,
        impact.routes,
        training_sets.routes,
        models.version_routes,
        models.promotion_routes,
    ):
        app.include_router(routes(cache), dependencies=reading, responses=errors)
    app.include_router(stewardship.reading(cache), dependencies=reading, responses=errors)
    app.include_router(snapshots.routes(cache, authenticator.steward), responses=problem_responses(ERRORS | STEWARD_ERRORS))
    app.include_router(stewardship.deciding(cache, authenticator.steward), responses=problem_responses(ERRORS | WRITE_ERRORS))
    app.include_router(health_routes(cache, lists_metrics=not policy.reading_needs_token), responses=errors)
    app.include_router(overview.metrics_routes(cache, sensor_ages), dependencies=reading, responses=errors)
    app.include_router(pages.routes(cache, authenticator, reading_needs_token=policy.reading_needs_token))
    app.add_middleware(RequestGuard, hosts=policy.hosts, rate=policy.rate, respond=_respond)
    if policy.proxies.texts:
        app.add_middleware(ForwardedRequests, proxies=policy.proxies)  # outermost: the guard sees the client
    return app


def _respond(problem: Problem, path: str) -> Response:
    """A problem as a page or as a document, depending on the path."""
    return pages.problem_page(problem) if pages.owns(path) else problem.response()


def health_routes(cache: PublishedCache, *, lists_metrics: bool) -> APIRouter:
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
