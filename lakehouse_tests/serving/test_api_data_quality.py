"""``/data-quality``, ``/lineage`` and completeness, on a lake whose rows came late in a known way."""

from __future__ import annotations

import gc
import shutil
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from lakehouse import locations
from lakehouse.gold.numbers.lifecycle import RevisionReason
from lakehouse.lateness import measurement
from lakehouse.lateness.completeness import Estimate, Unknown, estimate
from lakehouse.lateness.measurement import LatenessMeasurement, newest_arrival
from lakehouse_tests.support.api_client import (
    SourceRow,
    api_client,
    at,
    catalog,
    get_json,
    numbers_with_weeks,
    on,
    write_source_rows,
)
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import day, metric, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LATENESS = {"expected": "P1D", "watermark": "P2D", "beyond": "quarantine", "tuning": {"rows": 100}}


@pytest.fixture(autouse=True, scope="module")
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def hundred(number: int, kind: str = "insert") -> list[SourceRow]:
    """A hundred rows of a day at noon: the n-th comes n hours later; those of more than two days wait."""
    event = at(number, 12)
    rows = []
    for hours in range(1, 101):
        standing = "quarantined" if hours > 48 else "admitted"
        rows.append((f"{kind}{number}:{hours}", event, event + timedelta(hours=hours), kind, standing))
    return rows


