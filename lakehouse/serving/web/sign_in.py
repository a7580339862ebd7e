"""Signing in and out, the style sheet and the icon, and the response for paths that have no page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from fastapi import Query, Request, Response

from lakehouse.serving.http.parameters import Parameters
from lakehouse.serving.http.problems import Problem
from lakehouse.serving.web import page, sessions
from lakehouse.serving.web.page import PREFIX, goto, respond

if TYPE_CHECKING:
    from fastapi import APIRouter

    from lakehouse.serving.web.sessions import Sessions

#: A path of this site: nothing that a browser could interpret as an address on another host.
_OURS = re.compile(rf"/|{PREFIX}/(?!.*\.\.)[A-Za-z0-9/._:?=&%-]*")
_CACHED = {"Cache-Control": "max-age=300"}
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


class SignInParameters(Parameters):
    """The page to show after signing in."""

    next: str = "/"


def add(router: APIRouter, visitors: Sessions) -> None:
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
