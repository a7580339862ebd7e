"""ASGI middleware around the whole application: checks of host, rate, origin and size; security headers; errors without details.

It is outermost, so that every response passes through it. The reasons for using no library are in docs/architecture.md.
"""

from __future__ import annotations

import logging
import uuid
from collections import OrderedDict
from time import monotonic
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from lakehouse.serving.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from fastapi import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOG = logging.getLogger(__name__)
_BODY = 16_384
_CLIENTS = 10_000
#: Added to every response that does not set them.
_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"permissions-policy": b"geolocation=(), camera=(), microphone=()",
    b"cache-control": b"no-store",
}
_SAFE = ("GET", "HEAD", "OPTIONS")


class TokenBuckets:
    """A token bucket for each client: a rate per second, and a burst. The least recent clients are forgotten."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """Take a token from a client's bucket.

        :returns: 0 if there was a token, otherwise the seconds until there will be one.
        """
        now = monotonic()
        left, since = self._left.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        self._left[client] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > _CLIENTS:
            self._left.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / self._rate


class RequestGuard:
    """The middleware.

    :param hosts: the accepted host names, so that any other name that resolves to the server is refused; empty to accept any.
    :param rate: requests per second from one client address.
    :param respond: creates the response to a problem at a path; by default the problem document.
    """

    def __init__(
        self, app: ASGIApp, hosts: Collection[str], rate: float, respond: Callable[[Problem, str], Response] | None = None
    ) -> None:
        self._app, self._hosts, self._respond = app, frozenset(hosts), respond or _document
        self._buckets = TokenBuckets(rate, 2 * rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                present = {name.lower() for name, _ in message["headers"]}
                more = [(name, value) for name, value in _HEADERS.items() if name not in present]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        try:
            self._admit(scope)
            await self._app(scope, _limited(receive), guarded)
        except Problem as problem:
            await self._respond(problem, scope["path"])(scope, receive, guarded)
        except Exception as error:
            if isinstance(error, ClientDisconnect) or isinstance(error.__cause__, ClientDisconnect):
                _LOG.info("aborted by the client: %s %s", scope["method"], scope["path"])
                return
            incident = uuid.uuid4().hex[:12]
            _LOG.exception("incident %s: %s %s", incident, scope["method"], scope["path"])
            if started:
                raise
            detail = "the server's log describes the error under this incident"
            broken = Problem(500, "incident", detail, incident=incident)
            await self._respond(broken, scope["path"])(scope, receive, guarded)

    def _admit(self, scope: Scope) -> None:
        """:raises Problem: if the request is refused."""
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if self._hosts and _name(host) not in self._hosts:
            raise Problem(421, "wrong-host", "this server does not accept that host name; --allow-host adds one")
        client = scope.get("client")
        wait = self._buckets.wait(client[0] if client else "")
        if wait:
            raise Problem(429, "too-many", "send fewer requests", {"Retry-After": f"{int(wait) + 1}"})
        if scope["method"] in _SAFE:
            return
        origin = headers.get(b"origin")
        if headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site") or (
            origin is not None and origin.decode("latin-1").partition("://")[2] != host
        ):
            raise Problem(403, "other-site", "a page of another site cannot write here")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > _BODY:
            raise _too_large()


def _document(problem: Problem, _path: str) -> Response:
    return problem.response()


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0].lower()


def _limited(receive: Receive) -> Receive:
    """A receiver that raises an error if the body is too large."""
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > _BODY:
            raise _too_large()
        return message

    return counted


def _too_large() -> Problem:
    return Problem(413, "too-large", f"a request has {_BODY:,} bytes at most")
