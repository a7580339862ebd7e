"""The checks around every request: host names, rates, headers, and what leaves the process when something breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from fastapi import FastAPI
from fastapi.responses import Response, StreamingResponse
from starlette.testclient import TestClient

from lakehouse.serving.app import AccessPolicy
from lakehouse.serving.request_guard import RequestGuard, TokenBuckets
from lakehouse_tests.support.api_client import api_client, catalog, get_json, problem_document
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.numbers_without_spark import metric

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("lakehouse.serving.request_guard.monotonic", lambda: self.now)


def test_a_client_may_ask_so_often_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, buckets = Clock(monkeypatch), TokenBuckets(rate=2, burst=4)
    assert [buckets.wait("a") for _ in range(5)] == [0, 0, 0, 0, 0.5]
    assert buckets.wait("b") == 0, "each on its own"
    clock.now += 0.25
    assert buckets.wait("a") == 0.25
    clock.now += 0.25
    assert [buckets.wait("a"), buckets.wait("a")] == [0, 0.5]
    clock.now += 100
    assert sum(buckets.wait("a") == 0 for _ in range(10)) == 4, "no more is saved up than the burst"


@pytest.mark.merge
def test_clients_are_forgotten_and_not_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    buckets = TokenBuckets(rate=1, burst=1)
    for number in range(20_000):
        buckets.wait(f"{number}")
    assert len(buckets._left) == 10_000


def test_too_many_requests(tmp_path: Path) -> None:
    with api_client(lake_in(tmp_path), catalog(metric()), AccessPolicy(rate=1)) as client:
        answers = [client.get("/health") for _ in range(5)]
        assert [answer.status_code for answer in answers[:2]] == [200, 200]
        limited = next(answer for answer in answers if answer.status_code == 429)
        assert problem_document(limited)["type"] == "urn:lakehouse:too-many"
        assert int(limited.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8321", 200),
        ("127.0.0.1:8321", 200),
        ("[::1]:8321", 200),
        ("metrics.example", 200),
        ("metrics.example.evil.test", 421),
        ("evil.test", 421),
        ("localhost.evil.test", 421),
        ("", 421),
    ],
)
def test_only_known_host_names_are_answered(tmp_path: Path, host: str, status: int) -> None:
    terms = AccessPolicy(hosts={"localhost", "127.0.0.1", "[::1]", "metrics.example"}, rate=1e9)
    with api_client(lake_in(tmp_path), catalog(metric()), terms) as client:
        answer = client.get("/health", headers={"Host": host})
        assert answer.status_code == status
        if status != 200:
            assert problem_document(answer)["type"] == "urn:lakehouse:wrong-host"


def test_every_answer_has_the_headers(tmp_path: Path) -> None:
    with api_client(lake_in(tmp_path), catalog(metric())) as client:
        for path in ("/health", "/nothing", "/metrics/total", "/openapi.json"):
            headers = client.get(path).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
            assert headers["referrer-policy"] == "no-referrer"
            assert "access-control-allow-origin" not in headers, "pages of other sites cannot read"
            assert "set-cookie" not in headers
        assert client.get("/health").headers["cache-control"] == "no-cache"
        assert client.get("/nothing").headers["cache-control"] == "no-store"


@pytest.fixture(name="broken")
def _broken() -> Iterator[TestClient]:
    app = FastAPI()

    @app.get("/secret")
    async def secret() -> None:
        msg = "the password is swordfish"
        raise RuntimeError(msg)

    @app.get("/halfway")
    async def halfway() -> StreamingResponse:
        def pieces() -> Iterator[bytes]:
            yield b"a"
            msg = "the password is swordfish"
            raise RuntimeError(msg)

        return StreamingResponse(pieces())

    @app.get("/page")
    async def page() -> Response:
        return Response("<p>", headers={"Content-Security-Policy": "default-src 'self'"})

    app.add_middleware(RequestGuard, hosts=(), rate=1e9)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def test_no_stack_trace_leaves_the_process(broken: TestClient, caplog: Any) -> None:
    answer = broken.get("/secret")
    told = problem_document(answer)
    assert (answer.status_code, told["type"]) == (500, "urn:lakehouse:incident")
    assert "swordfish" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert told["incident"] in caplog.text, "the log tells, under the same incident"
    assert "swordfish" in caplog.text
    assert b"swordfish" not in broken.get("/halfway").content


def test_a_page_says_its_own_policy(broken: TestClient) -> None:
    assert broken.get("/page").headers.get_list("content-security-policy") == ["default-src 'self'"]


def test_nothing_is_found_by_climbing(tmp_path: Path) -> None:
    with api_client(lake_in(tmp_path), catalog(metric())) as client:
        for name in ("..", "%2e%2e", "..%2f..%2fetc%2fpasswd", "total'%20OR%201=1--", "%00"):
            assert client.get(f"/metrics/{name}/history?window=2024-01-01").status_code in (404, 422)
        assert get_json(client, "/quarantine", 422, source="../../etc")["type"] == "urn:lakehouse:not-as-documented"
