"""``/metrics`` on real tables: each version of a number, its history, many in a row, and what polling costs."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.calendar.periods import Kind
from lakehouse.contracts import load_catalog
from lakehouse.examples import late_tier
from lakehouse.gold.numbers.lifecycle import RevisionReason
from lakehouse.serving import responses, snapshot
from lakehouse.serving.app import AccessPolicy
from lakehouse.serving.models import MetricsModel
from lakehouse_tests.support.api_client import api_client, at, catalog, get_json, numbers_with_weeks, on, publish_two_days
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.numbers_without_spark import without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.testclient import TestClient


@pytest.fixture(autouse=True, scope="module")
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


@pytest.fixture(scope="module", name="client")
def _client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Two days: the first is published as 1, 5, and 5 as final; the second as 7."""
    numbers = publish_two_days(numbers_with_weeks(lake_in(tmp_path_factory.mktemp("lake"))))
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        yield client


def number(client: TestClient, window: str, **parameters: Any) -> Any:
    return get_json(client, "/metrics/total", window=window, **parameters)


@pytest.mark.merge
def test_a_number_says_what_it_is(client: TestClient) -> None:
    answer = number(client, on(1))
    assert answer["result"] == [{"total": 5, "row_count": 1}]
    assert (answer["state"], answer["label"], answer["is_final"], answer["is_latest"]) == ("final", "Final", True, True)
    assert (answer["revision"], answer["version"], answer["version_name"]) == (3, "r3", f"total_v{on(1)}.r3")
    assert (answer["metric"], answer["series"], answer["window"]) == ("total", "total", on(1))
    assert (answer["first_day"], answer["last_day"]) == (on(1), on(1))
    assert (answer["event_count"], answer["computed_at"], answer["reason"]) == (1, "2024-01-08T00:00:00Z", "daily_finalization")
    assert answer["restated_on"] == "2024-01-01T18:00:00Z"
    assert answer["staleness"] == {"seconds": 12 * 3600, "behind": False, "newest_arrival": None}
    assert answer["completeness"] == {"known": False, "because": "no arrivals of this source are recorded"}
    assert (answer["history"], answer["note"], answer["adjustments"]) == (None, None, [])


@pytest.mark.parametrize(
    ("version", "revision", "label"),
    [
        ("latest", 3, "Final"),
        ("final", 3, "Final"),
        ("first", 1, "Live (updating)"),
        ("r2", 2, "Live (updating)"),
        ("2", 2, "Live (updating)"),
        ("2024-01-01T06:00:00Z", 1, "Live (updating)"),
        ("2024-01-01T19:00:00+01:00", 2, "Live (updating)"),
        ("2024-01-01T18:00:00.000000+00:00", 2, "Live (updating)"),
        ("2024-01-01T18:00:00.000Z", 2, "Live (updating)"),
        ("2024-01-01T17:59:59.9Z", 1, "Live (updating)"),
        ("2024-01-01", 2, "Live (updating)"),
        ("v1", 3, "Final"),
        (f"total_v{on(1)}.r1", 1, "Live (updating)"),
    ],
)
def test_every_way_to_name_a_version(client: TestClient, version: str, revision: int, label: str) -> None:
    shown = number(client, on(1), version=version)
    assert (shown["revision"], shown["label"]) == (revision, label)


def test_a_plus_sign_may_be_written_as_it_is(client: TestClient) -> None:
    shown = client.get(f"/metrics/total?window={on(1)}&version=2024-01-01T19:00:00+01:00").json()
    assert shown["revision"] == 2


def test_final_before_the_close_is_the_newest_number_and_says_so(client: TestClient) -> None:
    shown = number(client, on(2), version="final")
    assert (shown["state"], shown["label"], shown["is_final"]) == ("preliminary", "Preliminary", False)
    assert shown["note"] == "not final: this is the newest number, and it is preliminary; the next state is due on 2024-01-09"


def test_a_week(client: TestClient) -> None:
    shown = number(client, "2024-W01", include_history="true")
    assert (shown["series"], shown["result"]) == ("total_weekly", [{"total": 12, "row_count": 2}])
    assert (shown["first_day"], shown["last_day"], len(shown["history"])) == (on(1), on(7), 1)
    assert get_json(client, "/lineage/total/2024-W01")["made_from"] == {on(1): "r3", on(2): "r1"}


