"""The pages on real tables, without a browser: what they say, who may do what, and what never gets through. No JVM."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.ledger import decisions, tokens
from lakehouse.ledger.tokens import Role
from lakehouse.serving.api.app import Terms
from lakehouse.serving.web import overview as overview_page
from lakehouse.serving.web.sessions import COOKIE, Session
from lakehouse.tables import books
from lakehouse_tests.conftest import lake_settings
from lakehouse_tests.serving.api.asking import asked, at, catalog, desk, on, tell
from lakehouse_tests.serving.api.test_metrics import two_days
from lakehouse_tests.serving.test_reports import HOSTILE, Page
from lakehouse_tests.tables.lake import contract
from lakehouse_tests.tables.published import metric, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from httpx import Response
    from starlette.testclient import TestClient

    from lakehouse.settings import Settings
    from lakehouse_tests.tables.published import Desk

SOURCE = contract(lateness={"watermark": "P1D", "beyond": "quarantine"})
ROW = "/page/quarantine/events:file1:1"
PAGES = (
    "/",
    "/page/metrics/total",
    "/page/metrics/total?by=week",
    f"/page/metrics/total/{on(1)}",
    f"/page/metrics/total/{on(1)}/r1",
    f"/page/metrics/total/{on(1)}/r2",
    "/page/metrics/total/2024-W01",
    "/page/metrics/total/2024-W01/r1",
    "/page/restated",
    f"/page/restated?through={on(2)}",
    "/page/lateness",
    "/page/lateness?source=events&days=7",
    "/page/quarantine",
    "/page/quarantine?status=any",
    ROW,
    "/page/sign-in",
)
READ = [one for one in PAGES if one != "/page/sign-in"]


@pytest.fixture(name="told")
def _told(tmp_path: Path) -> Desk:
    """Two days of numbers and a week, and three rows of which two wait."""
    with without_spark():
        told = two_days(desk(lake_settings(tmp_path)))
    rows = [(key, at(1), at(1 + days), "insert", standing) for key, days, standing in ROWS]
    tell(told.settings, SOURCE, rows)
    books.after_decision(told.settings, SOURCE, {"a", "b", "c"}, {at(1).date()})
    return told


ROWS = (("a", 0, "admitted"), ("b", 3, "quarantined"), ("c", 4, "quarantined"))


@pytest.fixture(name="client")
def _client(told: Desk) -> Iterator[TestClient]:
    with asked(told.settings, catalog(told.metric, source=SOURCE)) as client:
        client.headers["Origin"] = "http://localhost"
        yield client


def page(answer: Response, status: int = 200) -> Page:
    """A page as a browser would find it: nothing of it is a script or a style that the policy would take away."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "same-origin", "without a referrer a browser tells no origin of its form"
    assert "Traceback" not in answer.text
    assert not re.search(r"<script|<style|\sstyle=|\son[a-z]+=|javascript:", answer.text)
    found = Page(answer.text.replace('<input type="hidden"', "<input"))
    fetched = [*found.all("link"), *found.all("img"), *found.all("form"), *found.all("a")]
    addresses = [one.get(name) for one in fetched for name in ("href", "src", "action") if one.get(name)]
    assert all(address and address.startswith(("/", "#")) and not address.startswith("//") for address in addresses)
    assert len(found.all("h1")) == 1
    return found


def sign_in(client: TestClient, settings: Settings, role: Role = Role.STEWARD, name: str = "anna") -> tokens.Token:
    kept, text = tokens.add(settings, name, role)
    answer = client.post("/page/sign-in", data={"token": text, "next": ROW}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, ROW)
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert text not in cookie
    return kept


def secret(client: TestClient) -> str:
    """What the forms of the session carry."""
    found = re.search(r'name="secret" value="([^"]+)"', client.get("/").text)
    assert found
    return found[1]


def decide(client: TestClient, **said: str) -> Response:
    form = {"decision": "accept", "reason": "seen the receipt"} | said
    return client.post(ROW, data=form, follow_redirects=False)


