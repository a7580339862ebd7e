"""The numbers of a metric with windows over HTTP: in the API by their first moments, on a page by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakehouse_tests.support.api_client import api_client, get_json
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import SESSIONS, Event, WindowedLake

if TYPE_CHECKING:
    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark


@pytest.mark.merge
def test_a_day_shows_its_windows_and_adds_them_up_only_if_they_do_not_overlap(lake: Lake, spark: Any) -> None:
    sample = WindowedLake(lake, spark)
    sample.send(Event("a", 30), Event("b", 90, 2))
    sample.send(Event("late", 95, 10))
    with api_client(lake, sample.catalog) as client:
        hourly = get_json(client, "/metrics/hourly", window="2024-10-25")
        assert hourly["result"] == [
            {"window_start": "2024-10-24T22:00:00Z", "total": 1, "row_count": 1},
            {"window_start": "2024-10-24T23:00:00Z", "total": 12, "row_count": 2},
        ]
        second = get_json(client, "/metrics/hourly", window="2024-10-25T01", include_history="true")
        assert second["window"] == "2024-10-25T01"
        assert second["result"] == hourly["result"][1:]
        assert [version["revision"] for version in second["history"]] == [1, 2]
        provenance = ("version", "computed_at", "reason", "restated_on", "restatement_reason", "changed_rows", "is_latest")
        assert [second[name] for name in provenance] == [hourly[name] for name in provenance], "the hour alone was restated"
        assert (second["version"], second["update_count"], second["window_end"]) == ("r2", 1, "2024-10-25T00:00:00Z")
        hour = get_json(client, "/metrics/hourly", window="2024-10-25T00")
        assert (hour["version"], hour["reason"], hour["update_count"], hour["is_latest"]) == ("r1", "initial", 0, True)
        assert (hour["restated_on"], hour["restatement_reason"], hour["changed_rows"]) == (None, None, None)
        assert hour["computed_at"] < hourly["computed_at"]
        assert (hour["window_end"], hour["watermark_passed"]) == ("2024-10-24T23:00:00Z", None), "the source has no watermark"
        first = get_json(client, "/metrics/hourly/history", window="2024-10-25T00")["versions"]
        assert [(version["revision"], version["result"][0]["total"]) for version in first] == [(1, 1)]
        [late] = get_json(client, "/metrics/hourly/history", window="2024-10-25T01:00", offset=1)["versions"]
        assert {name: (sides["before"], sides["after"]) for name, sides in late["moved"].items()} == {"total": (2, 12)}
        assert client.get("/metrics/hourly", params={"window": "2024-10-25T01:30"}).status_code == 404
        compared = get_json(client, "/metrics/hourly/compare", window="2024-10-25-01")
        assert compared["totals"]["total"] == {"before": 2, "after": 12, "difference": 10, "percent": 500.0}
        page = client.get("/page/metrics/hourly/2024-10-25/r2").text
        assert '<th scope="row">2024-10-25T01</th><td class="num">12</td>' in page
        story = client.get("/page/metrics/hourly/2024-10-25").text
        assert '<dd data-measure="total">13<' in story
        assert "Windows of 1 h, by the local time at which they start" in story
        by_window = [row.split("<th", 1)[1] for row in story.split("<tr>") if "2024-10-25T0" in row]
        assert ["/r2" in row for row in by_window] == [False, True], "the second revision changed the second hour only"
        [_, last] = get_json(client, "/metrics/sliding/history", window="2024-10-25")["versions"]
        assert len(last["result"]) > 1
        assert last["moved"] == {}, "an event is in four windows, and would be added four times"
        assert client.get("/page/metrics/sliding/2024-10-25").status_code == 200


@pytest.mark.merge
def test_a_day_shows_its_sessions_by_their_first_moments(lake: Lake, spark: Any) -> None:
    sample = WindowedLake(lake, spark, [metric(SESSIONS)])
    sample.send(Event("a", 30), Event("b", 90, 2), Event("c", 1000), Event("other", 30, user="v"))
    sample.send(Event("late", 95, 10))
    with api_client(lake, sample.catalog) as client:
        found = get_json(client, "/metrics/sessions", window="2024-10-25")["result"]
        assert found[0] == {
            "window_start": "2024-10-24T22:30:00Z", "user": "u", "sessions": 1, "total": 13, "minutes": 65, "row_count": 3
        }  # fmt: skip
        story = client.get("/page/metrics/sessions/2024-10-25").text
        assert "Sessions of user with pauses of at most 6 h, by the local time at which they start" in story
        assert "2024-10-25T16:40" in story
