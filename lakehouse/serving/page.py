"""Responses of the pages: templates, headers, and problems as a page. The templates are rendered in ``reports.templates``."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.routing import APIRoute

from lakehouse.reports import templates
from lakehouse.serving.responses import TITLES, Problem
from lakehouse.serving.sessions import session

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from fastapi import Request
    from starlette.types import Scope

_POLICY = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
#: ``same-origin``, because a browser that sends no referrer sends no origin with a form, either.
HEADERS = {"Content-Security-Policy": _POLICY, "Referrer-Policy": "same-origin", "Cache-Control": "no-store"}
#: The path of all pages except ``/``.
PREFIX = "/page"
#: Files that this server sends as they are.
STATIC = Path(__file__).parent / "static"


def owns(path: str) -> bool:
    """Whether a path belongs to the pages."""
    return path in ("/", PREFIX) or path.startswith(f"{PREFIX}/")


def respond(request: Request, template: str, here: str, values: Mapping[str, Any], status: int = 200) -> Response:
    """Render a page.

    :param here: the page's entry in the navigation.
    """
    body = templates.page(f"web/{template}", here=here, session=session(request), **values)
    return HTMLResponse(body, status, HEADERS)


def goto(path: str) -> Response:
    """A redirect after a form was sent, so that reloading the page does not send the form again."""
    return RedirectResponse(path, HTTPStatus.SEE_OTHER, HEADERS)


def problem_page(problem: Problem, scope: Scope | None = None) -> Response:
    """A problem as a page."""
    sentence = problem.detail.partition("; GET ")[0]  # the rest is for programs
    visitor = None if scope is None else scope.get("state", {}).get("session")
    body = templates.page(
        "web/problem",
        here="",
        session=visitor,
        title=TITLES.get(problem.status, "Something went wrong here"),
        sentence=f"{sentence[:1].upper()}{sentence[1:]}.",
        incident=problem.more.get("incident"),
        status=problem.status,
    )
    return HTMLResponse(body, problem.status, {**HEADERS, **problem.headers})


class PageRoute(APIRoute):
    """A route that shows problems as pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of a request."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except Problem as problem:
                if problem.kind == "sign-in" and request.method == "GET":
                    requested = request.url.path + (f"?{request.url.query}" if request.url.query else "")
                    return goto(f"{PREFIX}/sign-in?next={quote(requested, safe='')}")
                return problem_page(problem, request.scope)
            except RequestValidationError as error:
                return problem_page(_misread(error), request.scope)

        return handled


def _misread(error: RequestValidationError) -> Problem:
    """The problem document of an invalid path or parameter, without the value."""
    first = error.errors()[0]
    if first["loc"][0] == "path":
        return Problem(404, "no-such-page", "there is no page at this address")
    if first["type"] == "extra_forbidden":
        return Problem(422, "not-as-documented", "the address has a parameter that this page does not support")
    message = str(first["msg"]).removeprefix("Value error, ")
    return Problem(422, "not-as-documented", f"{first['loc'][-1]}: {message[:1].lower()}{message[1:]}")


@cache
def style() -> str:
    """The style sheet: that of the reports, and the additional rules of the pages."""
    return f"{templates.text('style.css.j2')}\n{(STATIC / 'page.css').read_text()}"


@cache
def icon() -> str:
    """The icon of the site."""
    return (STATIC / "icon.svg").read_text()