@pytest.fixture(name="html", autouse=True)
def _html(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements that are never closed, as HTML has them."""
    monkeypatch.setattr("lakehouse_tests.serving.test_reports.VOID", {"meta", "link", "input", "br", "use", "path"})


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_one(client: TestClient, path: str) -> None:
    found = page(client.get(path))
    assert found.all("main")
    assert len(found.all("title")) == 1


def test_numbers_are_those_of_the_tables(client: TestClient, told: Desk) -> None:
    series = client.get("/page/metrics/total").text
    story = client.get(f"/page/metrics/total/{on(1)}").text
    for number in (1, 2):
        assert f'<td class="num">{told.shown(number):,}' in series
    history = told.history(1)
    assert len(history) > 2
    for label, value, state, _ in history:
        row = re.search(rf'<tr><th scope="row">{label}</th>.*?</tr>', story, re.DOTALL)
        assert row
        assert f'<td class="num">{value:,}</td>' in row[0]
        assert {"live": "Live (updating)", "preliminary": "Preliminary", "final": "Final"}[state] in row[0]
    newest = unescape(client.get("/").text)
    assert f'data-measure="total">{told.shown(2):,}<' in newest


def test_what_was_restated_in_a_week(client: TestClient, told: Desk) -> None:
    every = client.get(f"/data-quality/restatements?start_date={on(1)}&end_date={on(60)}").json()
    assert every["total"] > 0
    last = date.fromisoformat(every["restatements"][0]["restated_on"][:10])
    told.settings.now = datetime.combine(last, datetime.min.time(), timezone.utc)
    start = last - timedelta(days=6)
    week = client.get(f"/data-quality/restatements?start_date={start}&end_date={last}").json()
    shown = client.get("/page/restated").text
    lines = re.findall(r'<tr role="row"><td role="cell">.*?</tr>', shown, re.DOTALL)
    assert len(lines) == week["total"] > 0
    for line, one in zip(lines, week["restatements"]):
        assert f'/{one["window"]}#{one["version"]}"' in line
        assert f"<b>{one['moved']['total']['after']:,}</b>" in line
        assert one["reason"].replace("_", " ") in line
    told.settings.now = at(400)
    assert "The last restatement was on" in client.get("/page/restated").text


def test_the_watermark_is_drawn_in(client: TestClient) -> None:
    shown = client.get("/page/lateness?source=events").text
    assert "watermark: 1 d" in shown
    assert ">watermark: 1 d</text>" in shown, "it is text in the drawing"
    assert "waits for a steward" in shown
    assert "2 of 3 rows" in shown


def test_what_rows_say_is_for_stewards(client: TestClient, told: Desk) -> None:
    assert "What a row says is shown to stewards" in client.get(ROW).text
    sign_in(client, told.settings, Role.READER, "ben")
    shown = client.get(ROW).text
    assert "What it says" not in shown
    assert "takes a steward" in shown
    assert "<fieldset>" not in shown
    sign_in(client, told.settings)
    assert "What it says" in client.get(ROW).text


def test_a_steward_decides(client: TestClient, told: Desk) -> None:
    sign_in(client, told.settings)
    done = decide(client, secret=secret(client))
    assert (done.status_code, done.headers["location"]) == (303, ROW)
    (said,) = decisions.all_of(told.settings, "events")
    assert (said.record_key, said.verdict, said.by, said.reason) == ("b", "accept", "anna", "seen the receipt")
    shown = unescape(client.get(ROW).text)
    assert "Accepted by anna" in shown
    assert "The decision is recorded. The numbers follow:" in shown
    assert "lakehouse quarantine accept events file1:1 --by anna --reason 'seen the receipt'" in shown
    decide(client, secret=secret(client))
    assert len(decisions.all_of(told.settings, "events")) == 1, "saying it again decides nothing"
    decide(client, secret=secret(client), decision="reject", reason="no")
    assert "Rejected by anna" in client.get(ROW).text


@pytest.mark.parametrize("said", [{"reason": " "}, {"reason": "x" * 501}, {"decision": "keep"}, {"by": "eve"}])
def test_what_is_no_decision_is_asked_for_again(client: TestClient, told: Desk, said: dict[str, str]) -> None:
    sign_in(client, told.settings)
    answer = decide(client, secret=secret(client), **said)
    assert "Choose a decision and say why" in page(answer, 422).text
    assert decisions.all_of(told.settings, "events") == []


def test_who_may_not(client: TestClient, told: Desk) -> None:
    settings = told.settings
    page(decide(client), 401)
    sign_in(client, settings, Role.READER, "ben")
    page(decide(client, secret=secret(client)), 403)
    kept = sign_in(client, settings)
    page(decide(client), 403)
    page(decide(client, secret="x"), 403)
    page(decide(client, secret=f"{secret(client)}é"), 403)
    own = {"secret": secret(client), "decision": "accept", "reason": "x"}
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        page(client.post(ROW, data=own, headers=headers), 403)
    page(client.post(ROW, json=own), 415)
    page(client.post(ROW, content=b"\xff", headers={"Content-Type": "application/x-www-form-urlencoded"}), 400)
    page(client.post(ROW, data=own | {f"more{number}": "x" for number in range(20)}), 400)
    page(client.post(ROW, data=own | {"reason": "x" * 20_000}), 413)
    tokens.revoke(settings, kept)
    page(client.post(ROW, data=own), 401)
    assert decisions.all_of(settings, "events") == []
    api = client.post("/quarantine/events:file1:1/decision", json={"decision": "accept", "reason": "x"})
    assert api.status_code == 401, "the API reads no cookie"


def test_a_session_ends(client: TestClient, told: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(client, told.settings)
    page(client.post("/page/sign-out", data={"secret": "x"}), 403)
    assert "anna, steward" in client.get("/").text
    cookie = client.cookies[COOKIE]
    own = secret(client)
    assert client.post("/page/sign-out", data={"secret": own}, follow_redirects=False).headers["location"] == "/"
    client.cookies.set(COOKIE, cookie)
    assert "anna, steward" not in client.get("/").text, "the server has forgotten it, and not the browser alone"
    client.cookies.clear()
    _, text = tokens.add(told.settings, "carl", Role.STEWARD, told.settings.clock() + timedelta(days=1))
    client.post("/page/sign-in", data={"token": text})
    assert "carl, steward" in client.get("/").text
    told.settings.now = told.settings.clock() + timedelta(days=1)
    assert "carl, steward" not in client.get("/").text
    sign_in(client, told.settings)
    monkeypatch.setattr("lakehouse.serving.web.sessions.monotonic", lambda: 1e12)
    assert "anna, steward" not in client.get("/").text


def test_a_wrong_token_is_told_and_a_guesser_slowed_down(client: TestClient) -> None:
    answers = [client.post("/page/sign-in", data={"token": "lh_00000000_guess"}) for _ in range(12)]
    assert [one.status_code for one in answers] == [401] * 10 + [429] * 2
    assert "The token is unknown, expired or revoked." in answers[0].text
    assert all("set-cookie" not in one.headers for one in answers)


@pytest.mark.parametrize(
    "following", ["https://evil.example", "//evil.example", "/\\evil.example", "/page/../..//x", "x", "/metrics"]
)
def test_nobody_is_sent_elsewhere(client: TestClient, told: Desk, following: str) -> None:
    _, text = tokens.add(told.settings, "anna", Role.STEWARD)
    answer = client.post("/page/sign-in", data={"token": text, "next": following}, follow_redirects=False)
    assert answer.headers["location"] == "/"


def test_over_tls_the_cookie_stays_there(client: TestClient, told: Desk) -> None:
    _, text = tokens.add(told.settings, "anna", Role.STEWARD)
    answer = client.post("/page/sign-in", data={"token": text}, headers={"Origin": "https://localhost"}, follow_redirects=False)
    assert "Secure" in answer.headers["set-cookie"]


def test_where_reading_needs_a_token(told: Desk) -> None:
    with asked(told.settings, catalog(told.metric, source=SOURCE), Terms(rate=1e9, reading_needs_token=True)) as client:
        for path in READ:
            answer = client.get(path, follow_redirects=False)
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/page/sign-in?next=%2F")
        shown = client.get(f"/page/metrics/total/{on(1)}", follow_redirects=True)
        assert f'name="next" value="/page/metrics/total/{on(1)}"' in shown.text
        sign_in(client, told.settings, Role.READER, "ben")
        for path in READ:
            page(client.get(path, follow_redirects=False))


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/page", 404),
        ("/page/nothing", 404),
        ("/page/metrics/nothing", 404),
        ("/page/metrics/NOTHING'--", 404),
        ("/page/metrics/total/2024-01-99", 404),
        ("/page/metrics/total/2030-01-01", 404),
        ("/page/metrics/total/never", 404),
        (f"/page/metrics/total/{on(1)}/r99", 404),
        (f"/page/metrics/total/{on(1)}/..%2F", 404),
        ("/page/metrics/total?by=month", 404),
        ("/page/metrics/total?by=aeon", 422),
        ("/page/metrics/total?through=soon", 422),
        ("/page/metrics/total?utm=1", 422),
        ("/page/lateness?source=nothing", 404),
        ("/page/lateness?days=1000", 422),
        ("/page/quarantine?status=odd", 422),
        ("/page/quarantine/events:file1:99", 404),
        ("/page/quarantine/events:file1", 404),
        ("/page/quarantine/other:file1:1", 404),
    ],
)
def test_a_mistake_is_a_page_with_a_sentence(client: TestClient, path: str, status: int) -> None:
    found = page(client.get(path), status)
    assert "To the overview" in found.text
    assert len(found.text.strip()) > 40


def test_the_ends_of_the_calendar(client: TestClient) -> None:
    for path in ("/page/metrics/total", "/page/restated", "/page/lateness"):
        for day in ("0001-01-01", "9999-12-31"):
            page(client.get(f"{path}?through={day}"))


def test_what_breaks_is_told_by_an_incident_alone(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("the secret of the house")

    monkeypatch.setattr(overview_page, "_waiting", broken)
    found = page(client.get("/"), 500)
    assert "secret" not in found.text
    assert re.search(r"Incident\s+[0-9a-f]{12}", found.text)


def test_other_methods_and_hosts_are_pages_too(client: TestClient) -> None:
    page(client.post("/"), 404)
    page(client.put("/page/quarantine"), 404)


def test_a_closed_number_and_its_adjustment(tmp_path: Path) -> None:
    with without_spark():
        told = desk(lake_settings(tmp_path), publication={"final_after": 2, "after_close": "adjust"})
        told.at(1, 6)
        told.say(1, 100)
        told.publish(1)
        told.at(4)
        told.close()
        told.say(1, 130)
        told.publish(1)
    with asked(told.settings, catalog(told.metric)) as client:
        story = unescape(client.get(f"/page/metrics/total/{on(1)}").text)
        assert 'data-measure="total">100</dd>' in story, "what was closed was not restated"
        assert "It has said the same since it was first published" in story
        assert "With 1 adjustment it comes to total <b>130</b>." in story
        assert "<small>adjusted 130</small>" in client.get("/page/metrics/total").text
        assert "total 100 → <b>130</b>" in story
        closed = page(client.get(f"/page/metrics/total/{on(1)}/r2.a1")).text
        assert "adjustment" in closed


def test_a_grain_is_told_row_by_row(tmp_path: Path) -> None:
    with without_spark():
        told = desk(lake_settings(tmp_path), grain=["store"])
        told.at(1, 6)
        told.say(1, {"north": 1, "<south>": 2})
        told.publish(1)
        told.at(1, 8)
        told.say(1, {"north": 1, "<south>": 5})
        told.publish(1)
    with asked(told.settings, catalog(told.metric)) as client:
        assert '<td class="num">6' in client.get("/page/metrics/total").text
        shown = client.get(f"/page/metrics/total/{on(1)}/r2").text
        assert '<th scope="row">&lt;south&gt;</th><td class="num">5</td>' in shown
        assert '<th scope="row">north</th><td class="num">1</td>' in shown
        page(client.get(f"/page/metrics/total/{on(1)}"))


def test_an_empty_lake_says_so(tmp_path: Path) -> None:
    with asked(lake_settings(tmp_path), catalog(metric())) as client:
        assert "Nothing has been published yet" in page(client.get("/")).text
        assert "Nothing of total has been published" in page(client.get("/page/metrics/total")).text
        assert "No number was ever restated" in page(client.get("/page/restated")).text
        assert "No row of events has arrived yet" in page(client.get("/page/lateness")).text
        assert "Nothing to decide" in page(client.get("/page/quarantine")).text
    nothing = catalog(metric())
    nothing.metrics.clear()
    nothing.sources.clear()
    with asked(lake_settings_in(tmp_path / "b"), nothing) as client:
        assert "There is no metric yet" in page(client.get("/")).text
        assert "There is no source yet" in page(client.get("/page/lateness")).text


def lake_settings_in(folder: Path) -> Settings:
    folder.mkdir()
    return lake_settings(folder)


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    with without_spark():
        told = two_days(desk(lake_settings(tmp_path), description=HOSTILE, owner=HOSTILE))
    key = HOSTILE.replace("\n", " ").replace("\x1b", "")
    tell(told.settings, SOURCE, [(key, at(1), at(5), "insert", "quarantined")])
    books.after_decision(told.settings, SOURCE, {key}, {at(1).date()})
    with asked(told.settings, catalog(told.metric, source=SOURCE)) as client:
        client.headers["Origin"] = "http://localhost"
        sign_in(client, told.settings, name=key)
        row = "/page/quarantine/events:file1:0"
        own = {"secret": secret(client), "decision": "reject", "reason": key}
        assert client.post(row, data=own, follow_redirects=False).status_code == 303
        for path in ("/", "/page/metrics/total", "/page/quarantine?status=any", row):
            assert "alert(1)" in client.get(path).text
            assert "<script>" not in client.get(path).text
            assert "<img" not in client.get(path).text


def test_the_style_and_the_icon_are_ours(client: TestClient) -> None:
    style = client.get("/page/style.css")
    assert style.headers["content-type"].startswith("text/css")
    assert "prefers-color-scheme: dark" in style.text
    assert "http" not in re.sub(r"http://www.w3.org", "", style.text)
    assert client.get("/page/icon.svg").headers["content-type"] == "image/svg+xml"


def test_sessions_are_told_apart() -> None:
    one = tokens.Token("a", "anna", Role.STEWARD, "", at(1))
    assert Session(one, "s", 0).decides
    assert not Session(tokens.Token("b", "ben", Role.READER, "", at(1)), "s", 0).decides
