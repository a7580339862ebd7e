"""The page of an hour: its own version, reason and history, and what readers saw of the same hour on earlier days."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse.gold.numbers.lifecycle import RevisionReason
from lakehouse_tests.support.api_client import api_client, catalog, get_json
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, metric, without_spark
from lakehouse_tests.support.parsed_page import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.testclient import TestClient

    from lakehouse.lake import Lake


@pytest.fixture(name="numbers")
def _numbers(lake: Lake) -> Iterator[ScriptedNumbers]:
    with without_spark():
        yield ScriptedNumbers(lake, metric("hourly", window={"size": "PT1H"}, publication={"final_after": 9}))


def head_of(client: TestClient, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return words(answer.text.partition('<div class="head">')[2].partition("<section>")[0])


def test_the_page_of_an_hour_says_what_happened_to_the_hour(numbers: ScriptedNumbers) -> None:
    numbers.at(1, 12)
    numbers.set_hours(1, {9: 5, 10: 7})
    numbers.publish()
    numbers.at(1, 20)
    numbers.set_hours(1, {9: 5, 10: 9})
    numbers.publish(reason=RevisionReason.LATE_DATA)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        nine, ten, day = (
            head_of(client, f"/page/metrics/hourly/{name}") for name in ("2024-01-01T09", "2024-01-01-10", "2024-01-01")
        )
        assert "r1, published 2024-01-01 12:00. It has not changed since it was first published." in nine
        assert "The window ends 2024-01-01 10:00. No update since it was first published. It is published with its day." in nine
        assert "r2, published 2024-01-01 20:00. It was restated once, last 2024-01-01 20:00." in ten
        assert "The window ends 2024-01-01 11:00. 1 update since" in ten
        assert "total 9 first 7, +28.57 %" in ten
        assert "total 14" in day
        assert "It was restated once" in day
        for name in ("2024-01-01T09", "2024-01-01T10"):
            api, page = get_json(client, "/metrics/hourly", window=name), head_of(client, f"/page/metrics/hourly/{name}")
            assert f"{api['version']}, published" in page
            assert ("It was restated" in page) == (api["restated_on"] is not None)
        story = client.get("/page/metrics/hourly/2024-01-01").text
        assert '<a href="/page/metrics/hourly/2024-01-01T09">2024-01-01T09</a>' in story
        steps = client.get("/page/metrics/hourly/2024-01-01T09").text
        assert ('<li id="r1">' in steps, '<li id="r2">' in steps) == (True, False)
        assert client.get("/page/metrics/hourly/2024-01-01T11").status_code == 404, "nothing happened in this hour"


def test_an_hour_is_compared_with_the_same_hour_of_yesterday_and_of_the_same_weekday(numbers: ScriptedNumbers) -> None:
    for number, total in ((1, 10), (7, 20), (8, 25)):
        numbers.at(number, 12)
        numbers.set_hours(number, {9: total, 10: 1})
        numbers.publish(number)
    numbers.at(8, 11)
    numbers.at(8, 13)
    numbers.set_hours(1, {9: 99, 10: 1})
    numbers.publish(1, reason=RevisionReason.LATE_DATA)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        head = head_of(client, "/page/metrics/hourly/2024-01-08T09")
        assert "At this time yesterday, 2024-01-07T09 was live with total 20 (this is +5, +25.00 %)" in head
        assert "At this time a week ago, 2024-01-01T09 was live with total 10 (this is +15, +150.00 %)" in head, "as known then"
        known = get_json(client, "/metrics/hourly/at-this-time", window="2024-01-08T09")
        sides = {name: known[name] for name in ("yesterday_at_this_time", "today", "same_weekday_at_this_time")}
        assert {name: (side["window"], side["number"]["result"][0]["total"]) for name, side in sides.items()} == {
            "yesterday_at_this_time": ("2024-01-07T09", 20),
            "today": ("2024-01-08T09", 25),
            "same_weekday_at_this_time": ("2024-01-01T09", 10),
        }
        assert known["today_against_same_weekday"]["total"]["difference"] == 15
        assert client.get("/metrics/hourly/at-this-time?window=2024-W02").status_code in {400, 404}
