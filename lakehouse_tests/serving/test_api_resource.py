"""The late events of a metric and of a source in the API and on the metric's page, on real tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.late_events.routes import MetricLateEventsModel, SourceLateEventsModel
from lakehouse_tests.support.api_client import api_client, get_json
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.late_lake import LateLake, late
from lakehouse_tests.support.numbers_without_spark import without_spark
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import SLIDING, TUMBLING, Event

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Any]:
    with without_spark():
        sample = LateLake(lake_in(tmp_path), None, [late(TUMBLING, "recompute"), metric(SLIDING)])
        sample.classify_at(0, Event("on time", 30), Event("next", 73))
        sample.classify_at(1, Event("within", 40), Event("later", 80))
        sample.classify_at(2, Event("beyond", 45))
        with api_client(sample.lake, sample.catalog) as made:
            yield made


@pytest.mark.merge
def test_the_counts_and_the_late_rows_of_a_metric(client: Any) -> None:
    answer = get_json(client, "/metrics/hourly/late-events")
    MetricLateEventsModel.model_validate(answer)
    assert (answer["on_time"], answer["late_accepted"], answer["late_dropped"]) == (3, 1, 1)
    assert (answer["late_accepted_rate"], answer["action"], answer["grace_seconds"]) == (0.2, "recompute", 300)
    assert [(row["record_key"], row["reason"], row["counts"]) for row in answer["late_rows"]] == [
        ("beyond", "dropped_beyond_tolerance", False),
        ("within", "late_within_tolerance", True),
    ]
    assert {window for row in answer["late_rows"] for window in row["windows"]} == {"2024-10-25T00"}
    dropped = get_json(client, "/metrics/hourly/late-events", dropped="true", day="2024-10-25")
    assert [row["record_key"] for row in dropped["late_rows"]] == ["beyond"]
    assert get_json(client, "/metrics/hourly/late-events", day="2024-10-26")["late_rows"] == []


def test_a_source_counts_each_metric_that_has_late_events(client: Any) -> None:
    answer = get_json(client, "/sources/orders/late-events")
    SourceLateEventsModel.model_validate(answer)
    assert [entry["metric"] for entry in answer["metrics"]] == ["hourly"]
    assert (answer["total"]["metric"], answer["total"]["rows"], answer["total"]["late_dropped_rate"]) == ("orders", 5, 0.2)


@pytest.mark.merge
def test_a_metric_that_counts_every_row_has_no_late_events(client: Any) -> None:
    assert get_json(client, "/metrics/sliding/late-events", 404)["type"].endswith("no-late-events")


@pytest.mark.merge
def test_the_page_of_the_metric_tells_the_rates(client: Any) -> None:
    page = client.get("/page/metrics/hourly").text
    late = "1 later than that (20.00 %): 0 count since their days are closed, 1 do not count"
    assert late in page.replace("\N{NO-BREAK SPACE}", " ")
    assert "later than that" not in client.get("/page/metrics/sliding").text
