"""The pages on a lake that delta-rs wrote, requested without a browser or a socket."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lakehouse.dispositions import account_tables
from lakehouse.serving import tokens
from lakehouse.serving.sessions import COOKIE
from lakehouse.serving.tokens import Role
from lakehouse_tests.support.api_client import at, numbers_with_weeks, on, publish_two_days, write_source_rows
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import without_spark
from lakehouse_tests.support.parsed_page import ParsedPage
from lakehouse_tests.support.prepared_lake import prepare

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    from httpx import Response
    from pyarrow import Table
    from starlette.testclient import TestClient

    from lakehouse.lake import Lake
    from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers

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
    "/page/sources/events",
    "/page/sources/events?days=28",
    "/page/restated",
    f"/page/restated?through={on(2)}",
    "/page/lateness",
    "/page/lateness?source=events&days=7",
    "/page/quarantine",
    "/page/quarantine?status=any",
    ROW,
    "/page/sign-in",
)
PAGES_TO_READ = [path for path in PAGES if path != "/page/sign-in"]
ROWS = (("a", 0, "admitted"), ("b", 3, "quarantined"), ("c", 4, "quarantined"))


class HtmlPage(ParsedPage):
    """A page as a browser would find it; some elements are never closed."""

    def handle_starttag(self, tag, attrs):
        super().handle_starttag(tag, attrs)
        if tag in {"link", "input"}:
            self.open.pop()


def numbers_and_quarantined_rows(folder: Path) -> ScriptedNumbers:
    """Two days of numbers and a week, and three rows of which two wait."""
    numbers = numbers_with_weeks(lake_in(folder))
    numbers.by_day = dict(prepare(numbers.lake, "numbers_and_quarantined_rows", _publish_and_quarantine))
    return numbers


def _publish_and_quarantine(lake: Lake) -> dict[date, Table]:
    with without_spark():
        numbers = publish_two_days(numbers_with_weeks(lake))
    rows = [(key, at(1), at(1 + days), "insert", standing) for key, days, standing in ROWS]
    write_source_rows(lake, SOURCE, rows)
    account_tables.after_decision(lake, SOURCE, {"a", "b", "c"}, {at(1).date()})
    return numbers.by_day


def page(answer: Response, status: int = 200) -> HtmlPage:
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
    html = HtmlPage(answer.text)
    fetched = [*html.all("link"), *html.all("img"), *html.all("form"), *html.all("a")]
    addresses = [one.get(name) for one in fetched for name in ("href", "src", "action") if one.get(name)]
    assert all(address and address.startswith(("/", "#")) and not address.startswith("//") for address in addresses)
    assert len(html.all("h1")) == 1
    return html


def sign_in(client: TestClient, lake: Lake, role: Role = Role.STEWARD, name: str = "anna") -> tokens.Token:
    kept, text = tokens.add(lake, name, role)
    answer = client.post("/page/sign-in", data={"token": text, "next": ROW}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, ROW)
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert text not in cookie
    return kept


def form_secret(client: TestClient) -> str:
    """What the forms of the session carry."""
    found = re.search(r'name="secret" value="([^"]+)"', client.get("/").text)
    assert found
    return found[1]


def decide(client: TestClient, **entries: str) -> Response:
    form = {"decision": "accept", "reason": "seen the receipt"} | entries
    return client.post(ROW, data=form, follow_redirects=False)
