"""``/prometheus``: what its gauges say is what the first page, the data-quality API and the alerts say."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lakehouse.operations.alerts import log as alert_log
from lakehouse.operations.alerts.alert import Alert, AlertKind
from lakehouse.serving import overview
from lakehouse_tests.support.api_client import (
    api_client,
    at,
    catalog,
    get_json,
    numbers_with_weeks,
    on,
    publish_two_days,
    write_source_rows,
)
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi.testclient import TestClient


@pytest.fixture(autouse=True, scope="module")
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def gauges(client: TestClient) -> dict[tuple[str, ...], float]:
    """The value of each gauge, by name, and by labels in the order of their names."""
    answer = client.get("/prometheus")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    families = list(text_string_to_metric_families(answer.text))
    assert all(family.documentation for family in families)
    return {
        (sample.name, *dict(sorted(sample.labels.items())).values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_the_gauges_are_the_figures_of_the_other_screens(tmp_path: Path) -> None:
    source = contract(lateness={"expected": "P1D", "watermark": "P2D", "beyond": "quarantine", "tuning": {"rows": 1}})
    numbers = publish_two_days(numbers_with_weeks(lake_in(tmp_path)))
    rows: list[Any] = [
        (f"k{hours}", at(3, 12), at(3, 12) + timedelta(hours=hours), "insert", "admitted") for hours in range(1, 41)
    ]
    rows += [("late", at(3, 12), at(6, 12), "insert", "quarantined")]
    write_source_rows(numbers.lake, source, rows)
    numbers.at(8)
    lake = numbers.lake
    failed = Alert(AlertKind.FAILED_RUN, "total", "gold/total", lake.now(), "A run failed.")
    alert_log.record(lake, [], [failed], lambda _: True, lambda _: [])
    with api_client(lake, catalog(numbers.metric, source=source)) as client:
        shown = gauges(client)
        quality = get_json(client, "/data-quality/lateness", start_date=on(2), end_date=on(8))["sources"][0]
        restated = get_json(client, "/data-quality/restatements", start_date=on(2), end_date=on(8))
    assert shown["lakehouse_number_age_seconds", "total"] >= 0
    assert shown["lakehouse_lateness_seconds", "0.5", "events"] == quality["seconds"]["p50"]
    assert shown["lakehouse_lateness_seconds", "0.999", "events"] == quality["seconds"]["p99_9"]
    assert shown["lakehouse_late_rows", "events"] == round(quality["late_share"] * quality["rows"])
    for disposition, count in quality["dispositions"].items():
        assert shown["lakehouse_rows", disposition, "events"] == count
    assert shown[("lakehouse_restatements_last_7_days",)] == restated["total"]
    assert shown["lakehouse_open_alerts", "failed_run", "gold/total"] == 1
    assert shown["lakehouse_reviews_waiting", "events"] >= 0


@pytest.mark.parametrize("table", ["bronze/events", "ops/alerts"])
def test_what_cannot_be_read_is_counted_and_hides_no_other_figure(table: str, tmp_path: Path) -> None:
    numbers = publish_two_days(numbers_with_weeks(lake_in(tmp_path)))
    write_source_rows(numbers.lake, contract(), [("k", at(3, 12), at(3, 13), "insert", "admitted")])
    numbers.at(8)
    log = Path(numbers.lake.root, table, "_delta_log")
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{99:020}.json").write_text("garbage")
    (log / f"{0:020}.json").write_text("garbage")
    with api_client(numbers.lake, catalog(numbers.metric, source=contract())) as client:
        shown = gauges(client)
    assert shown[("lakehouse_unreadable",)] >= 1
    assert ("lakehouse_number_age_seconds", "total") in shown


def test_the_age_of_sensors_is_shown_and_if_it_cannot_be_read_no_other_figure_is_hidden(tmp_path: Path) -> None:
    numbers = publish_two_days(numbers_with_weeks(lake_in(tmp_path)))
    ages: dict[str, float] | None = {"landing": 12.0}

    def read() -> dict[str, float]:
        if ages is None:
            msg = "disk I/O error"
            raise OSError(msg)
        return ages

    with api_client(numbers.lake, catalog(numbers.metric), sensor_ages=read) as client:
        shown = gauges(client)
        ages = None
        without = gauges(client)
    assert (shown["lakehouse_sensor_age_seconds", "landing"], shown[("lakehouse_unreadable",)]) == (12, 0)
    assert without[("lakehouse_unreadable",)] == 0, "it is no table"
    assert without.keys() == shown.keys() - {("lakehouse_sensor_age_seconds", "landing")}


def test_a_storage_of_dagster_that_does_not_answer_holds_up_no_other_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    numbers, answers = publish_two_days(numbers_with_weeks(lake_in(tmp_path))), threading.Event()
    monkeypatch.setattr(overview, "_TICKS_SECONDS", 0.01)

    def hang() -> dict[str, float]:
        answers.wait(60)
        return {}

    with api_client(numbers.lake, catalog(numbers.metric), sensor_ages=hang) as client:
        shown = gauges(client)
        answers.set()
    assert ("lakehouse_number_age_seconds", "total") in shown
    assert "The last ticks of the sensors cannot be read: Dagster's storage does not answer" in caplog.text