def test_history_shows_what_changed(client: TestClient) -> None:
    answer = get_json(client, "/metrics/total/history", window=on(1))
    assert answer["versions"] == number(client, on(1), include_history="true")["history"]
    assert [(version["version"], version["reason"], version["moved"]["total"]) for version in answer["versions"]] == [
        ("r1", "initial", {"before": None, "after": 1, "difference": None, "percent": None}),
        ("r2", "manual", {"before": 1, "after": 5, "difference": 4, "percent": 400.0}),
        ("r3", "daily_finalization", {"before": 5, "after": 5, "difference": 0, "percent": 0.0}),
    ]
    first = get_json(client, "/metrics/total/history", window=on(1), limit=2)
    assert ([version["version"] for version in first["versions"]], first["total"], first["next_offset"]) == (["r1", "r2"], 3, 2)
    rest = get_json(client, "/metrics/total/history", window=on(1), limit=2, offset=2)
    assert ([version["version"] for version in rest["versions"]], rest["next_offset"]) == (["r3"], None)


def test_a_series(client: TestClient) -> None:
    def points(**parameters: Any) -> list[tuple[str, Any]]:
        shown = get_json(client, "/metrics/total/series", start=on(1), end=on(9), **parameters)
        return [(one["window"], one["result"][0]["total"]) for one in shown["points"]]

    assert points() == [(on(1), 5), (on(2), 7)]
    assert points(version="first") == [(on(1), 1), (on(2), 7)]
    assert points(version=on(1)) == [(on(1), 5)], "periods without such a version are left out"
    assert points(by="week") == [("2024-W01", 12)]
    assert points(limit=1) == [(on(1), 5)]
    assert get_json(client, "/metrics/total/series", start=on(1), end=on(9), limit=1)["next_start"] == on(2)
    assert get_json(client, "/metrics/total/series", start=on(2), end=on(9), limit=1)["next_start"] is None
    assert get_json(client, "/metrics/total/series", start="0001-01-01", end="9999-12-31")["points"]
    assert points(version=f"total_v{on(1)}.r2") == [(on(1), 5)], "a name is of one period"
    assert points(version="total_weekly_v2024-W01.r1", by="week") == [("2024-W01", 12)]
    other = get_json(client, "/metrics/total/series", 404, start=on(1), end=on(9), version="other_v2030-01-01.r2")
    assert other["type"] == "urn:lakehouse:unknown-version"
    assert get_json(client, "/metrics/total/series", 400, start=on(2), end=on(1))["type"] == "urn:lakehouse:makes-no-sense"


def test_two_versions_side_by_side(client: TestClient) -> None:
    compared = get_json(client, "/metrics/total/compare", window=on(1), version_a="r1", version_b="latest")
    change = {"before": 1, "after": 5, "difference": 4, "percent": 400.0}
    assert compared["changes"] == [{"grain": {}, "measure": "total", **change}]
    assert compared["totals"] == {"total": change}
    assert (compared["version_a"]["version"], compared["version_b"]["version"], compared["reason"]) == ("r1", "r3", "manual")
    assert get_json(client, "/metrics/total/compare", window=on(1)) != compared, "what was asked for is part of the answer"
    same = get_json(client, "/metrics/total/compare", window=on(1), version_a="r2", version_b="r3")["changes"]
    assert [(one["difference"], one["percent"]) for one in same] == [(0, 0.0)]
    itself = get_json(client, "/metrics/total/compare", window=on(1), version_a="r2", version_b="total_v2024-01-01.r2")
    assert (itself["reason"], itself["changed_rows"]) == (None, None)


