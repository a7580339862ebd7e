"""The pages for people, in the same process as the API: ``serving.app`` mounts ``routes``.

Server-rendered HTML without any script. One module a page (``overview``, ``metric``, ``story``, ``restated``, ``lateness``,
``quarantine``, ``door``). What they share: ``page`` (how a page is answered), ``sessions`` (who looks at it), ``numbers`` (what
is told of a version), ``charts``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Depends

from lakehouse.serving.web import lateness, metric, overview, quarantine, restated, sign_in, story
from lakehouse.serving.web.page import PageRoute, owns, told
from lakehouse.serving.web.sessions import Sessions

if TYPE_CHECKING:
    from lakehouse.serving.http.authentication import Callers
    from lakehouse.serving.http.published_cache import Lake

__all__ = ["owns", "routes", "told"]


def routes(lake: Lake, callers: Callers, *, reading_needs_token: bool) -> APIRouter:
    """Every page.

    :param reading_needs_token: whether pages are shown to those alone who signed in.
    """
    sessions = Sessions(callers, reading_needs_token=reading_needs_token)
    router = APIRouter(include_in_schema=False)
    for one in (overview, metric, story, restated, lateness, quarantine):
        pages = APIRouter(route_class=PageRoute, dependencies=[Depends(sessions.visitor)])
        one.add(pages, lake)
        router.include_router(pages)
    open_to_all = APIRouter(route_class=PageRoute, dependencies=[Depends(sessions.anybody)])
    sign_in.add(open_to_all, sessions)
    router.include_router(open_to_all)
    return router
