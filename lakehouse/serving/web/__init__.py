"""The pages for people, in the same process as the API: ``serving.app`` mounts ``routes``.

Server-rendered HTML, without scripts except on the page of live numbers. There is one module per page (``overview``, ``metric``,
``live``, ``story``, ``source``, ``restated``, ``lateness``, ``quarantine``, ``sign_in``); those of training sets and models are
in ``released``. They share ``page`` (responses), ``sessions``, ``number_views`` (summaries of numbers) and ``charts``. Code
shared with the API belongs in ``http``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Depends

from lakehouse.serving.web import lateness, live, metric, overview, quarantine, restated, sign_in, source, story
from lakehouse.serving.web.page import PageRoute, owns, problem_page
from lakehouse.serving.web.released import datasets, models
from lakehouse.serving.web.sessions import Sessions

if TYPE_CHECKING:
    from lakehouse.serving.http.authentication import Authenticator
    from lakehouse.serving.http.published_cache import PublishedCache

__all__ = ["owns", "problem_page", "routes"]


def routes(cache: PublishedCache, authenticator: Authenticator, *, reading_needs_token: bool) -> APIRouter:
    """The routes of all pages.

    :param reading_needs_token: whether visitors have to sign in to read.
    """
    sessions = Sessions(authenticator, reading_needs_token=reading_needs_token)
    router = APIRouter(include_in_schema=False)
    for add in (
        overview.add,
        metric.add,
        live.add,
        story.add,
        source.add,
        restated.add,
        lateness.add,
        quarantine.add,
        models.add,
        datasets.add,
    ):
        pages = APIRouter(route_class=PageRoute, dependencies=[Depends(sessions.visitor)])
        add(pages, cache)
        router.include_router(pages)
    open_to_all = APIRouter(route_class=PageRoute, dependencies=[Depends(sessions.anybody)])
    sign_in.add(open_to_all, sessions)
    router.include_router(open_to_all)
    return router
