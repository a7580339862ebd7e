"""Signing in and out, the style sheet, and what is said where there is no page."""

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

#: An address of ours: nothing that a browser could take for another host's.
_OURS = re.compile(rf"/|{PREFIX}/(?!.*\.\.)[A-Za-z0-9/._:?=&%-]*")
_KEPT = {"Cache-Control": "max-age=300"}
_EVERY = ["GET", "POST", "PUT", "PATCH", "DELETE"]


class ForSignIn(Parameters):
    """Where to go behind it."""

    next: str = "/"


def add(router: APIRouter, known: Sessions) -> None:
    """Add the pages."""

    @router.get(PREFIX + "/sign-in")
    async def asked(request: Request, wanted: Annotated[ForSignIn, Query()]) -> Response:
        return respond(request, "sign_in", "sign-in", {"next": _ours(wanted.next), "problem": None, "closed": known.closed})

    @router.post(PREFIX + "/sign-in")
    async def sign_in(request: Request) -> Response:
        said = await sessions.form(request)
        following = _ours(said.get("next", "/"))
        try:
            name = await known.sign_in(request, said.get("token", "").strip())
        except Problem as problem:
            told = f"{problem.detail[:1].upper()}{problem.detail[1:]}."
            values = {"next": following, "problem": told, "closed": known.closed}
            return respond(request, "sign_in", "sign-in", values, problem.status)
        answer = goto(following)
        sessions.give(answer, request, name)
        return answer

    @router.post(PREFIX + "/sign-out")
    async def sign_out(request: Request) -> Response:
        await sessions.own_form(request)
        known.sign_out(request)
        answer = goto(f"{PREFIX}/sign-in" if known.closed else "/")
        sessions.take(answer)
        return answer

    @router.get(PREFIX + "/style.css")
    async def style() -> Response:
        return Response(page.style(), headers=_KEPT, media_type="text/css")

    @router.get(PREFIX + "/icon.svg")
    async def icon() -> Response:
        return Response(page.icon(), headers=_KEPT, media_type="image/svg+xml")

    @router.api_route(PREFIX + "/{_:path}", methods=_EVERY)
    @router.api_route(PREFIX, methods=_EVERY)
    @router.api_route("/", methods=_EVERY[1:])
    async def nothing() -> Response:
        raise Problem(404, "no-such-page", "there is no page at this address")


def _ours(text: str) -> str:
    return text if _OURS.fullmatch(text) else "/"