def test_the_catalogue(client: TestClient) -> None:
    (shown,) = get_json(client, "/metrics")["metrics"]
    assert shown["windows"] == ["day", "week"]
    assert (shown["published"], shown["first_day"], shown["last_day"]) == (2, on(1), on(2))
    assert shown["last_restated_at"] == "2024-01-01T18:00:00Z"
    assert shown["measures"] == [{"name": "total", "type": "bigint", "additive": True, "description": None}]
    assert shown["terms"]["final_after"] == 7


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/metrics/other?window=2024-01-01", 404, "unknown-metric"),
        ("/metrics/total?window=2023-12-31", 404, "not-published"),
        ("/metrics/total?window=2024-02-30", 404, "unknown-window"),
        ("/metrics/total?window=9999-12-31", 404, "unknown-window"),
        ("/metrics/total?window=2024-W60", 404, "unknown-window"),
        ("/metrics/total?window=2024-Q1", 404, "not-published"),
        ("/metrics/total?window=2024-01-01&version=r9", 404, "unknown-version"),
        ("/metrics/total?window=2024-01-01&version=2023-01-01", 404, "unknown-version"),
        ("/metrics/total?window=2024-01-01&version=2023-02-30", 404, "unknown-version"),
        ("/metrics/total?window=2024-01-01&version=total_v2024-01-02.r1", 404, "unknown-version"),
        ("/metrics/total?window=yesterday", 422, "not-as-documented"),
        ("/metrics/total", 422, "not-as-documented"),
        ("/metrics/total?window=2024-01-01&versoin=r1", 422, "not-as-documented"),
        ("/metrics/total?window=2024-01-01&include_history=1", 422, "not-as-documented"),
        ("/metrics/Total?window=2024-01-01", 422, "not-as-documented"),
        ("/metrics/total/series?start=0&end=2024-01-01", 422, "not-as-documented"),
        ("/metrics/total/series?start=2024-01-01&end=2024-01-02&limit=1001", 422, "not-as-documented"),
        ("/metrics/total/at-this-time?at=5", 422, "not-as-documented"),
        ("/metrics/total/at-this-time?at=0001-01-01T00:00:00Z", 400, "makes-no-sense"),
        ("/metrics/total%2F..?window=2024-01-01", 404, "no-such-path"),
        ("/nothing", 404, "no-such-path"),
    ],
)
def test_unknown_numbers_are_refused(client: TestClient, path: str, status: int, kind: str) -> None:
    assert get_json(client, path, status)["type"] == f"urn:lakehouse:{kind}"


def test_a_mistake_is_named_and_not_repeated(client: TestClient) -> None:
    told = get_json(client, "/metrics/total", 422, window="<script>", versoin="r1")
    assert [one["where"] for one in told["errors"]] == ["query.window", "query.versoin"]
    assert "script" not in str(told)


@pytest.mark.merge
def test_polling_an_unchanged_number_costs_nothing(tmp_path: Any) -> None:
    numbers = publish_two_days(numbers_with_weeks(lake_in(tmp_path)))
    with api_client(numbers.lake, catalog(numbers.metric)) as client:

        def poll(window: str, tag: str) -> Any:
            return client.get("/metrics/total", params={"window": window}, headers={"If-None-Match": tag})

        first = poll(on(2), "")
        tag = first.headers["etag"]
        assert tag.startswith(f'W/"total_v{on(2)}.r1-')
        numbers.at(8, 13)
        again = poll(on(2), f'"other", {tag}')
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag), "getting older is no change"
        assert poll(on(2), "*").status_code == 304
        assert poll(on(1), tag).status_code == 200
        numbers.set(2, 8)
        numbers.publish(2)
        changed = poll(on(2), tag)
        assert (changed.status_code, changed.json()["result"][0]["total"]) == (200, 8)
        old = client.get("/metrics/total", params={"window": on(2), "version": "r1"})
        assert (old.json()["is_latest"], old.json()["superseded_at"]) == (False, "2024-01-08T13:00:00Z")
        assert old.headers["etag"] != tag, "that it is no longer the newest is news"


