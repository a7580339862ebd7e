"""The pages for people, in the same process as the API: ``serving.app`` mounts ``routes``.

Server-rendered HTML, without scripts except on the page of live numbers. The pages of a capability are its module ``pages``;
here are ``overview``, ``sign_in``, and what all pages share: ``page`` (responses) and ``sessions``. Code shared with the API
belongs in ``http``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Depends

from lakehouse.gold.numbers import pages as numbers
from lakehouse.lateness import pages as lateness
from lakehouse.live import pages as live
from lakehouse.models import pages as models
from lakehouse.serving.web import overview, sign_in
from lakehouse.serving.web.page import PageRoute, owns, problem_page
from lakehouse.serving.web.sessions import Sessions
from lakehouse.stewardship import pages as stewardship
from lakehouse.training_sets import pages as training_sets

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
        numbers.add_metric_page,
        live.add,
        numbers.add_story_page,
        lateness.add_source_page,
        numbers.add_restated_page,
        lateness.add_lateness_page,
        stewardship.add,
        models.add,
        training_sets.add,
    ):
        pages = APIRouter(route_class=PageRoute, dependencies=[Depends(sessions.visitor)])
        add(pages, cache)
        router.include_router(pages)
    open_to_all = APIRouter(route_class=PageRoute, dependencies=[Depends(sessions.anybody)])
    sign_in.add(open_to_all, sessions)
    router.include_router(open_to_all)
    return router
