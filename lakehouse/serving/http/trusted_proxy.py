"""Proxies whose headers about the client are trusted: its address, the scheme and the requested host name.

The headers of other clients are ignored, because they could contain anything.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Receive, Scope, Send

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
