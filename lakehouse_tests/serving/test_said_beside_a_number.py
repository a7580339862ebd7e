"""What stands beside a number says the same in the API, on its page and in the terminal: held, adjusted, deprecated, grown."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING

import pytest

from lakehouse.gold.numbers.lifecycle import RevisionReason
from lakehouse_tests.support.api_client import api_client, at, catalog, get_json, numbers_with_weeks, on
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, metric, without_spark
from lakehouse_tests.support.parsed_page import words
from lakehouse_tests.support.typed_numbers import typed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakehouse.lake import Lake

HELD = "it failed row_count; 'lakehouse gold held total' shows why"


@pytest.fixture(autouse=True)
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def test_a_number_waits_for_a_newer_one_that_is_held(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the calendar it is final; the next run does not close it."""
    numbers = numbers_with_weeks(lake, checks={"row_count": {"max": 1}}, publication={"final_after": 2, "rollups": ["week"]})
    numbers.at(1, 12)
    numbers.set(1, 5)
    numbers.publish()
    two = numbers.table(7)
    numbers.by_day[date(2024, 1, 1)] = two.set_column(1, "row_count", [[2]])
    numbers.at(5)
    numbers.publish()
    with api_client(lake, catalog(numbers.metric)) as client:
        answer = get_json(client, "/metrics/total", window=on(1))
        page, overview = (words(client.get(path).text) for path in (f"/page/metrics/total/{on(1)}", "/"))
    sentence = f"a newer number is held: {HELD}"
    assert (answer["held"], answer["waiting_for"]) == (HELD, [sentence])
    assert sentence in page
    assert sentence in overview
    assert "the next run" not in page + overview
    assert f"  {sentence}\n" in typed(numbers, tmp_path, monkeypatch, "gold", "show", "total", on(1))[0]


def test_an_adjusted_number_says_to_what_it_amounts(lake: Lake) -> None:
    numbers = numbers_with_weeks(lake, publication={"after_close": "adjust", "final_after": 2})
    numbers.at(1, 12)
    numbers.set(1, 5)
    numbers.publish()
    numbers.at(3)
    numbers.publish()
    numbers.at(4)
    numbers.set(4, 1)
    numbers.set(1, 9)
    numbers.publish()
    with api_client(lake, catalog(numbers.metric)) as client:
        answer = get_json(client, "/metrics/total", window=on(1))
        earlier = get_json(client, "/metrics/total", window=on(1), version="r1")
    assert answer["result"] == [{"total": 5, "row_count": 1}]
    assert (answer["adjustments"], answer["adjusted"]) == (["r2.a1"], {"total": 9})
    assert (earlier["adjustments"], earlier["adjusted"]) == ([], {})


def test_a_number_that_has_only_grown_does_not_say_that_it_never_changed(lake: Lake) -> None:
    numbers = numbers_with_weeks(lake)
    numbers.at(1, 12)
    numbers.set(1, 5)
    numbers.publish()
    numbers.roll_up()
    numbers.at(2, 12)
    numbers.set(2, 7)
    numbers.publish(2)
    numbers.roll_up()
    with api_client(lake, catalog(numbers.metric)) as client:
        week, day = (words(client.get(f"/page/metrics/total/{name}").text) for name in ("2024-W01", on(1)))
    assert "It has grown since it was first published, and was not restated." in week
    assert "It has not changed since it was first published." in day


