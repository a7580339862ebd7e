"""What the pages say of numbers that are not final: what they wait for, since when, and how they compare with yesterday's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.gold.numbers.version_selector import parse
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import revert
from lakehouse.lateness import missing_inputs
from lakehouse_tests.support.api_client import api_client, at, catalog, numbers_with_weeks, on
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, day, metric, without_spark
from lakehouse_tests.support.page_client import page
from lakehouse_tests.support.parsed_page import words
from lakehouse_tests.support.recorded_deliveries import delivery, record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.testclient import TestClient

WATCHED = {"event": "event_time", "arrival": "arrived_at", "watermark": {"strategy": "bounded", "max_lateness": "PT6H"}}
SOURCE = contract(clocks=WATCHED)
FINAL = {"preliminary_after": 1, "final_after": 2}


@pytest.fixture(autouse=True)
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def shown(client: TestClient, path: str) -> str:
    page(client.get(path))
    return words(client.get(path).text)


def two_days(folder: Path, **keys: Any) -> ScriptedNumbers:
    """Day 1: 50 in the morning, 90 at night, 100 the morning after; day 2: 60 in the morning. It is noon of day 2."""
    numbers = numbers_with_weeks(lake_in(folder), **keys)
    for clock, number, total in (((1, 10), 1, 50), ((1, 20), 1, 90), ((2, 9), 1, 100), ((2, 10), 2, 60)):
        numbers.at(*clock)
        numbers.set(number, total)
        numbers.publish(number)
    numbers.roll_up()
    numbers.at(2, 12)
    return numbers


@pytest.mark.merge
def test_a_live_number_stands_beside_that_of_the_day_before_at_this_time(tmp_path: Path) -> None:
    numbers = two_days(tmp_path)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        compared = f"At this time yesterday, {on(1)} was live with total 50 (this is +10, +20.00 %)."
        assert compared in shown(client, "/page/metrics/total")
        assert compared in shown(client, f"/page/metrics/total/{on(2)}")
        known = client.get("/metrics/total/at-this-time").json()["yesterday_at_this_time"]["number"]
        assert known["result"][0]["total"] == 50, "as the API says"
        assert "At this time" not in shown(client, f"/page/metrics/total/{on(1)}"), "nothing was published of the day before"
        assert "At this time" not in shown(client, "/page/metrics/total?by=week"), "nor of the week before"


@pytest.mark.merge
def test_what_readers_saw_a_day_ago_stands_in_small_print(tmp_path: Path) -> None:
    numbers = two_days(tmp_path)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        lines = re.findall(r'<tr id="p.*?</tr>', client.get("/page/metrics/total").text, re.DOTALL)
        assert ["yesterday" in line for line in lines] == [False, True]
        assert "100 first 50 yesterday 50" in words(lines[1])
        numbers.at(3, 9)
        assert "100 first 50 yesterday" not in shown(client, "/page/metrics/total"), "it has not changed since"


@pytest.mark.merge
def test_a_week_is_held_against_the_week_before_at_the_same_age(tmp_path: Path) -> None:
    numbers = numbers_with_weeks(lake_in(tmp_path), publication={"rollups": ["week"], "preliminary_after": 9, "final_after": 20})
    for number, total in ((1, 10), (2, 5), (8, 40)):
        numbers.at(number, 9)
        numbers.set(number, total)
        numbers.publish(number)
        numbers.roll_up()
    numbers.at(8, 12)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        text = shown(client, "/page/metrics/total?by=week")
    assert "At this time a week ago, 2024-W01 was live with total 10 (this is +30, +300.00 %)." in text


@pytest.mark.merge
def test_the_time_of_day_is_that_of_the_metric(tmp_path: Path) -> None:
    """The clocks of New York went forward in the night before day 70: the same time of day 69 was 23 hours earlier."""
    numbers = numbers_with_weeks(lake_in(tmp_path), publication={"timezone": "America/New_York"})
    for clock, number, total in (((69, 16), 69, 1), ((69, 16.75), 69, 7), ((70, 15), 70, 3)):
        numbers.lake.settings.now = at(*clock)
        numbers.set(number, total)
        numbers.publish(number)
    numbers.lake.settings.now = at(70, 16.25)  # 12:15 in New York; the day before that was at 17:15 UTC
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        assert f"{on(69)} was live with total 7" in shown(client, f"/page/metrics/total/{on(70)}")


@pytest.mark.merge
def test_the_day_on_which_a_number_becomes_final(tmp_path: Path) -> None:
    numbers = two_days(tmp_path, publication=FINAL)
    with api_client(numbers.lake, catalog(numbers.metric, source=contract())) as client:
        series, overview = shown(client, "/page/metrics/total"), shown(client, "/")
        assert f"It becomes final on {on(4)} at the earliest; nothing is known to be missing." in series
        assert f"Preliminary restated 2 times final on {on(3)} at the earliest" in series
        assert f"{on(2)} becomes final on {on(4)} at the earliest; nothing is known to be missing." in overview
        assert "No number is overdue" in overview
        numbers.at(3, 1)
        assert "1 number overdue" in shown(client, "/")
        assert f"{on(1)} waits for the next run only." in shown(client, "/")
        story = shown(client, f"/page/metrics/total/{on(1)}")
        assert f"By the calendar it could be final since {on(3)}; nothing is known to be missing" in story
        numbers.close()
        story = shown(client, f"/page/metrics/total/{on(1)}")
        assert "Final" in story
        assert "the earliest" not in story
        assert "overdue" not in shown(client, "/").replace("No number is overdue", "")


@pytest.mark.merge
def test_an_overdue_number_waits_for_its_source(tmp_path: Path) -> None:
    numbers = two_days(tmp_path, publication=FINAL)
    numbers.source = SOURCE
    record(numbers.lake, delivery(1, at(2, 9), at(2, 5)))
    numbers.at(5)
    numbers.close()
    reason = f"the watermark of events stands at {on(1)} 23:00 UTC and has to pass {on(2)} 00:00 UTC"
    with api_client(numbers.lake, catalog(numbers.metric, source=SOURCE)) as client:
        overview = shown(client, "/")
        assert "2 numbers overdue not final, although the calendar allows it" in overview
        assert f"2 numbers overdue The oldest, {on(1)}, waits for this: {reason}" in overview
        story = shown(client, f"/page/metrics/total/{on(1)}")
        assert f"overdue By the calendar it could be final since {on(3)}; it waits for this: {reason}" in story
        assert f"overdue since {on(3)}" in shown(client, "/page/metrics/total")
        for path in ("/", "/page/metrics/total", f"/page/metrics/total/{on(1)}"):
            assert 'href="/page/sources/events"' in client.get(path).text


@pytest.mark.merge
def test_a_long_reason_is_cut_on_the_overview_only(tmp_path: Path) -> None:
    numbers = two_days(tmp_path)
    names = ", ".join(f"part-{number:04}.csv" for number in range(60))
    missing_inputs.record(numbers.lake, "events", "unfinished_day", {day(2): f"{on(2)}: its manifest names {names}"})
    with api_client(numbers.lake, catalog(numbers.metric, source=contract())) as client:
        assert "part-0003.csv" in shown(client, "/")
        assert "part-0059.csv" not in shown(client, "/")
        assert "part-0059.csv" in shown(client, f"/page/metrics/total/{on(2)}")


@pytest.mark.merge
def test_of_many_metrics_a_reason_is_told_once(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    lake.settings.now = at(2, 12)
    record(lake, delivery(1, at(2, 9), at(2, 5)))
    every = [metric(f"metric_{number}", publication=FINAL) for number in range(9)]
    for contract_of in every[:8]:
        numbers = ScriptedNumbers(lake, contract_of, source=SOURCE)
        numbers.set(1 if contract_of is every[0] else 2, 7)
        numbers.publish()
    with api_client(lake, catalog(*every, source=SOURCE)) as client:
        html = client.get("/").text
        text = shown(client, "/")
    assert [words(heading) for heading in re.findall("<h2>.*?</h2>", html)][:3] == [
        *("1 metric of events", "7 metrics of events", "1 metric of events"),
    ]
    assert text.count(f"has to pass {on(3)} 00:00 UTC") == 1
    assert html.count('data-measure="total">7<') == 8
    assert text.count("nothing published yet") == 1
    assert "<svg" not in html, "many drawings take long"
    assert all(f'href="/page/metrics/{contract_of.name}"' in html for contract_of in every)


@pytest.mark.merge
def test_a_reverted_number_says_that_it_is_kept_and_until_when(tmp_path: Path) -> None:
    numbers = two_days(tmp_path)
    run = Run("back", by="anna")
    revert.revert(
        *(numbers.lake, numbers.source, numbers.series, numbers.series.period(day(1)), parse("r1"), run, "<b>wrong</b> feed")
    )
    numbers.roll_up()
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        why = "r1 by anna: <b>wrong</b> feed"
        kept = f"{on(1)} was put back to {why}. Later changes wait until lakehouse gold release total {on(1)}."
        story = shown(client, f"/page/metrics/total/{on(1)}")
        assert kept in story
        assert "Rollback: put back to r1 by anna: <b>wrong</b> feed" in story
        assert "reverted" not in shown(client, f"/page/metrics/total/{on(2)}")
        week = numbers.series.rollups[0].period(day(1)).name
        assert f"{on(1)} was put back to r1 by anna" in shown(client, f"/page/metrics/total/{week}")
