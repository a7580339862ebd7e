"""ASGI middleware around the whole application, and the limits on connections in uvicorn's protocol.

The guard checks host, rate, origin and size, adds security headers, and removes details from errors. It is outermost, so that
every response passes through it. The headers about the client (its address, the scheme and the requested host name) are read only
if a trusted proxy sent them, because those of other clients could contain anything.

uvicorn limits idle connections and concurrent requests, but not slow or numerous connections. The protocol therefore limits the
number of open connections, their duration, and the size of headers. The reasons for using no library are in docs/architecture.md.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

from starlette.requests import ClientDisconnect
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lakehouse.serving.responses import MEDIA_TYPE, Problem

if TYPE_CHECKING:
    import asyncio
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


_HOST = b"x-forwarded-host"


class TrustedProxies:
    """The addresses and networks of trusted proxies."""

    def __init__(self, texts: Collection[str] = ()) -> None:
        """:raises ValueError: if a text is neither an address nor a network; the error names it."""
        self.texts = list(texts)
        self._networks = [ipaddress.ip_network(text) for text in texts]

    def __contains__(self, address: str) -> bool:
        try:
            number = ipaddress.ip_address(address)
        except ValueError:  # a Unix domain socket, or none
            return False
        return any(number in network for network in self._networks)


class ForwardedRequests:
    """ASGI middleware that treats a trusted proxy's request as its client's.

    uvicorn's middleware reads ``X-Forwarded-For`` (the last address that is not a trusted proxy) and ``X-Forwarded-Proto``; this
    middleware adds ``X-Forwarded-Host``, whose last value was set by the trusted proxy.
    """

    def __init__(self, app: ASGIApp, proxies: TrustedProxies) -> None:
        self._proxies = proxies
        self._app: ASGIApp = ProxyHeadersMiddleware(app, proxies.texts)  # type: ignore[arg-type, assignment]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        client = scope.get("client")
        if scope["type"] == "http" and client and client[0] in self._proxies:
            hosts = [value for name, value in scope["headers"] if name == _HOST]
            host = hosts[-1].rpartition(b",")[2].strip() if hosts else b""
            if host:
                others = [(name, value) for name, value in scope["headers"] if name != b"host"]
                scope = {**scope, "headers": [(b"host", host), *others]}
        await self._app(scope, receive, send)


@dataclass(frozen=True)
class ConnectionLimits:
    """The limits of one server.

    :param header_seconds: from the connection, or a further request's first byte, to the end of its headers.
    :param body_seconds: from the end of the headers to the end of the body.
    :param send_seconds: the time for which a client may accept no byte of a response.
    :param connections: the number of concurrent connections.
    :param per_address: the number of concurrent connections from one address; trusted proxies have no such limit.
    :param header_bytes: the size of the first line and all headers of a request; ``target_bytes``: of its path and query.
    """

    header_seconds: float = 10.0
    body_seconds: float = 20.0
    send_seconds: float = 30.0
    connections: int = 1000
    per_address: int = 100
    header_bytes: int = 32_768
    target_bytes: int = 8_192
    proxies: TrustedProxies = field(default_factory=TrustedProxies)


def protocol(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """The protocol for uvicorn's setting ``http``."""
    return type("LimitedProtocolOfServer", (LimitedProtocol,), {"limits": limits})


class LimitedProtocol(HttpToolsProtocol):
    """A connection. If a limit is exceeded, it is answered and closed."""

    limits: ClassVar[ConnectionLimits] = ConnectionLimits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timer: asyncio.TimerHandle | None = None  # until the headers, then the body, have been received
        self._send_timer: asyncio.TimerHandle | None = None
        self._in_headers, self._header_bytes, self._refused = True, 0, False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        limits, address = self.limits, self.client[0] if self.client else ""
        if len(self.connections) > limits.connections:
            self._refuse(503, "too-many-connections", f"{limits.connections:,} connections are open; try again", retry=True)
        elif address not in limits.proxies and self._open_of(address) > limits.per_address:
            self._refuse(429, "too-many-connections", f"one address may have {limits.per_address:,} connections", retry=True)
        else:
            self._expect(limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._in_headers:
            self._header_bytes += len(data)
        super().data_received(data)
        if self._in_headers and self._header_bytes > self.limits.header_bytes:
            self._refuse_headers()
        if self._timer is None and self.timeout_keep_alive_task is None and not self._in_progress():
            self._expect(self.limits.header_seconds)  # blank lines between requests have ended the wait for the next one

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._in_headers:  # a further request on the connection
            self._in_headers, self._header_bytes = True, 1
        self._size = 0
        self._expect(self.limits.header_seconds)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self.limits.target_bytes and not self._refused:
            self._refuse(414, "target-too-long", f"a path with its query has {self.limits.target_bytes:,} bytes at most")

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._size += len(name) + len(value) + 4

    def on_headers_complete(self) -> None:
        self._in_headers, self._header_bytes = False, 0
        if self._size + len(self.url) > self.limits.header_bytes:
            self._refuse_headers()
        if not self._refused:
            self._expect(self.limits.body_seconds)
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._refused:
            self._expect(None)
            super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._send_timer = self.loop.call_later(self.limits.send_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None
        super().resume_writing()

    def _open_of(self, address: str) -> int:
        """The number of connections from an address, including this one."""
        clients = (other.client for other in self.connections if isinstance(other, LimitedProtocol))
        return sum(1 for client in clients if (client[0] if client else "") == address)

    def _expect(self, seconds: float | None) -> None:
        """Give the client ``seconds`` for the next part of the request; None to wait for nothing."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._too_slow, seconds)

    def _too_slow(self, seconds: float) -> None:
        if self.flow.read_paused or (self._in_headers and self._in_progress()):  # the server causes the delay
            self._expect(seconds)
        elif self._header_bytes == 0 if self._in_headers else self.cycle.response_started:
            self.transport.close()  # nothing has been requested, or the request is already answered
        else:
            part = "headers" if self._in_headers else "body"
            self._refuse(408, "too-slow", f"the {part} of a request must arrive within {seconds:g} seconds")

    def _in_progress(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse_headers(self) -> None:
        self._refuse(431, "headers-too-large", f"the headers of a request have {self.limits.header_bytes:,} bytes at most")

    def _refuse(self, status: int, kind: str, detail: str, *, retry: bool = False) -> None:
        """Send a response, whatever the state of the parser, and close the connection."""
        self._refused = True
        self._expect(None)
        if self.transport.is_closing():
            return
        body = json.dumps(Problem(status, kind, detail).body()).encode()
        headers = {"content-type": MEDIA_TYPE, "content-length": f"{len(body)}", "connection": "close"}
        headers |= {"cache-control": "no-store"} | ({"retry-after": "1"} if retry else {})
        head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {value}" for name, value in headers.items())]
        self.transport.write("\r\n".join([*head, "", ""]).encode() + body)
        self.transport.close()
