"""The page of a source: its watermark and who holds it, what is missing of it, its deliveries; and its line on the overview."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.contracts import Catalog
from lakehouse.dispositions import account_tables, unread
from lakehouse.gold.restatement.closing import SourceState
from lakehouse.lateness import missing_inputs
from lakehouse.lateness import pages as source_page
from lakehouse.lateness.event_watermark import SourceWatermark, steps
from lakehouse.reports import templates
from lakehouse.serving.published_cache import ObservedSource
from lakehouse_tests.support.api_client import api_client, at, catalog, write_source_rows
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import metric
from lakehouse_tests.support.page_client import HtmlPage, page
from lakehouse_tests.support.parsed_page import HOSTILE_TEXT, words
from lakehouse_tests.support.recorded_deliveries import delivery, held_file, record

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.testclient import TestClient

    from lakehouse.contracts import SourceContract
    from lakehouse.lake import Lake

PATH = "/page/sources/events"
HOUR = timedelta(hours=1)


def watched(contract_keys: dict[str, Any] | None = None, **strategy: Any) -> SourceContract:
    clocks = {"event": "event_time", "arrival": "arrived_at", "watermark": strategy}
    return contract(clocks=clocks, **(contract_keys or {}))


BOUNDED = watched(strategy="bounded", max_lateness="PT1H")


def shown(client: TestClient, path: str = PATH) -> str:
    return words(page(client.get(path)) and client.get(path).text)


@pytest.fixture(name="lake")
def _lake(tmp_path: Path) -> Lake:
    lake = lake_in(tmp_path)
    lake.settings.now = at(3, 12)
    return lake


def delivered_by_the_hour(lake: Lake, hours: int = 10) -> None:
    """A file each hour, of which the newest event is 30 minutes old, except for the last one, which has an older event."""
    made = [delivery(number, at(3, number), at(3, number) - HOUR / 2) for number in range(hours)]
    record(lake, *made, delivery(hours, at(3, hours), at(2), skewed=2))


@pytest.mark.merge
def test_the_watermark_and_the_delivery_that_moved_it(lake: Lake) -> None:
    delivered_by_the_hour(lake)
    with api_client(lake, catalog(metric(), source=BOUNDED)) as client:
        text = shown(client)
        table = re.findall(r'<tr role="row"><th scope="row".*?</tr>', client.get(PATH).text, re.DOTALL)
    assert "Everything before 2024-01-03 07:30 is expected to have arrived." in text
    assert "The watermark is 4 h 30 min behind now. It stands there since 2024-01-03 09:00, when 9.csv arrived." in text
    assert "the greatest event time that has arrived, less 1 h" in text
    assert "2 rows in all were skewed" in text
    assert "Nothing is known to be missing" in text
    newest, moved = (words(line) for line in table[:2])
    assert newest == "10.csv arrived 2024-01-03 10:00 1 rows 2 skewed newest event 2024-01-02 00:00 watermark 2024-01-03 07:30"
    assert moved.startswith("9.csv arrived 2024-01-03 09:00")
    assert moved.endswith("watermark 2024-01-03 07:30 moved")


@pytest.mark.merge
def test_everything_that_is_missing_is_listed(lake: Lake) -> None:
    source = watched({"lateness": {"watermark": "P1D", "beyond": "quarantine"}}, strategy="bounded", max_lateness="PT1H")
    delivered_by_the_hour(lake)
    record(lake, held_file(99, at(3, 11), "b.csv", "line 7: amount is no number"))
    missing_inputs.record(lake, "events", "unfinished_day", {at(2).date(): "2024-01-02: 3 files of its manifest are missing"})
    missing_inputs.record(lake, "events", "failed_ingestion", {at(1).date(): "2024-01-01: runs failed to ingest a.csv"})
    write_source_rows(lake, source, [("late", at(1), at(3), "insert", "quarantined")])
    account_tables.after_decision(lake, source, {"late"}, {at(1).date()})
    with api_client(lake, catalog(metric(), source=source)) as client:
        text, overview = shown(client), shown(client, "/")
        assert 'href="/page/sources/events"' in client.get("/").text
        assert 'href="/page/quarantine?source=events"' in client.get(PATH).text
    assert "held b.csv, arrival day 2024-01-03: line 7: amount is no number" in text
    assert "unfinished day 2024-01-02: 3 files of its manifest are missing" in text
    assert "failed ingestion 2024-01-01: runs failed to ingest a.csv" in text
    assert "open review 1 row of 1 event day waits for a steward" in text
    assert "events watermark 2024-01-03 07:30 newest arrival 2024-01-03 10:00" in overview
    assert "1 held file, 2 incomplete arrival days, 1 open review" in overview


@pytest.mark.merge
def test_the_chart_and_its_table(lake: Lake) -> None:
    record(lake, *(delivery(number, at(1) + number * HOUR / 10, at(1) + (number - 5) * HOUR / 10) for number in range(600)))
    lake.settings.now = at(4)
    with api_client(lake, catalog(metric(), source=BOUNDED)) as client:
        html = client.get(f"{PATH}?days=2").text
        assert len(client.get(PATH).text) < 200_000
    listed = re.findall(r'<tr><th scope="row"><time.*?</tr>', html.partition('id="points"')[2])
    assert 100 <= len(listed) <= 150
    svg = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    assert [drawing.count("<use ") for drawing in svg] == [len(listed)] * 2, "wide and narrow, a dot for each line"
    text = words(html)
    # From midnight of the second day on; the chart ends with the hour that has begun.
    assert f"{600 - 250} deliveries of these days, newest first; {len(listed)} are drawn and listed" in text
    assert 'aria-current="true">2 days' in html


def test_a_source_that_has_been_silent_for_long(lake: Lake) -> None:
    delivered_by_the_hour(lake)
    lake.settings.now = at(400)
    with api_client(lake, catalog(metric(), source=BOUNDED)) as client:
        assert "Nothing has arrived since 2024-01-03 10:00; the drawing ends 2024-01-06 23:00" in shown(client)


@pytest.mark.merge
def test_a_source_without_an_event_time_watermark(lake: Lake) -> None:
    delivered_by_the_hour(lake)
    with api_client(lake, catalog(metric())) as client:
        text = shown(client)
        assert "<svg" in client.get(PATH).text, "its arrivals are drawn all the same"
        assert "events watermark none newest arrival 2024-01-03 10:00" in shown(client, "/")
    assert "Its contract has no event-time watermark: numbers become final by the calendar" in text
    assert "Watermark after it" not in text
    assert "Add a watermark under clocks.watermark" in text


def test_before_the_first_delivery(lake: Lake) -> None:
    with api_client(lake, catalog(metric(), source=BOUNDED)) as client:
        text = shown(client)
        assert "<svg" not in client.get(PATH).text
        assert "events watermark not moved yet newest arrival none nothing known" in shown(client, "/")
    assert "Nothing is expected to be complete yet: the watermark has not moved. Nothing has arrived." in text
    assert "Nothing has been delivered yet." in text


@pytest.mark.merge
def test_one_that_follows_the_clock(lake: Lake) -> None:
    source = watched(strategy="processing_time", delay="PT36H")
    with api_client(lake, catalog(metric(), source=source)) as client:
        for delivered in (False, True):
            if delivered:
                delivered_by_the_hour(lake)
            text = shown(client)
            assert "Everything before 2024-01-02 00:00 is expected to have arrived." in text
            assert "The watermark follows the clock, whatever arrives." in text
            assert "the present time, less 1 d 12 h" in text
            assert not re.search("[0-9] moved", text)


def test_each_delivery_says_whether_it_moved_the_watermark(lake: Lake) -> None:
    delivered_by_the_hour(lake)
    source = watched(strategy="punctuated", marker={"column": "change_op", "value": "<end>"})
    with api_client(lake, catalog(metric(), source=source)) as client:
        text = shown(client)
    assert "the watermark has not moved. 11 deliveries did not move it." in text
    assert "a marker: a record with change_op = <end>" in text
    with api_client(lake, catalog(metric(), source=BOUNDED)) as client:
        table = re.findall(r'<tr role="row"><th scope="row".*?</tr>', client.get(PATH).text, re.DOTALL)
    newest, moved = (words(line) for line in table[:2])
    assert newest.endswith("newest event 2024-01-02 00:00 watermark 2024-01-03 07:30"), "that of the delivery before it"
    assert moved.endswith("newest event 2024-01-03 08:30 watermark 2024-01-03 07:30 moved")


@pytest.mark.merge
def test_the_keys_that_hold_it_are_named(lake: Lake) -> None:
    """As the strategy per key reports them; the page only shows them."""
    taken = steps(BOUNDED.clocks.watermark, [delivery(1, at(3), at(2))])  # type: ignore[arg-type]
    held = SourceWatermark("events", BOUNDED.clocks.watermark, at(3, 12), taken[-1].watermark, taken, ("<b>north", "south"))  # type: ignore[arg-type]
    observed = ObservedSource(SourceState(BOUNDED, held, [], [], {}, unread.none_of(BOUNDED)), [taken[-1].delivery])
    values = source_page.page_values(observed, at(3, 12), 7)
    about = {"metrics": [], "choices": (7,), "source": "events", "contract": BOUNDED, "days": 7, "listed": 20}
    html = templates.page("web/source", here="", session=None, **about, **values)
    assert "It is held by the keys <b" in html
    assert "&lt;b&gt;north</b>" in html
    assert "It is held by the keys <b>north, south: no newer event of these has arrived." in words(html)


@pytest.mark.merge
def test_hostile_names_stay_text(lake: Lake) -> None:
    name = HOSTILE_TEXT.replace("\n", " ").replace("\x1b", "")
    record(lake, delivery(1, at(3), at(2), source_file=name), held_file(2, at(3, 1), f"held {name}", name))
    missing_inputs.record(lake, "events", "unfinished_day", {at(2).date(): name})
    keys = {"description": name, "owner": name, "lateness": {"tiers": [{"within": "PT24H", "serves": name}]}}
    source = watched(keys, strategy="punctuated", marker={"column": "change_op", "value": name})
    with api_client(lake, catalog(metric(), source=source)) as client:
        for path in (PATH, "/"):
            html = client.get(path).text
            found = HtmlPage(html)
            assert not {"script", "img"} & {tag for tag, _ in found.tags}
            assert not any(name.startswith("on") for _, attributes in found.tags for name in attributes)
        assert client.get(PATH).text.count("alert(1)") >= 8


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/page/sources/nothing", 404, "There is no source 'nothing'; known are events."),
        ("/page/sources/NOTHING'--", 404, "There is no page at this address."),
        ("/page/sources/", 404, "page"),
        (f"{PATH}?days=0", 422, "Days: input should be greater than or equal to 1."),
        (f"{PATH}?days=1000", 422, "Days: input should be less than or equal to 92."),
        (f"{PATH}?day=1", 422, "The address has a parameter that this page does not support."),
    ],
)
def test_a_mistake_is_a_page_with_a_sentence(lake: Lake, path: str, status: int, sentence: str) -> None:
    with api_client(lake, catalog(metric())) as client:
        assert sentence in unescape(page(client.get(path), status).text)


def test_its_metrics_link_to_it_and_it_links_to_them(lake: Lake) -> None:
    other = metric("other").model_copy(update={"source": "elsewhere"})
    sources = {"events": BOUNDED, "elsewhere": contract(dataset="elsewhere")}
    with api_client(lake, Catalog(sources, {one.name: one for one in (metric(), other)})) as client:
        html = client.get(PATH).text
        assert 'Read by <a href="/page/metrics/total">total</a>.' in html
        assert "/page/metrics/other" not in html
        assert 'href="/page/sources/events"' in client.get("/page/metrics/total").text
