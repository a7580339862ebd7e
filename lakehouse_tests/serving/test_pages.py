"""The contents of the pages, on real tables and without a browser: numbers, histories, decisions, mistakes, hostile text."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.dispositions import account_tables
from lakehouse.ledger import decisions
from lakehouse.operations.alerts import log as alert_log
from lakehouse.operations.alerts.alert import Alert, AlertKind
from lakehouse.serving import overview as overview_page
from lakehouse.serving.tokens import Role
from lakehouse_tests.support.api_client import (
    api_client,
    at,
    catalog,
    get_json,
    numbers_with_weeks,
    on,
    publish_two_days,
    write_source_rows,
)
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import metric, without_spark
from lakehouse_tests.support.page_client import PAGES, ROW, SOURCE, decide, form_secret, page, sign_in
from lakehouse_tests.support.parsed_page import HOSTILE_TEXT, words

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.testclient import TestClient

    from lakehouse.lake import Lake
    from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_one(client: TestClient, path: str) -> None:
    found = page(client.get(path))
    assert found.all("main")
    assert len(found.all("title")) == 1


@pytest.mark.merge
def test_numbers_are_those_of_the_tables(client: TestClient, numbers: ScriptedNumbers) -> None:
    series = client.get("/page/metrics/total").text
    story = client.get(f"/page/metrics/total/{on(1)}").text
    for number in (1, 2):
        assert f'<td class="num">{numbers.latest_total(number):,}' in series
    history = numbers.history(1)
    assert len(history) > 2
    for label, value, state, _ in history:
        row = re.search(rf'<tr><th scope="row">{label}</th>.*?</tr>', story, re.DOTALL)
        assert row
        assert f'<td class="num">{value:,}</td>' in row[0]
        assert {"live": "Live (updating)", "preliminary": "Preliminary", "final": "Final"}[state] in row[0]
    newest = unescape(client.get("/").text)
    assert f'data-measure="total">{numbers.latest_total(2):,}<' in newest


def drawings(html: str) -> list[set[str]]:
    """The texts in each drawing of a page: the wide one and the narrow one."""
    return [set(re.findall(r"<text[^>]*>([^<]*)<", drawing)) for drawing in re.findall(r"<svg.*?</svg>", html, re.DOTALL)]


def test_the_page_of_a_metric_begins_with_its_newest_number_and_draws_them_all(client: TestClient) -> None:
    html = client.get("/page/metrics/total").text.partition("<main")[2]
    head = html.partition("<section>")[0]
    assert re.findall(r'class="period"><a href="([^"]*)"', head) == [f"/page/metrics/total/{on(2)}"]
    assert "<dt>total</dt><dd>7</dd>" in head
    days = {on(number).removeprefix("2024-") for number in (1, 2)}
    assert [days <= texts for texts in drawings(html)] == [True, True]


def test_a_story_draws_each_revision_and_says_how_far_it_moved(client: TestClient) -> None:
    html = client.get(f"/page/metrics/total/{on(1)}").text.partition("<main")[2]
    for texts in drawings(html):
        assert {"r1", "r2", "r3"} <= texts
        assert "total" not in texts, "the one measure is named above the drawing"
    steps = dict(re.findall(r'<li id="(r\d)">(.*?)</li>', html, re.DOTALL))
    moves = {label: re.findall(r'class="move">(.*?) <span', text) for label, text in steps.items()}
    assert moves == {"r3": [], "r2": ["total 1 → <b>5</b>"], "r1": []}
    assert "First published: total <b>1</b>." in steps["r1"]


def test_a_move_without_a_changed_row_has_no_false_cause(client: TestClient) -> None:
    """Both revisions were made from the same version of silver: the numbers were given by hand."""
    for path in (f"/page/metrics/total/{on(1)}", f"/page/metrics/total/{on(1)}/r2"):
        shown = client.get(path).text
        assert "No change of a row caused it: the logic, the state or a person's decision did." in shown
        assert "does not reach back" not in shown


def test_what_was_restated_in_a_week(client: TestClient, numbers: ScriptedNumbers) -> None:
    every = client.get(f"/data-quality/restatements?start_date={on(1)}&end_date={on(60)}").json()
    assert (every["total"] > 0, every["next_offset"]) == (True, None)
    last = date.fromisoformat(every["restatements"][0]["restated_on"][:10])
    numbers.lake.settings.now = datetime.combine(last, datetime.min.time(), timezone.utc)
    start = last - timedelta(days=6)
    week = client.get(f"/data-quality/restatements?start_date={start}&end_date={last}").json()
    shown = client.get("/page/restated").text
    lines = re.findall(r'<tr role="row"><td role="cell">.*?</tr>', shown, re.DOTALL)
    assert len(lines) == week["total"] > 0
    for line, one in zip(lines, week["restatements"]):
        assert f'/{one["window"]}#{one["version"]}"' in line
        assert f"<b>{one['moved']['total']['after']:,}</b>" in line
        assert one["reason"].replace("_", " ") in line
    first_page = client.get(f"/data-quality/restatements?start_date={on(1)}&end_date={on(60)}&limit=1").json()
    assert (len(first_page["restatements"]), first_page["next_offset"]) == (1, 1 if every["total"] > 1 else None)
    numbers.lake.settings.now = datetime.combine(last + timedelta(days=7), datetime.min.time(), timezone.utc)
    assert "The last restatement was on" in client.get("/page/restated").text, "a week has seven days"
    numbers.lake.settings.now = at(400)
    assert "The last restatement was on" in client.get("/page/restated").text


def test_the_watermark_is_drawn_in(client: TestClient) -> None:
    shown = client.get("/page/lateness?source=events").text
    assert "cutoff: 1 d" in shown
    assert ">cutoff: 1 d</text>" in shown, "it is text in the drawing"
    assert "waits for a steward" in shown
    assert "2 of 3 rows" in shown


@pytest.mark.merge
def test_the_figures_of_the_alerts_are_shown_with_their_bounds(tmp_path: Path) -> None:
    """One of ten rows came beyond the cutoff, and a tenth is tolerated."""
    source = contract(lateness={"expected": "PT1H", "cutoff": "P1D", "alert_above": 0.05})
    beyond = Alert(AlertKind.LATE_SHARE, "events", "events", at(3), "Too many rows beyond the cutoff.")
    lake = lake_below(tmp_path / "lake")
    write_source_rows(
        lake, source, [(f"i{key}", at(3), at(3, 48 if key == 0 else 0.5), "insert", "admitted") for key in range(10)]
    )
    with api_client(lake, catalog(metric(), source=source)) as client:
        shown = client.get("/page/lateness?source=events").text
        by_hour = client.get("/page/lateness?source=events&by=hour").text
        [opened] = alert_log.record(lake, [], [beyond], lambda _: False, lambda _: [])
        until = f"{at(3).date()}"
        alerted = client.get(f"/page/lateness?source=events&through={until}").text
        quiet = client.get("/page/lateness?source=events&through=2020-01-01").text
    assert "Day by day" not in quiet
    assert f'<li id="alert-{opened.alert_id}">' in quiet, "an open alert is shown where no row of the period is measured"
    section = unescape(shown.partition('<section id="watched">')[2].partition("</section>")[0])
    assert section.count("<svg") >= 3
    assert "Share of late rows, by day of arrival: more than 1 h after the event." in re.sub(r"<[^>]+>", "", section)
    assert f'<a href="#alert-{opened.alert_id}">' in alerted
    assert f'<li id="alert-{opened.alert_id}">' in alerted
    links = re.findall(r'<a href="(/page/lateness[^"]+)"', alerted)
    assert links
    assert all(f"through={until}" in link and "by=" in link for link in links), "another choice keeps the period"
    words_shown = " ".join(re.sub(r"<svg.*?</svg>|<[^>]+>", " ", section, flags=re.DOTALL).split())
    assert "Share of rows beyond the cutoff, by day of arrival; the dashed line is the tolerated share." in words_shown
    assert "Alert late_share : not open." in words_shown
    [newest] = [line for line in re.findall(r"<tr><th scope=.row.>.*?</tr>", section) if "100.00 %" in line]
    assert "5.00 %" in newest
    assert "2 d" in newest
    assert "by hour of arrival; the dashed line" in unescape(by_hour)


@pytest.mark.merge
def test_each_type_is_held_against_its_own_bounds(tmp_path: Path) -> None:
    """Corrections come two days late, as they may; of the other rows one in ten comes beyond their watermark."""
    own = {"column": "change_op", "values": {"correct": {"expected": "P3D", "watermark": "P30D"}}}
    source = contract(lateness={"expected": "PT1H", "watermark": "P1D", "beyond": "quarantine", "by": own})
    rows = [(f"i{key}", at(1), at(1, 48 if key == 0 else 0.5), "insert", "admitted") for key in range(10)]
    slow = [(f"c{key}", at(1), at(3), "correct", "admitted") for key in range(10)]
    for name, told in (("both", [*rows, *slow]), ("slow", slow)):
        lake = lake_below(tmp_path / name)
        write_source_rows(lake, source, told)
        with api_client(lake, catalog(metric(), source=source)) as client:
            shown = " ".join(re.sub(r"<[^>]+>", " ", unescape(client.get("/page/lateness?source=events").text)).split())
        assert "more than 1 h after" not in shown
        assert "correct has separate bounds. The cutoff stays." in shown
        if name == "slow":
            assert "0 of 10 rows (0.0 %) arrived late, that is later than expected for their type." in shown
            assert "0.00 % arrived beyond the cutoff of their type." in shown
            assert "What a cutoff catches" not in shown
            continue
        assert "1 of 20 rows (5.0 %) arrived late, that is later than expected for their type." in shown
        assert "5.00 % arrived beyond the cutoff of their type." in shown
        assert "Without the types that have separate bounds: correct." in shown
        assert "1 d 90.00 % 10.00 % in force" in shown, "of the rows that this watermark is for"
        assert "correct 10 0 2 d 2 d 2 d 2 d 30 d 0" in shown
        assert "insert 10 1 30 min 2 d 2 d 2 d 1 d 1" in shown


def test_only_stewards_see_the_contents_of_rows(client: TestClient, numbers: ScriptedNumbers) -> None:
    assert "The values of a row are shown to stewards" in client.get(ROW).text
    sign_in(client, numbers.lake, Role.READER, "ben")
    shown = client.get(ROW).text
    assert "<h3>Values" not in shown
    assert "need a steward" in shown
    assert "<fieldset>" not in shown
    sign_in(client, numbers.lake)
    assert "<h3>Values" in client.get(ROW).text


@pytest.mark.merge
def test_a_steward_decides(client: TestClient, numbers: ScriptedNumbers) -> None:
    sign_in(client, numbers.lake)
    done = decide(client, secret=form_secret(client))
    assert (done.status_code, done.headers["location"]) == (303, ROW)
    (said,) = decisions.all_of(numbers.lake, "events")
    assert (said.record_key, said.verdict, said.by, said.reason) == ("b", "accept", "anna", "seen the receipt")
    shown = unescape(client.get(ROW).text)
    assert "Accepted by anna" in shown
    assert "The decision is recorded. The numbers follow:" in shown
    assert "lakehouse quarantine accept events file1:1 --by anna --reason 'seen the receipt'" in shown
    decide(client, secret=form_secret(client))
    assert len(decisions.all_of(numbers.lake, "events")) == 1, "saying it again decides nothing"
    decide(client, secret=form_secret(client), decision="reject", reason="no")
    assert "Rejected by anna" in client.get(ROW).text


@pytest.mark.merge
@pytest.mark.parametrize("entries", [{"reason": " "}, {"reason": "x" * 501}, {"decision": "keep"}, {"by": "eve"}])
def test_an_incomplete_decision_is_requested_again(client: TestClient, numbers: ScriptedNumbers, entries: dict[str, str]) -> None:
    sign_in(client, numbers.lake)
    answer = decide(client, secret=form_secret(client), **entries)
    assert "Choose a decision and enter a reason" in page(answer, 422).text
    assert decisions.all_of(numbers.lake, "events") == []


@pytest.mark.merge
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


def test_an_internal_error_shows_only_its_incident(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("the secret of the house")

    monkeypatch.setattr(overview_page, "_waiting", broken)
    found = page(client.get("/"), 500)
    assert "secret" not in found.text
    assert re.search(r"Incident\s+[0-9a-f]{12}", found.text)


def test_other_methods_and_hosts_are_pages_too(client: TestClient) -> None:
    page(client.post("/"), 404)
    page(client.put("/page/quarantine"), 404)


@pytest.mark.merge
def test_a_closed_number_and_its_adjustment(tmp_path: Path) -> None:
    with without_spark():
        numbers = numbers_with_weeks(lake_in(tmp_path), publication={"final_after": 2, "after_close": "adjust"})
        numbers.at(1, 6)
        numbers.set(1, 100)
        numbers.publish(1)
        numbers.at(4)
        numbers.close()
        numbers.set(1, 130)
        numbers.publish(1)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        story = unescape(client.get(f"/page/metrics/total/{on(1)}").text)
        assert 'data-measure="total">100</dd>' in story, "what was closed was not restated"
        assert "It has not changed since it was first published" in story
        assert "With 1 adjustment it amounts to total <b>130</b>." in story
        assert "<small>adjusted 130</small>" in client.get("/page/metrics/total").text
        assert "total 100 → <b>130</b>" in story
        closed = page(client.get(f"/page/metrics/total/{on(1)}/r2.a1")).text
        assert "adjustment" in closed


@pytest.mark.merge
def test_a_grain_is_reported_row_by_row(tmp_path: Path) -> None:
    with without_spark():
        numbers = numbers_with_weeks(lake_in(tmp_path), grain=["store"])
        numbers.at(1, 6)
        numbers.set(1, {"north": 1, "<south>": 2})
        numbers.publish(1)
        numbers.at(1, 8)
        numbers.set(1, {"north": 1, "<south>": 5})
        numbers.publish(1)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        assert '<td class="num">6' in client.get("/page/metrics/total").text
        shown = client.get(f"/page/metrics/total/{on(1)}/r2").text
        assert '<th scope="row">&lt;south&gt;</th><td class="num">5</td>' in shown
        assert '<th scope="row">north</th><td class="num">1</td>' in shown
        page(client.get(f"/page/metrics/total/{on(1)}"))


@pytest.mark.merge
def test_an_empty_lake_is_reported_as_empty(tmp_path: Path) -> None:
    with api_client(lake_in(tmp_path), catalog(metric())) as client:
        assert "Nothing has been published yet" in page(client.get("/")).text
        assert "Nothing of total has been published" in page(client.get("/page/metrics/total")).text
        assert "No number has been restated yet" in page(client.get("/page/restated")).text
        assert "No row of events has arrived yet" in page(client.get("/page/lateness")).text
        assert "Nothing to decide" in page(client.get("/page/quarantine")).text
    nothing = catalog(metric())
    nothing.metrics.clear()
    nothing.sources.clear()
    with api_client(lake_below(tmp_path / "b"), nothing) as client:
        assert "There is no metric yet" in page(client.get("/")).text
        assert "There is no source yet" in page(client.get("/page/lateness")).text


def lake_below(folder: Path) -> Lake:
    folder.mkdir()
    return lake_in(folder)


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    with without_spark():
        numbers = publish_two_days(numbers_with_weeks(lake_in(tmp_path), description=HOSTILE_TEXT, owner=HOSTILE_TEXT))
    key = HOSTILE_TEXT.replace("\n", " ").replace("\x1b", "")
    write_source_rows(numbers.lake, SOURCE, [(key, at(1), at(5), "insert", "quarantined")])
    account_tables.after_decision(numbers.lake, SOURCE, {key}, {at(1).date()})
    with api_client(numbers.lake, catalog(numbers.metric, source=SOURCE)) as client:
        client.headers["Origin"] = "http://localhost"
        sign_in(client, numbers.lake, name=key)
        row = "/page/quarantine/events:file1:0"
        own = {"secret": form_secret(client), "decision": "reject", "reason": key}
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


@pytest.mark.merge
def test_the_share_beyond_each_tier(tmp_path: Path) -> None:
    tiers = [{"within": "PT24H", "serves": "daily <numbers>"}, {"within": "P10D", "serves": "monthly numbers"}]
    source = contract(lateness={"tiers": tiers})
    lake = lake_in(tmp_path)
    rows = [(f"k{key}", at(1), at(3) if key == 0 else at(1, 2), "insert", "admitted") for key in range(4)]
    write_source_rows(lake, source, rows)
    with api_client(lake, catalog(metric(), source=source)) as client:
        text = words(page(client.get("/page/lateness?source=events")) and client.get("/page/lateness?source=events").text)
    assert "1 d 75.00 % 25.00 % on time, tier of daily <numbers>" in text
    assert "10 d 100.00 % 0.00 % tier of monthly numbers" in text


@pytest.fixture(name="fleet", scope="module")
def _fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A hundred and twenty metrics of eleven owners and of nobody; one has numbers."""
    with without_spark():
        numbers = publish_two_days(numbers_with_weeks(lake_in(tmp_path_factory.mktemp("fleet"))))
    owners = [f"team {number % 11}" if number % 12 else None for number in range(120)]
    others = [metric(f"number_{at:03}", owner=owner, description=f"Number {at} <b>.") for at, owner in enumerate(owners)]
    with api_client(numbers.lake, catalog(numbers.metric, *others)) as client:
        yield client


