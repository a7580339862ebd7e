"""Limits on connections, in uvicorn's protocol: the number of open connections, their duration, and the size of headers.

uvicorn limits idle connections and concurrent requests, but not slow or numerous connections. Limits on complete requests belong
in ``request_guard``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lakehouse.serving.http.problems import MEDIA_TYPE, Problem
from lakehouse.serving.http.trusted_proxy import TrustedProxies

if TYPE_CHECKING:
    import asyncio


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
