"""The ASGI application: it mounts the API and the pages, adds the middleware, and completes the OpenAPI document.

Routes belong in ``api`` and ``web``; this is the only module that imports both.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from lakehouse.calendar.periods import Kind
from lakehouse.serving import web
from lakehouse.serving.api import comparison, data_quality, health, lineage, metrics, openapi, quarantine
from lakehouse.serving.api.openapi import ERRORS, TOKEN_ERRORS, WRITE_ERRORS, problem_responses
from lakehouse.serving.http import problems
from lakehouse.serving.http.authentication import Callers
from lakehouse.serving.http.problems import Problem
from lakehouse.serving.http.published_cache import Lake
from lakehouse.serving.http.request_guard import Guard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from fastapi import Response

    from lakehouse.contracts import Catalog
    from lakehouse.settings import Settings

_ABOUT = """Published numbers, whether they are live, preliminary or final, and how they came to change.

Every number is one version of a period: `latest`, `final`, `r3`, or what readers saw at a time. Answers carry an `ETag`; errors
are problem documents (RFC 9457) whose `type` programs can rely on. Decimals are text."""


@dataclass(frozen=True)
class Terms:
    """How the server may be used: under which host names (any where empty), how often, and whether reading needs a token."""

    hosts: Collection[str] = field(default_factory=tuple)
    rate: float = 200.0
    reading_needs_token: bool = False


def create(settings: Settings, catalog: Catalog, terms: Terms | None = None) -> FastAPI:
    """The application for a deployment."""
    terms = terms or Terms()
    lake = Lake(settings, catalog)
    callers = Callers(lake)

    @asynccontextmanager
    async def read_first(_: FastAPI) -> AsyncIterator[None]:
        for metric in catalog.metrics.values():  # so that nobody waits for the first look
            for kind in ("day", *metric.publication.rollups):
                with suppress(Problem):  # /health tells
                    await lake.shown(metric, Kind(kind))
        yield

    app = FastAPI(
        title="lakehouse",
        version=metadata.version("lakehouse"),
        description=_ABOUT,
        docs_url=None,  # its scripts come from elsewhere
        redoc_url=None,
        lifespan=read_first,
        redirect_slashes=False,
    )
    app.add_exception_handler(Problem, problems.on_problem)
    app.add_exception_handler(HTTPException, problems.on_http)
    app.add_exception_handler(RequestValidationError, problems.on_invalid)
    reading = [Depends(callers.reader)] if terms.reading_needs_token else []
    errors = problem_responses(ERRORS | (TOKEN_ERRORS if terms.reading_needs_token else {}))
    for resource in (comparison, metrics, data_quality, lineage):
        app.include_router(resource.routes(lake), dependencies=reading, responses=errors)
    app.include_router(quarantine.reading(lake), dependencies=reading, responses=errors)
    app.include_router(quarantine.deciding(lake, callers.steward), responses=problem_responses(ERRORS | WRITE_ERRORS))
    app.include_router(health.routes(lake, tells=not terms.reading_needs_token), responses=errors)
    app.include_router(web.routes(lake, callers, reading_needs_token=terms.reading_needs_token))
    app.state.lake = lake
    openapi.complete(app)
    app.add_middleware(Guard, hosts=terms.hosts, rate=terms.rate, told=_told)
    return app


def _told(problem: Problem, path: str) -> Response:
    """A problem as the one who asked can read it."""
    return web.told(problem) if web.owns(path) else problem.response()