@pytest.mark.merge
def test_yesterday_at_this_time(tmp_path: Any) -> None:
    numbers = numbers_with_weeks(lake_in(tmp_path))
    for hour, value in ((6, 10), (12, 20), (22, 30)):
        numbers.at(1, hour)
        numbers.set(1, value)
        numbers.publish(1)
    numbers.at(2, 11)
    numbers.set(2, 15)
    numbers.publish(2)
    numbers.at(2, 13)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        answer = get_json(client, "/metrics/total/at-this-time")
        then, now, today = (answer[name] for name in ("yesterday_at_this_time", "yesterday", "today"))
        assert [one["number"]["result"][0]["total"] for one in (then, now, today)] == [20, 30, 15]
        assert then["at"] == "2024-01-01T13:00:00Z"
        assert now["note"].startswith("not final: ")
        assert answer["yesterday_moved"]["total"] == {"before": 20, "after": 30, "difference": 10, "percent": 50.0}
        assert answer["today_against_yesterday"]["total"]["percent"] == -25.0
        week = get_json(client, "/metrics/total/at-this-time", at="2024-01-08T13:00:00Z")
        assert week["same_weekday_at_this_time"]["number"]["result"][0]["total"] == 20
        assert week["today_against_same_weekday"]["total"]["before"] == 20
        early = get_json(client, "/metrics/total/at-this-time", at="2024-01-02T07:00:00Z")
        assert early["yesterday_at_this_time"]["number"]["result"][0]["total"] == 10
        assert early["yesterday"]["number"]["version"] == "r3"
        assert early["yesterday"]["note"].startswith("not final: "), "it is live"
        assert (early["today"]["number"], early["today"]["note"]) == (None, "nothing had been published")
        assert early["today_against_yesterday"]["total"] == {"before": 10, "after": None, "difference": None, "percent": None}


def test_growth_of_a_running_day_is_no_restatement(tmp_path: Any) -> None:
    numbers = numbers_with_weeks(lake_in(tmp_path))
    numbers.at(1, 9)
    numbers.set(1, 10)
    numbers.publish(1)
    for hour, total, reason in ((10, 20, RevisionReason.NEW_DATA), (11, 30, RevisionReason.NEW_DATA)):
        numbers.at(1, hour)
        numbers.set(1, total)
        numbers.publish(1, reason=reason)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        restated = get_json(client, "/data-quality/restatements", start_date=on(1), end_date=on(9))
        assert (restated["total"], restated["by_reason"]) == (0, {})
        grown = number(client, on(1))
        assert (grown["version"], grown["reason"], grown["restated_on"]) == ("r3", "new_data", None)
        numbers.at(2, 10)
        numbers.set(1, 35)
        numbers.publish(1, reason=RevisionReason.LATE_DATA)
        restated = get_json(client, "/data-quality/restatements", start_date=on(1), end_date=on(9))
        assert (restated["total"], restated["by_reason"]) == (1, {"late_data": 1})


@pytest.mark.merge
def test_adjustments_of_a_closed_number(tmp_path: Any) -> None:
    numbers = numbers_with_weeks(lake_in(tmp_path), publication={"after_close": "adjust"})
    numbers.at(1)
    numbers.set(1, 10)
    numbers.publish(1)
    numbers.at(9)
    numbers.publish(1)
    numbers.set(1, 13)
    numbers.publish(1)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        shown = number(client, on(1))
        assert (shown["result"][0]["total"], shown["adjustments"], shown["is_final"]) == (10, ["r2.a1"], True)
        numbers.at(9, 5)
        numbers.set(1, 14)
        numbers.publish(1)
        assert number(client, on(1))["adjustments"] == ["r2.a1", "r2.a2"]
        assert number(client, on(1), version="2024-01-09T04:00:00Z")["adjustments"] == ["r2.a1"], "not what came later"
        booked = number(client, on(1), version="r2.a1")
        assert (booked["result"][0]["total"], booked["booked_on"], booked["adjustment"]) == (3, on(9), 1)
        with_adjustments = {"before": 10, "after": 14, "difference": 4, "percent": 40.0}
        compared = get_json(client, "/metrics/total/compare", window=on(1), version_a="latest", version_b="r2.a2")
        assert (compared["totals"]["total"], compared["changes"][0]["after"]) == (with_adjustments, 14), (
            "an adjustment comes on top"
        )
        closed = get_json(client, "/metrics/total/compare", window=on(1))
        assert (closed["totals"]["total"], closed["version_a"]["version"], closed["version_b"]["asked"]) == (
            with_adjustments,
            "r1",
            "final",
        )
        assert closed["version_b"]["note"] == "r2 with its adjustments", "first against final, and what was booked for it"
        back = get_json(client, "/metrics/total/compare", window=on(1), version_a="r2.a1", version_b="r2")["totals"]["total"]
        assert (back["before"], back["after"]) == (13, 10)
        moved = get_json(client, "/metrics/total/history", window=on(1))["versions"][-2]["moved"]["total"]
        assert (moved["before"], moved["after"]) == (10, 13)
        restated = get_json(client, "/data-quality/restatements", start_date=on(1), end_date=on(9))
        assert [(one["version"], one["booked_on"]) for one in restated["restatements"]] == [("r2.a2", on(9)), ("r2.a1", on(9))]