def test_how_late_rows_came(tmp_path: Path) -> None:
    lake, source = lake_in(tmp_path), contract(lateness=LATENESS)
    write_source_rows(
        lake, source, [*hundred(1), *hundred(1, "correct")[:50]], {"insert1:1": "duplicate", "insert1:90": "dropped"}
    )
    with api_client(lake, catalog(metric(), source=source)) as client:
        (measured,) = get_json(client, "/data-quality/lateness", start_date=on(1), end_date=on(9))["sources"]
        assert (measured["source"], measured["rows"], measured["expected_seconds"]) == ("events", 150, 86_400)
        assert (measured["on_time_share"], measured["late_share"]) == (0.32, 0.68)
        assert measured["dispositions"] == {"applied": 95, "duplicate": 1, "quarantined": 53, "dropped": 1}
        assert (measured["accepted"], measured["quarantined"], measured["dropped"]) == (96, 53, 1)
        assert (measured["late_accepted"], measured["late_quarantined"], measured["late_dropped"]) == (48, 53, 1)
        inserts, corrections = measured["event_types"]
        assert (inserts["event_type"], inserts["on_time_share"], corrections["event_type"]) == ("insert", 0.24, "correct")
        hours = {name: seconds / 3600 for name, seconds in inserts["seconds"].items()}
        assert hours == {"p50": 50, "p90": 90, "p95": 95, "p99": 99, "p99_9": 100, "max": 100}
        advice = inserts["recommendation"]
        assert (advice["verdict"], advice["current_seconds"], advice["proposed_seconds"]) == ("raise", 48 * 3600, 99 * 3600)
        caught = {one["cutoff_seconds"] // 3600: one["share"] for one in advice["evidence"]}
        assert (caught[1], caught[24], caught[48], caught[99], caught[720]) == (0.01, 0.24, 0.48, 0.99, 1)
        assert corrections["recommendation"]["verdict"] == "too_few"
        narrow = get_json(client, "/data-quality/lateness", start_date=on(1), end_date=on(2), source="events")["sources"][0]
        assert narrow["rows"] == 35 + 35, "by arrival day"
        nothing = get_json(client, "/data-quality/lateness", start_date="2030-01-01", end_date="2030-01-02")["sources"][0]
        assert (nothing["rows"], nothing["late_share"], nothing["event_types"]) == (0, None, [])
        long = get_json(client, "/data-quality/lateness", 400, start_date="2024-01-01", end_date="2024-12-31")
        assert long["type"] == "urn:lakehouse:too-much"
        unknown = get_json(client, "/data-quality/lateness", 404, start_date=on(1), end_date=on(2), source="other")
        assert unknown["type"] == "urn:lakehouse:unknown-source"


def test_one_watermark_is_in_force_in_an_answer(tmp_path: Path) -> None:
    """The change applies from the day after the requested ones on: that is the one to judge the rows by."""
    lake, changes = lake_in(tmp_path), [{"since": on(6), "watermark": "P7D"}]
    source = contract(lateness=LATENESS | {"changes": changes})
    write_source_rows(lake, source, hundred(1))
    with api_client(lake, catalog(metric(), source=source)) as client:

        def current(end: int) -> set[int]:
            (found,) = get_json(client, "/data-quality/lateness", start_date=on(1), end_date=on(end))["sources"]
            return {one["recommendation"]["current_seconds"] for one in (found, *found["event_types"])}

        assert current(4) == {2 * 86_400}
        assert current(5) == {7 * 86_400}


@pytest.mark.merge
def test_rows_of_all_types_together_and_none_of_them_kept(tmp_path: Path) -> None:
    lake, source = lake_in(tmp_path), contract(lateness=LATENESS)
    write_source_rows(lake, source, [*hundred(1), *hundred(1, "correct")[:50]])
    with api_client(lake, catalog(metric(), source=source)) as client:
        asks = {"start_date": on(1), "end_date": on(9)}
        (measured,) = sources = get_json(client, "/data-quality/lateness", **asks)["sources"]
        hours = {name: seconds / 3600 for name, seconds in measured["seconds"].items()}
        assert hours == {"p50": 38, "p90": 85, "p95": 93, "p99": 99, "p99_9": 100, "max": 100}
        assert not [one for one in gc.get_objects() if isinstance(one, LatenessMeasurement)], (
            "what is remembered is the answer alone"
        )
        shutil.rmtree(locations.bronze(lake, "events").address)
        assert get_json(client, "/data-quality/lateness", **asks)["sources"] == sources
        nothing = get_json(client, "/data-quality/lateness", start_date="2030-01-01", end_date="2030-01-02")["sources"][0]
        assert nothing["seconds"] is None


def test_the_newest_arrival_is_read_from_the_log(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    assert newest_arrival(lake, "events") is None
    write_source_rows(lake, contract(), hundred(1))
    for file in (tmp_path / "lake" / "ops" / "events_dispositions").rglob("*.parquet"):
        file.unlink()
    assert newest_arrival(lake, "events") == day(5)


@pytest.mark.merge
def test_how_much_of_a_day_has_come(tmp_path: Path) -> None:
    """Half of each day comes at once, a quarter on the next day, a quarter on the day after."""
    numbers = numbers_with_weeks(lake_in(tmp_path))
    rows: list[SourceRow] = []
    for number in range(1, 31):
        noon = at(number, 12)
        for key, days in enumerate((0, 0, 1, 2)):
            arrival = noon + timedelta(days=days, hours=1)
            if arrival < at(31):
                rows.append((f"{number}:{key}", noon, arrival, "insert", "admitted"))
    write_source_rows(numbers.lake, contract(), rows)
    numbers.at(31)
    for number in (20, 29, 30):
        numbers.set(number, 1)
    numbers.publish()
    with api_client(numbers.lake, catalog(numbers.metric)) as client:

        def complete(number: int) -> Any:
            return get_json(client, "/metrics/total", window=on(number))["completeness"]

        assert (complete(30)["share"], complete(30)["low"], complete(30)["high"]) == (0.5, 0.5, 0.5)
        assert complete(29)["share"] == 0.75
        assert complete(20)["share"] == 1
        assert complete(30)["coverage"] <= 0.95
        assert complete(30)["horizon_hours"] - complete(30)["age_hours"] == 7 * 24
        assert complete(30)["earlier_periods"] >= 19
        week = get_json(client, "/metrics/total", 404, window="2024-W01")
        assert week["type"] == "urn:lakehouse:not-published"
        arrived = get_json(client, "/metrics/total", window=on(30))["staleness"]["newest_arrival"]
        assert arrived == "2024-01-30T13:00:00Z"


@pytest.mark.merge
def test_days_that_are_no_longer_remembered_are_no_part_of_a_period(tmp_path: Path) -> None:
    """Half of each day comes at once, half ten days later; for longer than is kept in mind."""
    lake, source = lake_in(tmp_path), contract()
    rows: list[SourceRow] = []
    for number in range(1, 501):
        for key, later in enumerate((1, 240)):
            if (arrival := at(number, 12 + later)) < at(501):
                rows.append((f"{number}:{key}", at(number, 12), arrival, "insert", "admitted"))
    write_source_rows(lake, source, rows)
    came = measurement.read_curve(lake, source)
    assert came is not None
    assert came.first == day(501 - 401), "the oldest day of which all rows are known, and not the first arrival"
    assert min(came.days) == came.first
    found = estimate([day(number) for number in range(471, 501)], at(501), came, ZoneInfo("UTC"), 1)
    assert isinstance(found, Estimate)
    assert found.periods == 12
    assert found.high - found.low < 0.001, "whole periods are alike"
    assert estimate([day(50)], at(501), came, ZoneInfo("UTC"), 1) == Unknown(
        f"arrivals are known only for event days from {came.first} on"
    )


@pytest.mark.merge
def test_numbers_that_changed_after_publication(tmp_path: Path) -> None:
    numbers = numbers_with_weeks(lake_in(tmp_path))
    numbers.at(1)
    numbers.set(1, 10)
    numbers.publish(1)
    numbers.at(2)
    numbers.set(1, 11)
    numbers.set(2, 5)
    numbers.publish(reason=RevisionReason.BACKFILL)
    numbers.at(9)
    numbers.set(1, 14)
    numbers.publish(reason=RevisionReason.BUG_REPLAY)
    numbers.at(10)
    numbers.publish()
    with api_client(numbers.lake, catalog(numbers.metric)) as client:

        def restated(start: int, end: int, **more: Any) -> Any:
            return get_json(client, "/data-quality/restatements", start_date=on(start), end_date=on(end), **more)

        answer = restated(1, 31)
        assert [
            (restatement["window"], restatement["version"], restatement["state"], restatement["reason"])
            for restatement in answer["restatements"]
        ] == [
            (on(1), "r3", "final", "bug_replay"),
            (on(1), "r2", "preliminary", "backfill"),
        ], "newest first; a change of state is none"
        assert (answer["total"], answer["by_reason"], answer["by_state"]) == (
            2,
            {"bug_replay": 1, "backfill": 1},
            {"final": 1, "preliminary": 1},
        )
        assert answer["restatements"][0]["moved"]["total"] == {"before": 11, "after": 14, "difference": 3, "percent": 27.27}
        assert [restatement["version"] for restatement in restated(2, 2)["restatements"]] == ["r2"]
        assert restated(3, 8)["total"] == 0
        page = restated(1, 31, limit=1)
        assert ([restatement["version"] for restatement in page["restatements"]], page["next_offset"]) == (["r3"], 1)
        assert [restatement["version"] for restatement in restated(1, 31, limit=1, offset=1)["restatements"]] == ["r2"]
        wrong = get_json(client, "/data-quality/restatements", 404, start_date=on(1), end_date=on(2), metric="other")
        assert wrong["type"] == "urn:lakehouse:unknown-metric"


@pytest.mark.merge
def test_longer_periods_change_too(tmp_path: Path) -> None:
    numbers = numbers_with_weeks(lake_in(tmp_path))
    for now, number, value in ((1, 1, 5), (2, 2, 5), (3, 1, 6)):
        numbers.at(now)
        numbers.set(number, value)
        numbers.publish(number)
        numbers.roll_up()
    with api_client(numbers.lake, catalog(numbers.metric)) as client:

        def restated(**more: Any) -> Any:
            found = get_json(client, "/data-quality/restatements", start_date=on(1), end_date=on(9), **more)
            return [(one["series"], one["window"], one["moved"]["total"]["after"]) for one in found["restatements"]]

        of_week, of_day = ("total_weekly", "2024-W01", 11), ("total", on(1), 6)
        assert restated(by="week") == [of_week], "a day that is added to a running week restates nothing"
        assert restated(by="day") == [of_day]
        assert sorted(restated()) == sorted(restated(metric="total")) == sorted([of_week, of_day])
        assert get_json(client, "/data-quality/restatements", start_date=on(1), end_date=on(9), by="month")["total"] == 0
        assert "2024-W01" in client.get(f"/page/restated?through={on(3)}").text
        story = client.get("/page/metrics/total/2024-W01").text
        assert "The same number" not in story, "growth moves the number, although it restates nothing"
        steps = story[story.index("<ol class") : story.index("</ol>")]
        assert steps.count(">restated<") == 1
        assert "A day was added" in steps


def test_where_a_number_comes_from(tmp_path: Path) -> None:
    numbers = numbers_with_weeks(lake_in(tmp_path))
    numbers.at(1)
    numbers.set(1, 10)
    numbers.publish(1)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        lineage = get_json(client, f"/lineage/total/{on(1)}")
        assert (lineage["version"], lineage["source"], lineage["run_id"]) == ("r1", "events", "run")
        assert lineage["publication"]["validation"] == {"checks": 4, "failed": 0, "held": 0}
        assert lineage["publication"]["downstream"] == ["gold/total_weekly"]
        shutil.rmtree(locations.publications(numbers.lake).address)
        assert get_json(client, f"/lineage/total/{on(1)}", version="r1") == lineage | {"publication": None}
        assert get_json(client, f"/lineage/total/{on(1)}", 404, version="r2")["type"] == "urn:lakehouse:unknown-version"
        assert get_json(client, f"/lineage/total/{on(2)}", 404)["type"] == "urn:lakehouse:not-published"


def test_recommendations_name_the_bound_and_how_much_it_matters(tmp_path: Path) -> None:
    tiers = [{"within": "PT1H", "serves": "live", "tolerated": 0.99}, {"within": "P1D", "serves": "close", "tolerated": 0.1}]
    clocks = {"event": "happened", "arrival": "came", "watermark": {"strategy": "bounded", "max_lateness": "PT90H"}}
    source = contract(
        lateness={**LATENESS, "tiers": tiers, "by": {"column": "change_op", "values": {"correct": {"watermark": "P30D"}}}},
        clocks=clocks,
    )
    lake = lake_in(tmp_path)
    write_source_rows(lake, source, [*hundred(1), *hundred(1, "correct")[:50]])
    with api_client(lake, catalog(metric(), source=source)) as client:
        (of_all,) = get_json(client, "/data-quality/lateness", start_date=on(1), end_date=on(9))["sources"]
        told = [(line["severity"], line["about"], line["event_type"], line["tier"]) for line in of_all["recommendations"]]
        assert told == [
            ("error", "lateness.cutoff", None, None),
            ("warn", "lateness.tiers", None, "close"),
            ("info", "lateness.cutoff", "correct", None),
            ("info", "clocks.watermark.max_lateness", None, None),
        ]
        raised, tier, too_few, few_again = of_all["recommendations"]
        assert (raised["current_seconds"], raised["proposed_seconds"]) == (48 * 3600, 99 * 3600)
        assert "'lakehouse lateness apply events' applies it" in raised["text"]
        assert tier["text"].startswith("of the rows 68.00% (102) came later than 1 d, the tier that serves 'close'")
        assert "50 rows are too few" in too_few["text"]
        assert (few_again["current_seconds"], few_again["proposed_seconds"]) == (90 * 3600, None)
        (of_none,) = get_json(client, "/data-quality/lateness", start_date="2030-01-01", end_date="2030-01-02")["sources"]
        assert {line["severity"] for line in of_none["recommendations"]} == {"info"}
        assert (of_none["late_accepted"], of_none["late_quarantined"], of_none["late_dropped"]) == (0, 0, 0)
