"""Who may read and who may decide: sessions, cookies, forms, roles; and requests from other sites."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakehouse.ledger import decisions
from lakehouse.serving import tokens
from lakehouse.serving.app import AccessPolicy
from lakehouse.serving.sessions import COOKIE, Session
from lakehouse.serving.tokens import Role
from lakehouse_tests.support.api_client import api_client, at, catalog, on
from lakehouse_tests.support.page_client import PAGES_TO_READ, ROW, SOURCE, decide, form_secret, page, sign_in

if TYPE_CHECKING:
    from starlette.testclient import TestClient

    from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers


@pytest.mark.merge
def test_who_may_not(client: TestClient, numbers: ScriptedNumbers) -> None:
    lake = numbers.lake
    page(decide(client), 401)
    sign_in(client, lake, Role.READER, "ben")
    page(decide(client, secret=form_secret(client)), 403)
    kept = sign_in(client, lake)
    page(decide(client), 403)
    page(decide(client, secret="x"), 403)
    page(decide(client, secret=f"{form_secret(client)}é"), 403)
    form = {"secret": form_secret(client), "decision": "accept", "reason": "x"}
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        page(client.post(ROW, data=form, headers=headers), 403)
    page(client.post(ROW, json=form), 415)
    page(client.post(ROW, content=b"\xff", headers={"Content-Type": "application/x-www-form-urlencoded"}), 400)
    page(client.post(ROW, data=form | {f"more{number}": "x" for number in range(20)}), 400)
    page(client.post(ROW, data=form | {"reason": "x" * 20_000}), 413)
    tokens.revoke(lake, kept)
    page(client.post(ROW, data=form), 401)
    assert decisions.all_of(lake, "events") == []
    api = client.post("/quarantine/events:file1:1/decision", json={"decision": "accept", "reason": "x"})
    assert api.status_code == 401, "the API reads no cookie"


@pytest.mark.merge
def test_a_session_ends(client: TestClient, numbers: ScriptedNumbers, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(client, numbers.lake)
    page(client.post("/page/sign-out", data={"secret": "x"}), 403)
    assert "anna, steward" in client.get("/").text
    cookie = client.cookies[COOKIE]
    own = form_secret(client)
    assert client.post("/page/sign-out", data={"secret": own}, follow_redirects=False).headers["location"] == "/"
    client.cookies.set(COOKIE, cookie)
    assert "anna, steward" not in client.get("/").text, "the server has forgotten it, and not the browser alone"
    client.cookies.clear()
    _, text = tokens.add(numbers.lake, "carl", Role.STEWARD, numbers.lake.now() + timedelta(days=1))
    client.post("/page/sign-in", data={"token": text})
    assert "carl, steward" in client.get("/").text
    numbers.lake.settings.now = numbers.lake.now() + timedelta(days=1)
    assert "carl, steward" not in client.get("/").text
    sign_in(client, numbers.lake)
    monkeypatch.setattr("lakehouse.serving.sessions.monotonic", lambda: 1e12)
    assert "anna, steward" not in client.get("/").text


def test_a_wrong_token_is_reported_and_a_guesser_slowed_down(client: TestClient) -> None:
    answers = [client.post("/page/sign-in", data={"token": "lh_00000000_guess"}) for _ in range(12)]
    assert [one.status_code for one in answers] == [401] * 10 + [429] * 2
    assert "The token is unknown, expired or revoked." in answers[0].text
    assert all("set-cookie" not in one.headers for one in answers)


@pytest.mark.merge
@pytest.mark.parametrize(
    "following", ["https://evil.example", "//evil.example", "/\\evil.example", "/page/../..//x", "x", "/metrics"]
)
def test_nobody_is_sent_elsewhere(client: TestClient, numbers: ScriptedNumbers, following: str) -> None:
    _, text = tokens.add(numbers.lake, "anna", Role.STEWARD)
    answer = client.post("/page/sign-in", data={"token": text, "next": following}, follow_redirects=False)
    assert answer.headers["location"] == "/"


def test_over_tls_the_cookie_stays_there(client: TestClient, numbers: ScriptedNumbers) -> None:
    _, text = tokens.add(numbers.lake, "anna", Role.STEWARD)
    answer = client.post("/page/sign-in", data={"token": text}, headers={"Origin": "https://localhost"}, follow_redirects=False)
    assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.merge
def test_where_reading_needs_a_token(numbers: ScriptedNumbers) -> None:
    with api_client(
        numbers.lake, catalog(numbers.metric, source=SOURCE), AccessPolicy(rate=1e9, reading_needs_token=True)
    ) as client:
        for path in PAGES_TO_READ:
            answer = client.get(path, follow_redirects=False)
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/page/sign-in?next=%2F")
        shown = client.get(f"/page/metrics/total/{on(1)}", follow_redirects=True)
        assert f'name="next" value="/page/metrics/total/{on(1)}"' in shown.text
        sign_in(client, numbers.lake, Role.READER, "ben")
        for path in PAGES_TO_READ:
            page(client.get(path, follow_redirects=False))


def test_sessions_are_told_apart() -> None:
    one = tokens.Token("a", "anna", Role.STEWARD, "", at(1))
    assert Session(one, "s", 0).decides
    assert not Session(tokens.Token("b", "ben", Role.READER, "", at(1)), "s", 0).decides


@pytest.mark.merge
def test_rate_limits_and_wrong_hosts_are_reported_on_a_page(numbers: ScriptedNumbers) -> None:
    with api_client(numbers.lake, catalog(numbers.metric), AccessPolicy(rate=0.001, hosts={"localhost"})) as client:
        page(client.get("/", headers={"Host": "evil.example"}), 421)
        client.get("/health")
        assert "Send fewer requests." in page(client.get("/"), 429).text
    with api_client(numbers.lake, catalog(numbers.metric), AccessPolicy(rate=1.0)) as client:
        answers = [client.get("/page/style.css").status_code for _ in range(4)]
        assert answers[:2] == [200, 200]
        assert 429 in answers
