"""A proxy in front of a server that speaks the protocol of Amazon S3: counts requests, and delays each of them.

    python benchmarks/request_counter.py PORT UPSTREAM MILLISECONDS

``GET /__counts`` answers the counts since the last time it was read, by kind of request and table, and the bytes of all bodies.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.requests import Request

#: Headers that belong to one connection; they are not passed on.
_OF_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "proxy-authorization"}
_METHODS = ["GET", "HEAD", "PUT", "POST", "DELETE"]


class Counts:
    """Requests by kind and table, and the megabytes of their bodies."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, str]] = Counter()
        self.sent = self.received = 0

    def as_json(self) -> dict[str, Any]:
        """All counts, the most frequent first."""
        kinds: Counter[str] = Counter()
        tables: Counter[str] = Counter()
        for (kind, table, _), count in self.requests.items():
            kinds[kind] += count
            tables[f"{kind} {table}"] += count
        distinct = len(self.requests)
        repeated = [[*which, count] for which, count in self.requests.most_common(40)]
        return {
            "requests": sum(kinds.values()),
            "distinct": distinct,
            "by kind": dict(kinds.most_common()),
            "by table": dict(tables.most_common()),
            "repeated": repeated,
            "MB sent": round(self.sent / 1e6, 2),
            "MB received": round(self.received / 1e6, 2),
        }


def _what(request: Request) -> tuple[str, str, str]:
    """The kind of request, the layer and table, and the file or folder."""
    listed = request.method == "GET" and "list-type" in request.url.query
    path = f"/{request.query_params.get('prefix', '')}" if listed else request.url.path.removeprefix("/lake")
    parts = path.strip("/").split("/")
    return "LIST" if listed else request.method, "/".join(parts[:2]), "/".join(parts[2:])


def proxy(upstream: str, seconds: float) -> Starlette:
    """The application: each request waits ``seconds``, and goes on to ``upstream``."""
    counts = [Counts()]
    client = httpx.AsyncClient(limits=httpx.Limits(max_connections=None), timeout=600)

    async def counted(_: Request) -> Response:
        now, counts[0] = counts[0], Counts()
        return JSONResponse(now.as_json())

    async def passed_on(request: Request) -> Response:
        body = await request.body()
        counts[0].requests[_what(request)] += 1
        await asyncio.sleep(seconds)
        headers = [(name, value) for name, value in request.headers.items() if name not in _OF_CONNECTION]
        raw = request.scope["raw_path"].decode() + (f"?{request.url.query}" if request.url.query else "")
        sent = client.build_request(request.method, upstream + raw, headers=headers, content=body)
        async with client.stream(request.method, sent.url, headers=sent.headers, content=body) as answer:
            content = b"".join([piece async for piece in answer.aiter_raw()])
        counts[0].sent += len(body)
        counts[0].received += len(content)
        response = Response(content, answer.status_code)
        kept = [(name, value) for name, value in answer.headers.raw if name.decode().lower() not in _OF_CONNECTION]
        response.raw_headers = kept
        return response

    return Starlette(routes=[Route("/__counts", counted), Route("/{path:path}", passed_on, methods=_METHODS)])


def main() -> None:
    """Serve until the process ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("port", type=int)
    parser.add_argument("upstream")
    parser.add_argument("milliseconds", type=float)
    arguments = parser.parse_args()
    uvicorn.run(proxy(arguments.upstream, arguments.milliseconds / 1000), port=arguments.port, log_level="warning")


if __name__ == "__main__":
    main()