@pytest.mark.merge
def test_grain_decimals_and_nothing(tmp_path: Any) -> None:
    numbers = numbers_with_weeks(lake_in(tmp_path), grain=["store"], type="decimal(18,2)", publication={})
    numbers.at(1)
    numbers.set(1, {"north": "0.00", "south": "12.50"})
    numbers.set(2, {"north": "1.00"})
    numbers.publish()
    numbers.at(2)
    numbers.set(1, {"north": "3.10", "south": "12.50"})
    numbers.set(2, None)
    numbers.publish()
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        assert number(client, on(1))["result"] == [
            {"store": "north", "total": "3.10", "row_count": 1},
            {"store": "south", "total": "12.50", "row_count": 1},
        ]
        compared = get_json(client, "/metrics/total/compare", window=on(1))
        assert [(one["grain"], one["difference"], one["percent"]) for one in compared["changes"]] == [
            ({"store": "north"}, "3.10", None),
            ({"store": "south"}, "0.00", 0.0),
        ], "from 0 there is no percentage"
        page = get_json(client, "/metrics/total/compare", window=on(1), limit=1, offset=1)
        assert (page["changes"], page["total"], page["next_offset"]) == (compared["changes"][1:], 2, None)
        assert get_json(client, "/metrics/total/compare", window=on(1), limit=1)["next_offset"] == 1
        assert compared["totals"]["total"] == {"before": "12.50", "after": "15.60", "difference": "3.10", "percent": 24.8}
        emptied = number(client, on(2))
        assert (emptied["result"], emptied["event_count"]) == ([{"store": None, "total": None, "row_count": 0}], 0)


