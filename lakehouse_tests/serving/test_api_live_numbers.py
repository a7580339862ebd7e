"""``version=live``: a number and a series from the stream, read without Spark and never mixed with the books."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakehouse.live import table
from lakehouse.live.routes import LiveNumberModel, LivePointsModel
from lakehouse.serving import responses
from lakehouse.serving.models import NumberModel, PointsModel
from lakehouse_tests.support.api_client import api_client, catalog, get_json, numbers_with_weeks, publish_two_days
from lakehouse_tests.support.numbers_without_spark import FIRST, day, metric, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.testclient import TestClient

    from lakehouse.lake import Lake

MIDNIGHT = datetime(2024, 1, 1, tzinfo=timezone.utc)
HOURLY = metric("hourly", window={"size": "PT1H"}, live=True, publication={"rollups": ["week"]})
WHOLE_DAYS = metric("daily", live=True, type="decimal(18,2)")
BOOKS_ALONE = metric("total")
#: What the stream has: (hour from the first midnight, total, rows).
HOURS = [(1, 10, 2), (9, 5, 1), (24 + 3, 7, 4), (72, 1, 1)]


def write_hours(lake: Lake, hours: list[tuple[int, int, int]]) -> None:
    starts = [MIDNIGHT + timedelta(hours=hour) for hour, _, _ in hours]
    count = len(hours)
    numbers = pa.table(
        {
            "event_date": pa.array([start.date() for start in starts], pa.date32()),
            "window_start": pa.array(starts, pa.timestamp("us", "UTC")),
            "total": pa.array([total for _, total, _ in hours], pa.int64()),
            "row_count": pa.array([rows for _, _, rows in hours], pa.int64()),
            "window_end": pa.array([start + timedelta(hours=1) for start in starts], pa.timestamp("us", "UTC")),
            "updated_at": pa.array([start + timedelta(minutes=5) for start in starts], pa.timestamp("us", "UTC")),
            "batch": pa.array(range(count), pa.int64()),
            "watermark": pa.array([None, *starts[:-1]], pa.timestamp("us", "UTC")),
            "query": pa.array(["q"] * count),
        }
    )
    assert table.write(lake, HOURLY, "q", 0, numbers)


@pytest.fixture
def client(lake: Lake) -> Iterator[TestClient]:
    write_hours(lake, HOURS)
    with api_client(lake, catalog(HOURLY, WHOLE_DAYS, BOOKS_ALONE)) as opened:
        yield opened


def live_number(client: TestClient, window: str, **parameters: Any) -> dict[str, Any]:
    answer: dict[str, Any] = get_json(client, "/metrics/hourly", window=window, version="live", **parameters)
    LiveNumberModel.model_validate(answer)
    return answer


def test_a_day_has_a_row_for_each_window_and_neither_state_nor_revision(client: TestClient) -> None:
    answer = live_number(client, f"{FIRST}")
    assert answer == {
        "metric": "hourly",
        "series": "hourly",
        "window": "2024-01-01",
        "first_day": "2024-01-01",
        "last_day": "2024-01-01",
        "deprecated_on": None,
        "layer": "live",
        "version": "live",
        "revision": None,
        "state": None,
        "label": "Live (stream)",
        "is_final": False,
        "result": [
            {"window_start": "2024-01-01T01:00:00Z", "total": 10, "row_count": 2},
            {"window_start": "2024-01-01T09:00:00Z", "total": 5, "row_count": 1},
        ],
        "total_rows": 2,
        "event_count": 3,
        "computed_at": "2024-01-01T09:05:00Z",
        "watermark": "2024-01-01T01:00:00Z",
        "next_row_offset": None,
    }


def test_a_window_of_a_day_is_a_period(client: TestClient) -> None:
    answer = live_number(client, "2024-01-01T09")
    assert (answer["window"], answer["total_rows"], answer["result"][0]["total"]) == ("2024-01-01T09", 1, 5)
    assert (live_number(client, "2024-01-01T10")["result"], live_number(client, "2024-01-01T10")["computed_at"]) == ([], None)


def test_a_series_has_the_days_of_the_stream(client: TestClient) -> None:
    days = {"start": f"{FIRST}", "end": f"{day(3)}", "version": "live"}
    series = get_json(client, "/metrics/hourly/series", **days)
    LivePointsModel.model_validate(series)
    assert (series["layer"], series["next_start"]) == ("live", None)
    assert [(point["window"], point["event_count"]) for point in series["points"]] == [("2024-01-01", 3), ("2024-01-02", 4)]
    first = get_json(client, "/metrics/hourly/series", **days, limit=1)
    assert ([point["window"] for point in first["points"]], first["next_start"]) == (["2024-01-01"], "2024-01-02")


@pytest.mark.merge
def test_pages_end_where_the_next_rows_do_not_fit(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MOST_ROWS", 1)
    first = live_number(client, f"{FIRST}")
    assert (len(first["result"]), first["total_rows"], first["next_row_offset"]) == (1, 2, 1)
    second = live_number(client, f"{FIRST}", row_offset=1)
    assert (second["result"][0]["total"], second["next_row_offset"]) == (5, None)
    series = get_json(client, "/metrics/hourly/series", start=f"{FIRST}", end=f"{day(9)}", version="live")
    assert ([point["window"] for point in series["points"]], series["next_start"]) == (["2024-01-01"], "2024-01-02")


@pytest.mark.parametrize(
    ("path", "asked", "status", "kind", "says"),
    [
        ("/metrics/total", {"window": "2024-01-01"}, 404, "not-live", "GET /metrics/total without 'version' returns"),
        ("/metrics/total/series", {"start": "2024-01-01", "end": "2024-01-02"}, 404, "not-live", "'live: true'"),
        ("/metrics/hourly", {"window": "2024-W01"}, 404, "not-live", "/metrics/hourly/series?start=...&end=...&version=live"),
        ("/metrics/hourly/series", {"start": "2024-01-01", "end": "2024-01-02", "by": "week"}, 404, "not-live", "not of a week"),
        ("/metrics/hourly", {"window": "2024-01-03"}, 404, "no-live-numbers", "GET /metrics/hourly?window=2024-01-03 returns"),
        ("/metrics/daily", {"window": "2024-01-01"}, 404, "no-live-numbers", "it has not read that day"),
        (
            "/metrics/hourly",
            {"window": "2024-01-01", "include_history": "true"},
            400,
            "makes-no-sense",
            "leave include_history out",
        ),
        ("/metrics/hourly/history", {"window": "2024-01-01"}, 422, "not-as-documented", "version"),
        ("/metrics/hourly/compare", {"window": "2024-01-01"}, 422, "not-as-documented", "version"),
    ],
)
def test_what_has_no_live_number_is_refused_with_a_way_out(
    client: TestClient, path: str, asked: dict[str, str], status: int, kind: str, says: str
) -> None:
    problem = get_json(client, path, status, **asked, version="live")
    assert problem["type"] == f"urn:lakehouse:{kind}"
    assert says in problem["detail"]


def test_an_unchanged_answer_is_not_sent_again(client: TestClient, lake: Lake) -> None:
    asked = {"window": f"{FIRST}", "version": "live"}
    tag = client.get("/metrics/hourly", params=asked).headers["etag"]
    assert tag.startswith('W/"live-')
    assert client.get("/metrics/hourly", params=asked, headers={"If-None-Match": tag}).status_code == 304


def test_the_books_do_not_know_live_numbers(client: TestClient) -> None:
    problem = get_json(client, "/metrics/hourly", 404, window=f"{FIRST}")
    assert "nothing of hourly has been published" in problem["detail"]
    series = get_json(client, "/metrics/hourly/series", start=f"{FIRST}", end=f"{day(3)}")
    PointsModel.model_validate(series)
    assert (series["layer"], series["points"]) == ("books", [])


@pytest.mark.merge
def test_each_answer_of_the_books_says_so(lake: Lake) -> None:
    with without_spark():
        numbers = publish_two_days(numbers_with_weeks(lake))
    with api_client(lake, catalog(numbers.metric)) as client:
        for window in (f"{FIRST}", "2024-W01"):
            answer = get_json(client, "/metrics/total", window=window)
            NumberModel.model_validate(answer)
            assert (answer["layer"], answer["version"] != "live") == ("books", True)
        series = get_json(client, "/metrics/total/series", start=f"{FIRST}", end=f"{day(2)}")
        PointsModel.model_validate(series)
        assert (series["layer"], len(series["points"])) == ("books", 2)
