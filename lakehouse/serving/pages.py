"""The pages for people, in the same process as the API: ``app`` mounts ``routes``.

Server-rendered HTML, without scripts except on the page of live numbers. The pages of a capability are its module ``pages``; here
are signing in and out, the style sheet and the icon, and the response for paths that have no page. All pages share ``page``
(responses) and ``sessions``; the first page is in ``overview``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from lakehouse.gold.numbers import pages as numbers
from lakehouse.lateness import pages as lateness
from lakehouse.live import pages as live
from lakehouse.models import pages as models
from lakehouse.serving import overview, page, sessions
from lakehouse.serving.page import PREFIX, PageRoute, goto, owns, problem_page, respond
from lakehouse.serving.parameters import Parameters
from lakehouse.serving.responses import Problem
from lakehouse.serving.sessions import Sessions
from lakehouse.stewardship import pages as stewardship
from lakehouse.training_sets import pages as training_sets

if TYPE_CHECKING:
    from lakehouse.serving.published_cache import PublishedCache
    from lakehouse.serving.tokens import Authenticator

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
    add_sign_in(open_to_all, sessions)
    router.include_router(open_to_all)
    return router


#: A path of this site: nothing that a browser could interpret as an address on another host.
_OURS = re.compile(rf"/|{PREFIX}/(?!.*\.\.)[A-Za-z0-9/._:?=&%-]*")
_CACHED = {"Cache-Control": "max-age=300"}
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


class SignInParameters(Parameters):
    """The page to show after signing in."""

    next: str = "/"


def add_sign_in(router: APIRouter, visitors: Sessions) -> None:
    """Add the pages."""

    @router.get(PREFIX + "/sign-in")
    async def sign_in_page(request: Request, wanted: Annotated[SignInParameters, Query()]) -> Response:
        return respond(request, "sign_in", "sign-in", {"next": _ours(wanted.next), "problem": None, "closed": visitors.closed})

    @router.post(PREFIX + "/sign-in")
    async def sign_in(request: Request) -> Response:
        fields = await sessions.form(request)
        following = _ours(fields.get("next", "/"))
        try:
            name = await visitors.sign_in(request, fields.get("token", "").strip())
        except Problem as problem:
            sentence = f"{problem.detail[:1].upper()}{problem.detail[1:]}."
            values = {"next": following, "problem": sentence, "closed": visitors.closed}
            return respond(request, "sign_in", "sign-in", values, problem.status)
        response = goto(following)
        sessions.set_cookie(response, request, name)
        return response

    @router.post(PREFIX + "/sign-out")
    async def sign_out(request: Request) -> Response:
        await sessions.own_form(request)
        visitors.sign_out(request)
        response = goto(f"{PREFIX}/sign-in" if visitors.closed else "/")
        sessions.delete_cookie(response)
        return response

    @router.get(PREFIX + "/style.css")
    async def style() -> Response:
        return Response(page.style(), headers=_CACHED, media_type="text/css")

    @router.get(PREFIX + "/icon.svg")
    async def icon() -> Response:
        return Response(page.icon(), headers=_CACHED, media_type="image/svg+xml")

    @router.api_route(PREFIX + "/{_:path}", methods=_METHODS)
    @router.api_route(PREFIX, methods=_METHODS)
    @router.api_route("/", methods=_METHODS[1:])
    async def nothing() -> Response:
        raise Problem(404, "no-such-page", "there is no page at this address")


def _ours(text: str) -> str:
    return text if _OURS.fullmatch(text) else "/"