@pytest.mark.merge
def test_an_answer_carries_so_many_rows_of_the_grain(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MOST_ROWS", 2)
    numbers = numbers_with_weeks(lake_in(tmp_path), grain=["store"], publication={"after_close": "adjust"})
    for hour, value in ((1, 1), (2, 2)):
        numbers.at(4, hour)
        numbers.set(1, dict.fromkeys("abc", value))
        numbers.set(2, {"a": value})
        numbers.set(3, {"a": value})
        numbers.publish()
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        first = number(client, on(1))
        assert ([row["store"] for row in first["result"]], first["total_rows"], first["next_row_offset"]) == (["a", "b"], 3, 2)
        rest = number(client, on(1), row_offset=2)
        assert ([row["store"] for row in rest["result"]], rest["next_row_offset"], rest["event_count"]) == (["c"], None, 3)
        assert (number(client, on(1), row_offset=9)["result"], number(client, on(2))["next_row_offset"]) == ([], None)

        points, start, pages = [], on(1), 0
        while start:
            page = get_json(client, "/metrics/total/series", start=start, end=on(9))
            points, start, pages = [*points, *page["points"]], page["next_start"], pages + 1
            assert sum(len(point["result"]) for point in page["points"]) <= 2
        assert [(point["window"], len(point["result"]), point["total_rows"]) for point in points] == [
            (on(1), 2, 3),
            (on(2), 1, 1),
            (on(3), 1, 1),
        ]
        assert pages == 2

        page = get_json(client, "/metrics/total/history", window=on(1))
        assert ([version["version"] for version in page["versions"]], page["next_offset"], page["total"]) == (["r1"], 1, 2)
        (second,) = get_json(client, "/metrics/total/history", window=on(1), offset=1)["versions"]
        assert second["moved"]["total"] == {"before": 3, "after": 6, "difference": 3, "percent": 100.0}, "over all rows"
        assert [version["version"] for version in number(client, on(1), include_history="true")["history"]] == ["r2"]
        assert len(number(client, on(2), include_history="true")["history"]) == 2


@pytest.mark.merge
def test_pages_of_a_history_show_the_same_changes_as_the_whole(tmp_path: Any) -> None:
    numbers = numbers_with_weeks(lake_in(tmp_path), publication={"after_close": "adjust"})
    for number_, value in ((1, 10), (2, 11), (9, 11), (10, 13), (11, 16), (12, 12)):
        numbers.at(number_)
        numbers.set(1, value)
        numbers.publish(1)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        whole = get_json(client, "/metrics/total/history", window=on(1))["versions"]
        assert [version["moved"]["total"]["after"] for version in whole] == [10, 11, 11, 13, 16, 12]
        for limit in (1, 2, 4):
            pages = [
                get_json(client, "/metrics/total/history", window=on(1), limit=limit, offset=at_) for at_ in range(0, 6, limit)
            ]
            assert [version for page in pages for version in page["versions"]] == whole


def test_an_empty_lake(tmp_path: Any) -> None:
    numbers = numbers_with_weeks(lake_in(tmp_path))
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        assert get_json(client, "/metrics")["metrics"][0]["published"] == 0
        assert get_json(client, "/metrics/total", 404, window=on(1))["type"] == "urn:lakehouse:not-published"
        assert get_json(client, "/metrics/total/series", start=on(1), end=on(2))["points"] == []
        assert get_json(client, "/health")["metrics"] == [{"metric": "total", "table_version": -1, "periods": 0}]
        numbers.at(1)
        numbers.set(1, 4)
        numbers.publish()
        assert number(client, on(1))["result"][0]["total"] == 4, "a table that comes later is shown"


@pytest.mark.merge
def test_a_number_of_longer_periods_is_behind_until_it_follows_its_days(tmp_path: Any) -> None:
    numbers = publish_two_days(numbers_with_weeks(lake_in(tmp_path)))
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        assert not number(client, "2024-W01")["staleness"]["behind"]
        numbers.set(2, 9)
        numbers.publish(2)
        assert number(client, "2024-W01")["staleness"]["behind"]
        numbers.roll_up(Kind.WEEK)
        assert not number(client, "2024-W01")["staleness"]["behind"]


@pytest.mark.merge
def test_a_lake_that_cannot_be_read_is_reported(tmp_path: Any) -> None:
    numbers = publish_two_days(numbers_with_weeks(lake_in(tmp_path)))
    with api_client(numbers.lake, catalog(numbers.metric), AccessPolicy(rate=1e9)) as client:
        broken = tmp_path / "lake" / "gold" / "total" / "_delta_log" / f"{4:020}.json"
        broken.write_text("this is no commit")
        problem = get_json(client, "/health", 503)
        assert problem["type"] == "urn:lakehouse:unreadable"
        assert f"{tmp_path}" not in str(problem)
        broken.unlink()
        assert get_json(client, "/health")["status"] == "ok"


@pytest.mark.merge
def test_a_table_that_is_recreated_in_its_place_is_another_one(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_REOPEN", -1.0)
    numbers = publish_two_days(numbers_with_weeks(lake_in(tmp_path)))
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        shutil.rmtree(tmp_path / "lake" / "gold")
        for record in ("restatements", "publications"):  # else the numbers are lost, and not begun again
            shutil.rmtree(tmp_path / "lake" / "ops" / record)
        assert get_json(client, "/metrics/total", 404, window=on(1))["type"] == "urn:lakehouse:not-published"
        numbers.set(1, 99)
        numbers.publish(1)
        assert (number(client, on(1))["result"][0]["total"], number(client, on(1))["revision"]) == (99, 1)
        assert get_json(client, "/health")["metrics"][0]["periods"] == 1


def test_times_are_those_of_the_clock(client: TestClient) -> None:
    assert get_json(client, "/health")["now"] == at(8, 12).isoformat().replace("+00:00", "Z")


@pytest.mark.merge
def test_the_catalogue_names_the_joins_and_the_inputs_of_a_metric(tmp_path: Path) -> None:
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    for name, text in late_tier.CONTRACTS.items():
        (contracts / name).write_text(text)
    with api_client(lake_in(tmp_path), load_catalog(contracts)) as client:
        answer = get_json(client, "/metrics")
    MetricsModel.model_validate(answer)
    listed = {metric["name"]: (metric["from"], metric["joins"]) for metric in answer["metrics"]}
    join = {"dimension": "customers", "on": ["customer_id"], "columns": ["tier"]}
    assert listed["revenue_by_tier"] == ([], [join])
    assert listed["gold_share"] == (["revenue_by_tier", "revenue"], [])
    assert listed["revenue"] == ([], [])