def test_a_deprecated_dataset_version_says_so_everywhere(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = ScriptedNumbers(lake, metric(deprecated_on="2025-01-01"))
    numbers.at(1, 12)
    numbers.set(1, 5)
    numbers.publish()
    sentence = "total v1 is deprecated: nobody should read it from 2025-01-01 on."
    with api_client(lake, catalog(numbers.metric)) as client:
        assert get_json(client, "/metrics/total", window=on(1))["deprecated_on"] == "2025-01-01"
        assert get_json(client, "/metrics/total/history", window=on(1))["deprecated_on"] == "2025-01-01"
        assert get_json(client, "/metrics/total/compare", window=on(1))["deprecated_on"] == "2025-01-01"
        assert get_json(client, "/metrics/total/series", start=on(1), end=on(1))["deprecated_on"] == "2025-01-01"
        for path in ("/", "/page/metrics/total", f"/page/metrics/total/{on(1)}", f"/page/metrics/total/{on(1)}/r1"):
            assert sentence in words(client.get(path).text)
    for command in ("show", "history", "compare", "diff"):
        assert sentence in typed(numbers, tmp_path, monkeypatch, "gold", command, "total", on(1))[1]


def test_a_week_is_restated_by_a_day_that_was_put_back_and_closed_since(lake: Lake) -> None:
    """The newest revision of the day only changed its state: the one before took a number back."""
    numbers = numbers_with_weeks(lake, publication={"final_after": 3, "rollups": ["week"]})
    numbers.at(1, 12)
    numbers.set(1, 10)
    numbers.publish()
    numbers.roll_up()
    numbers.at(2, 12)
    numbers.set(1, 4)
    numbers.publish(1, reason=RevisionReason.ROLLBACK)
    numbers.at(4, 12)
    numbers.set(4, 1)
    numbers.publish()
    numbers.roll_up()
    with api_client(lake, catalog(numbers.metric)) as client:
        versions = get_json(client, "/metrics/total/history", window="2024-W01")["versions"]
        page = words(client.get("/page/metrics/total/2024-W01").text)
    assert [(version["result"][0]["total"], version["reason"]) for version in versions] == [(10, "initial"), (5, "rollback")]
    assert "It was restated once" in page
    assert at(4, 12).strftime("%Y-%m-%dT%H") in versions[-1]["restated_on"]


def test_an_adjustment_restates_the_open_week_that_it_is_booked_in(lake: Lake) -> None:
    numbers = numbers_with_weeks(lake, publication={"after_close": "adjust", "final_after": 1, "rollups": ["week"]})
    numbers.at(1, 12)
    numbers.set(1, 10)
    numbers.publish()
    numbers.at(2, 12)
    numbers.publish()
    numbers.roll_up()
    numbers.at(3, 12)
    numbers.set(1, 4)
    numbers.set(3, 1)
    numbers.publish()
    numbers.roll_up()
    with api_client(lake, catalog(numbers.metric)) as client:
        *_, newest = get_json(client, "/metrics/total/history", window="2024-W01")["versions"]
        day = get_json(client, "/metrics/total/history", window=on(1))["versions"][-1]
    assert day["booked_on"] is not None
    assert newest["result"][0]["total"] == 5
    assert newest["reason"] == day["reason"], "that of the adjustment, and no growth"
    assert newest["restated_on"] is not None


def test_an_hour_has_its_own_version_end_and_updates(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = ScriptedNumbers(lake, metric("hourly", window={"size": "PT1H"}, publication={"final_after": 9}))
    numbers.at(1, 12)
    numbers.set_hours(1, {9: 5, 10: 7})
    numbers.publish()
    numbers.at(1, 20)
    numbers.set_hours(1, {9: 5, 10: 9})
    numbers.publish(reason=RevisionReason.LATE_DATA)
    for name, hour, updates in (("2024-01-01T09", 10, 0), ("2024-01-01T10", 11, 1)):
        with api_client(lake, catalog(numbers.metric)) as client:
            answer = get_json(client, "/metrics/hourly", window=name)
        shown = typed(numbers, tmp_path, monkeypatch, "gold", "show", "hourly", name)[0]
        words_of_updates = "1 update" if updates == 1 else f"{updates} updates"
        assert f"  the window ends 2024-01-01 {hour}:00 UTC; {words_of_updates} since the first number\n" in shown
        of_command = json.loads(typed(numbers, tmp_path, monkeypatch, "gold", "show", "hourly", name, "--json")[0])
        assert (answer["update_count"], answer["watermark_passed"]) == (updates, None)
        for field in ("update_count", "watermark_passed"):
            assert of_command[field] == answer[field]
        assert of_command["window_end"] == f"2024-01-01 {hour}:00:00+00:00"
