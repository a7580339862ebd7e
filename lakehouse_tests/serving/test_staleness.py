"""Whether a number is behind its inputs, and how complete it is then: silver changes, checks hold, periods lag."""

from __future__ import annotations

import gc
import weakref
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.calendar.periods import Calendar, Kind
from lakehouse.contracts.series import Series
from lakehouse.gold.publication import held_numbers
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import rollups
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.serving import pending_changes, published_cache
from lakehouse_tests.support.api_client import api_client, at, catalog, get_json, numbers_with_weeks, on, write_source_rows
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.maintained_lake import correct_in_silver, record_followed
from lakehouse_tests.support.numbers_without_spark import FIRST, day, without_spark
from lakehouse_tests.support.silver_log import append_to_silver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.testclient import TestClient

    from lakehouse.gold.restatement.pending import PendingRestatement
    from lakehouse.lake import Lake
    from lakehouse_tests.support.api_client import SourceRow
    from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers

#: The first of February, on which the rows of silver are that these tests write.
THEN = (date(2024, 2, 1) - FIRST).days + 1
MORE, HELD = "Newer data has arrived", "held back by a check"


@pytest.fixture(autouse=True, scope="module")
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def two_followed_days(folder: Path, **changes: Any) -> ScriptedNumbers:
    """Two days of rows in silver, and numbers that have followed them."""
    numbers = numbers_with_weeks(lake_in(folder), **changes)
    append_to_silver(numbers.lake, ("a", 1, 1), ("b", 2, 1))
    numbers.at(THEN + 1)
    numbers.set(THEN, 1)
    numbers.set(THEN + 1, 1)
    restate(numbers)
    numbers.roll_up()
    return numbers


def restate(numbers: ScriptedNumbers) -> None:
    """What the sensor and its run do."""
    pending = find_pending(numbers.lake, numbers.series)
    restatement_days.restate(numbers.lake, contract(), numbers.series, numbers.session, pending.starts, Run("run"), pending)


def is_behind(client: TestClient, window: str, version: str = "latest") -> Any:
    return get_json(client, "/metrics/total", window=window, version=version)["staleness"]["behind"]


def week_of(numbers: ScriptedNumbers) -> str:
    return Calendar().containing(FIRST + timedelta(days=THEN - 1), Kind.WEEK).name


@pytest.mark.merge
def test_a_commit_of_silver_that_changes_no_row_leaves_no_number_behind(tmp_path: Path) -> None:
    numbers = two_followed_days(tmp_path)
    append_to_silver(numbers.lake, ("c", 1, 1))
    record_followed(numbers.lake, 1)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        assert not is_behind(client, on(THEN))
        DeltaTable(locations.silver(numbers.lake, "events").address).optimize.compact()
        assert not is_behind(client, on(THEN))
        assert MORE not in client.get(f"/page/metrics/total/{on(THEN)}").text
        assert MORE not in client.get("/").text


@pytest.mark.merge
def test_only_the_days_that_silver_changed_are_behind(tmp_path: Path) -> None:
    numbers = two_followed_days(tmp_path)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        assert not is_behind(client, week_of(numbers))
        correct_in_silver(numbers.lake, "a", 2)
        assert (is_behind(client, on(THEN)), is_behind(client, on(THEN + 1))) == (True, False)
        assert is_behind(client, week_of(numbers)), "a week is where its days are"
        assert MORE in client.get(f"/page/metrics/total/{on(THEN)}").text
        numbers.set(THEN, 2)
        restate(numbers)
        assert not is_behind(client, on(THEN))
        assert is_behind(client, week_of(numbers)), "its day has a newer number"
        numbers.roll_up()
        assert not is_behind(client, week_of(numbers))


@pytest.mark.merge
def test_a_released_day_is_behind_until_it_is_computed_again(tmp_path: Path) -> None:
    numbers = two_followed_days(tmp_path)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        assert not is_behind(client, on(THEN))
        held_numbers.keep_periods(numbers.lake, "total", {day(THEN): "r1"}, "anna", "wrong feed")
        assert not is_behind(client, on(THEN))
        held_numbers.release_periods(numbers.lake, "total", [day(THEN)], "anna", "right after all")
        assert (is_behind(client, on(THEN)), is_behind(client, on(THEN + 1))) == (True, False)
        restate(numbers)
        assert not is_behind(client, on(THEN))


@pytest.mark.merge
def test_a_week_is_not_behind_days_that_only_became_final(tmp_path: Path) -> None:
    numbers = two_followed_days(tmp_path)
    for number in (THEN + 5, THEN + 8):
        numbers.at(number)
        numbers.close()
        if number == THEN + 5:
            numbers.roll_up()
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        assert is_behind(client, week_of(numbers)), "what the days came to is not known before it is looked at"
        numbers.roll_up()
        assert not is_behind(client, week_of(numbers))


@pytest.mark.merge
def test_a_week_that_was_made_by_hand_is_not_behind(tmp_path: Path) -> None:
    numbers = two_followed_days(tmp_path)
    correct_in_silver(numbers.lake, "a", 2)
    numbers.set(THEN, 2)
    restate(numbers)
    week = Series(numbers.metric, Kind.WEEK)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        assert is_behind(client, week_of(numbers))
        rollups.restate(numbers.lake, contract(), week, numbers.session, [day(THEN)], Run("by hand"))
        assert not is_behind(client, week_of(numbers))