def test_many_metrics_are_listed_in_pages_by_owner(fleet: TestClient) -> None:
    shown: list[str] = []
    for number in (1, 2, 3):
        assert f"121 metrics, page {number} of 3." in page(fleet.get("/", params={"page": number})).text
        of_page = re.findall(r'id="((?:number_\d+)|total)"', fleet.get("/", params={"page": number}).text)
        assert len(of_page) == (50, 50, 21)[number - 1]
        shown += of_page
    assert shown[0] == "total", "the one with a number"
    assert sorted(shown) == sorted(["total", *(f"number_{at:03}" for at in range(120))]), "each on one page"
    assert "<b>" not in fleet.get("/").text.replace("<b data-measure", ""), "what a contract says is no markup"


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({"q": "NUMBER_01"}, [f"number_{at:03}" for at in range(10, 20)]),
        ({"q": "number 7 <b>"}, ["number_007"]),
        ({"owner": "team 3"}, [f"number_{at:03}" for at in range(120) if at % 11 == 3 and at % 12]),
        ({"q": "00", "owner": "team 3"}, ["number_003"]),
        ({"q": "events", "page": 9}, None),
        ({"q": "no such thing"}, []),
    ],
)
def test_a_search_finds_the_same_metrics_on_the_page_and_in_the_api(
    fleet: TestClient, wanted: dict[str, Any], names: list[str] | None
) -> None:
    of_page = re.findall(r'id="((?:number_\d+)|total)"', fleet.get("/", params=wanted).text)
    search = {name: value for name, value in wanted.items() if name != "page"}
    answer = get_json(fleet, "/metrics", **search)
    if names is None:
        assert (len(of_page), answer["total"]) == (21, 121), "a page after the last one is the last one"
        return
    assert sorted(of_page) == sorted(names) == [one["name"] for one in answer["metrics"]]
    assert answer["total"] == len(names)
    if not names:
        assert "No metric matches" in fleet.get("/", params=wanted).text


def test_the_catalogue_comes_in_parts(fleet: TestClient) -> None:
    whole = get_json(fleet, "/metrics")
    parts = [get_json(fleet, "/metrics", limit=50, offset=offset) for offset in (0, 50, 100)]
    assert [one for part in parts for one in part["metrics"]] == whole["metrics"]
    assert {part["total"] for part in parts} == {121}


def test_a_few_metrics_have_no_search(client: TestClient) -> None:
    assert 'role="search"' not in client.get("/").text


def test_a_metric_that_cannot_be_read_does_not_turn_lines_into_cards(tmp_path: Path) -> None:
    with without_spark():
        numbers = publish_two_days(numbers_with_weeks(lake_in(tmp_path)))
    others = [metric(f"number_{at}") for at in range(8)]
    log = tmp_path / "lake" / "gold" / "number_0" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("garbage")
    with api_client(numbers.lake, catalog(numbers.metric, *others)) as client:
        text = client.get("/").text
    assert "number_0" in text
    assert "metrics of" in words(text)
    assert 'class="card"' not in text
