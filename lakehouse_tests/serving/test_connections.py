"""Slow, many and aborted connections, and large headers, on real sockets; and the headers of proxies."""

from __future__ import annotations

import json
import logging
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.testclient import TestClient

from lakehouse.serving.request_guard import ConnectionLimits, ForwardedRequests, RequestGuard, TrustedProxies, protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Long enough for a test never to wait for it.
LONG = 60.0
SHORT = 0.2
GET = b"GET /who HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"


class Served:
    """An application that says who is calling, reads bodies, and answers with many bytes."""

    def __init__(self) -> None:
        self.aborted = threading.Event()
        self.app = FastAPI()

        @self.app.get("/who")
        async def who(request: Request) -> Response:
            client = request.client.host if request.client else None
            return JSONResponse({"client": client, "url": f"{request.url}"})

        @self.app.post("/body")
        async def body(request: Request) -> Response:
            try:
                return JSONResponse({"length": len(await request.body())})
            finally:
                self.aborted.set()

        @self.app.get("/large")
        async def large() -> Response:
            return Response(bytes(50_000_000))

        self.app.add_middleware(RequestGuard, hosts=(), rate=1e9)


@contextmanager
def served(app: Any, **limits: Any) -> Iterator[int]:
    """The port of a server with some limits."""
    given = {"header_seconds": LONG, "body_seconds": LONG, "send_seconds": LONG, **limits}
    http = protocol(ConnectionLimits(**given))
    config = uvicorn.Config(app, port=0, log_level="error", server_header=False, proxy_headers=False, http=http, ws="none")
    running = uvicorn.Server(config)
    listening = config.bind_socket()
    listening.listen()  # who connects before the server has started waits for it
    thread = threading.Thread(target=running.run, args=([listening],), daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        running.should_exit = True
        thread.join(30)
        listening.close()


@contextmanager
def connected(port: int, first: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(first)
        yield client


def answer(client: socket.socket) -> tuple[int, Any]:
    """The status and the content of what the server says until it closes the connection; 0 if it says nothing."""
    content = b""
    try:
        while part := client.recv(2**16):
            content += part
    except ConnectionResetError:
        pass
    head, _, body = content.partition(b"\r\n\r\n")
    return (int(head.split()[1]), json.loads(body)) if content else (0, None)


def one_answer(client: socket.socket) -> int:
    """The status of the next answer of a connection that stays open."""
    head = client.recv(2**16)
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    body = head.partition(b"\r\n\r\n")[2]
    while len(body) < length:
        body += client.recv(2**16)
    return int(head.split()[1])


@pytest.mark.parametrize(
    ("first", "part"),
    [(GET, "headers"), (b"GE", "headers"), (POST, "body"), (POST + b"12345", "body")],
)
def test_a_slow_client_is_cut_off(first: bytes, part: str) -> None:
    with served(Served().app, header_seconds=SHORT, body_seconds=SHORT) as port, connected(port, first) as client:
        status, problem = answer(client)
    assert (status, problem["type"]) == (408, "urn:lakehouse:too-slow")
    assert problem["detail"] == f"the {part} of a request must arrive within 0.2 seconds"


def test_bytes_now_and_then_do_not_extend_the_time() -> None:
    with served(Served().app, header_seconds=SHORT) as port, connected(port, GET) as client:
        client.settimeout(0.02)
        for _ in range(500):
            client.sendall(b"x: y\r\n")
            with suppress(TimeoutError):
                assert client.recv(12) == b"HTTP/1.1 408"
                break
        else:
            pytest.fail("the connection stays open")


@pytest.mark.parametrize("first", [b"", GET + b"\r\n", GET + b"\r\n" + b"\r\n\r\n"], ids=["silent", "answered", "blank lines"])
def test_a_connection_without_a_request_is_closed(first: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    original = uvicorn.Config.__init__

    def with_short_idle_time(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs, timeout_keep_alive=1)

    monkeypatch.setattr(uvicorn.Config, "__init__", with_short_idle_time)
    with served(Served().app, header_seconds=SHORT) as port, connected(port, first) as client:
        assert answer(client)[0] == (200 if first else 0)


def test_a_client_that_takes_no_answer_is_cut_off() -> None:
    with served(Served().app, send_seconds=SHORT) as port, connected(port) as client:
        client.sendall(GET.replace(b"/who", b"/large") + b"\r\n")
        threading.Event().wait(3 * SHORT)
        taken = 0
        with suppress(ConnectionResetError):
            while part := client.recv(2**20):
                taken += len(part)
        assert taken < 50_000_000


def test_an_answered_connection_can_be_used_again() -> None:
    with served(Served().app, header_seconds=SHORT, body_seconds=SHORT) as port, connected(port) as client:
        for _ in range(3):
            client.sendall(GET + b"\r\n")
            assert one_answer(client) == 200
            client.sendall(POST + b"0123456789")
            assert one_answer(client) == 200
        threading.Event().wait(2 * SHORT)  # longer than the time for headers: nothing is due while it is idle
        client.sendall(GET + b"\r\n")
        assert one_answer(client) == 200


@pytest.mark.parametrize(
    ("request_bytes", "status", "kind"),
    [
        (GET + b"x: " + b"y" * 40_000 + b"\r\n\r\n", 431, "headers-too-large"),
        (GET + b"x: " + b"y" * 400_000, 431, "headers-too-large"),
        (GET + b"x: y\r\n" * 20_000, 431, "headers-too-large"),
        (b"GET /who?" + b"y" * 9_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414, "target-too-long"),
        (b"GET /" + b"y" * 9_000, 414, "target-too-long"),
        (POST.replace(b"10", b"20000"), 413, "too-large"),
    ],
    ids=["one header", "one without an end", "many", "query", "path without an end", "body"],
)
def test_what_is_too_large_is_refused(request_bytes: bytes, status: int, kind: str) -> None:
    with served(Served().app, body_seconds=SHORT) as port, connected(port, request_bytes) as client:
        found, problem = answer(client)
    assert (found, problem["type"]) == (status, f"urn:lakehouse:{kind}")


def test_headers_of_usual_size_are_read() -> None:
    with served(Served().app) as port, connected(port, GET + b"cookie: " + b"y" * 8_000 + b"\r\n\r\n") as client:
        assert one_answer(client) == 200


@pytest.mark.parametrize(("limit", "status"), [({"per_address": 3}, 429), ({"connections": 3}, 503)])
def test_connections_are_limited_and_free_again(limit: dict[str, int], status: int) -> None:
    with served(Served().app, **limit) as port:
        with ExitStack() as open_:
            for _ in range(3):
                client = open_.enter_context(connected(port, GET + b"\r\n"))
                assert one_answer(client) == 200
            refused = open_.enter_context(connected(port))
            found, problem = answer(refused)
            assert (found, problem["type"]) == (status, "urn:lakehouse:too-many-connections")
            assert problem["title"] == "Too many connections"
            client.sendall(GET + b"\r\n")
            assert one_answer(client) == 200, "the others go on"
        for _ in range(100):
            with connected(port, GET + b"Connection: close\r\n\r\n") as client:
                if answer(client)[0] == 200:
                    return
        pytest.fail("connections that were closed are still counted")


def test_a_trusted_proxy_has_no_limit_of_its_own() -> None:
    with served(Served().app, per_address=1, proxies=TrustedProxies(["127.0.0.0/8"])) as port, ExitStack() as open_:
        for _ in range(5):
            client = open_.enter_context(connected(port, GET + b"\r\n"))
            assert one_answer(client) == 200


@pytest.mark.parametrize("first", [POST + b"12345", POST, GET.replace(b"/who", b"/large") + b"\r\n"])
def test_an_aborted_request_is_no_incident(first: bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    application = Served()
    with served(application.app) as port:
        with connected(port, first):
            pass
        if first.startswith(b"POST"):
            assert application.aborted.wait(20)
        with connected(port, GET + b"Connection: close\r\n\r\n") as client:
            assert answer(client)[0] == 200
    assert [record for record in caplog.records if record.name.startswith(("lakehouse", "uvicorn"))] == []


def forwarded(proxies: list[str], client: str, headers: dict[str, str]) -> Any:
    app = Served().app
    app.add_middleware(ForwardedRequests, proxies=TrustedProxies(proxies))
    with TestClient(app, base_url="http://inner:8321", client=(client, 50_000)) as caller:
        return caller.get("/who", headers=headers).json()


HEADERS = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "metrics.example"}


@pytest.mark.parametrize(
    ("proxies", "client", "headers", "expected"),
    [
        (["10.0.0.7"], "10.0.0.7", HEADERS, ("203.0.113.9", "https://metrics.example/who")),
        (["10.0.0.0/24"], "10.0.0.7", HEADERS, ("203.0.113.9", "https://metrics.example/who")),
        (["fd00::/8"], "fd00::7", HEADERS, ("203.0.113.9", "https://metrics.example/who")),
        (["10.0.0.7"], "10.0.0.8", HEADERS, ("10.0.0.8", "http://inner:8321/who")),
        (["10.0.0.7"], "10.0.0.7", {}, ("10.0.0.7", "http://inner:8321/who")),
        (["10.0.0.7"], "10.0.0.7", {"X-Forwarded-For": "1.2.3.4, 203.0.113.9"}, ("203.0.113.9", "http://inner:8321/who")),
        (
            ["10.0.0.7"],
            "10.0.0.7",
            {"X-Forwarded-Host": "evil.test, metrics.example"},
            ("10.0.0.7", "http://metrics.example/who"),
        ),
    ],
)
def test_only_a_trusted_proxy_speaks_for_its_clients(
    proxies: list[str], client: str, headers: dict[str, str], expected: tuple[str, str]
) -> None:
    told = forwarded(proxies, client, headers)
    assert (told["client"], told["url"]) == expected


def test_a_proxy_is_an_address_or_a_network() -> None:
    with pytest.raises(ValueError, match=r"proxy\.example"):
        TrustedProxies(["proxy.example"])