@pytest.mark.merge
def test_a_superseded_number_is_behind(tmp_path: Path) -> None:
    numbers = two_followed_days(tmp_path, publication={"rollups": ["week"], "after_close": "adjust"})
    correct_in_silver(numbers.lake, "a", 2)
    numbers.set(THEN, 2)
    restate(numbers)
    numbers.roll_up()
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        assert (is_behind(client, on(THEN)), is_behind(client, on(THEN), "r1")) == (False, True)
        assert (is_behind(client, week_of(numbers)), is_behind(client, week_of(numbers), "r1")) == (False, True)
        numbers.at(THEN + 20)
        numbers.close()
        numbers.set(THEN, 3)
        numbers.publish(THEN)
        assert not is_behind(client, on(THEN), "r3.a1"), "an adjustment is never the newest revision"


@pytest.mark.merge
def test_unchanged_silver_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = two_followed_days(tmp_path)
    looks = []

    def counted(lake: Lake, series: Series) -> PendingRestatement:
        if series.kind is Kind.DAY:
            looks.append(1)
        return find_pending(lake, series)

    monkeypatch.setattr(pending_changes, "find_pending", counted)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        for _ in range(5):
            is_behind(client, on(THEN))
        assert len(looks) == 1
        append_to_silver(numbers.lake, ("c", 1, 1))
        for _ in range(5):
            assert is_behind(client, on(THEN))
        assert len(looks) == 2


def held(folder: Path) -> ScriptedNumbers:
    """A day published as 10; its new number 100 is held, and counts as followed."""
    numbers = two_followed_days(folder, checks={"change": [{"measure": "total", "absolute": 5}]})
    correct_in_silver(numbers.lake, "a", 100)
    numbers.set(THEN, 100)
    restate(numbers)
    assert numbers.held() == [(THEN, 2, 100)]
    return numbers


@pytest.mark.merge
def test_a_number_whose_successor_is_held_is_behind_and_says_so(tmp_path: Path) -> None:
    numbers = held(tmp_path)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        assert (is_behind(client, on(THEN)), is_behind(client, on(THEN + 1)), is_behind(client, week_of(numbers))) == (
            True,
            False,
            True,
        )
        story = client.get(f"/page/metrics/total/{on(THEN)}").text
        assert HELD in story
        assert MORE not in story
        assert HELD in client.get(f"/page/metrics/total/{week_of(numbers)}").text
        assert HELD not in client.get(f"/page/metrics/total/{on(THEN + 1)}").text
        numbers.drop(THEN, 2)
        assert not is_behind(client, on(THEN)), "somebody has said that the number stands"
        assert HELD not in client.get(f"/page/metrics/total/{on(THEN)}").text


@pytest.mark.merge
def test_the_overview_shows_that_a_number_is_held(tmp_path: Path) -> None:
    numbers = two_followed_days(tmp_path, checks={"change": [{"measure": "total", "absolute": 5}]})
    correct_in_silver(numbers.lake, "b", 100)
    numbers.set(THEN + 1, 100)
    restate(numbers)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        assert HELD in client.get("/").text


@pytest.mark.merge
def test_a_number_that_lags_is_as_complete_as_when_it_was_published(tmp_path: Path) -> None:
    numbers = two_followed_days(tmp_path)
    write_source_rows(numbers.lake, contract(), half_at_once())
    numbers.at(THEN + 5)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        assert share(client) == 1
        append_to_silver(numbers.lake, ("c", 2, 1))
        assert share(client) == 1, "rows of another day"
        append_to_silver(numbers.lake, ("d", 1, 1))
        assert share(client) == 0.5, "what has come since is not in it"


def half_at_once() -> list[SourceRow]:
    """Half of each day has come by its end, the rest within the next two days."""
    hours = [(number, hour) for number in range(THEN - 25, THEN + 1) for hour in (1, 2, 40, 50)]
    return [(f"{number}:{hour}", at(number), at(number, hour), "insert", "admitted") for number, hour in hours]


def share(client: TestClient) -> Any:
    return get_json(client, "/metrics/total", window=on(THEN))["completeness"]["share"]


@pytest.mark.merge
def test_a_held_number_is_as_complete_as_when_it_was_published(tmp_path: Path) -> None:
    numbers = held(tmp_path)
    write_source_rows(numbers.lake, contract(), half_at_once())
    numbers.at(THEN + 5)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        assert share(client) == 0.5
        numbers.drop(THEN, 2)
        assert share(client) == 1


@pytest.mark.merge
def test_old_arrivals_are_let_go_with_what_was_estimated_from_them(tmp_path: Path) -> None:
    numbers = two_followed_days(tmp_path)
    source = contract()
    write_source_rows(numbers.lake, source, [("a", at(1), at(2), "insert", "admitted")])
    came = published_cache._read_arrivals(numbers.lake, source, None)
    arrivals = weakref.ref(came.arrivals)
    came.estimate(date(2024, 1, 1), 1, at(3), published_cache.ZoneInfo("UTC"), 7)
    assert came.estimate.cache_info().currsize == 1
    assert published_cache._read_arrivals(numbers.lake, source, came) is came
    came.version = "earlier"  # as where the key log has moved on since
    came = published_cache._read_arrivals(numbers.lake, source, came)
    gc.collect()
    assert arrivals() is None


def test_waiting_is_kept_while_no_table_changes(tmp_path: Path) -> None:
    numbers = two_followed_days(tmp_path)
    known = catalog(numbers.metric)
    first = pending_changes.read(numbers.lake, known, "events", None)
    assert pending_changes.read(numbers.lake, known, "events", first) is first
    append_to_silver(numbers.lake, ("c", 1, 1))
    second = pending_changes.read(numbers.lake, known, "events", first)
    assert second.periods["total"].starts == {date(2024, 2, 1)}
    assert second.periods["total_weekly"] is first.periods["total_weekly"], "nothing was published"
