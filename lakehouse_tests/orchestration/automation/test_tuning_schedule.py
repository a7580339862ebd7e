"""A watermark that is off by a factor of ten, from the alert to the API: ticks of the schedule, and a server without restart."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from lakehouse.contracts import Catalog
from lakehouse.lateness import event_watermark
from lakehouse.lateness import tuning as lateness_tuning
from lakehouse.operations.alerts import signals
from lakehouse.operations.alerts.alert import AlertKind
from lakehouse.orchestration.automation import schedules
from lakehouse.orchestration.automation.schedules import schedule_of
from lakehouse.orchestration.build import build_definitions
from lakehouse_tests.support.api_client import api_client, get_json
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.numbers_without_spark import without_spark
from lakehouse_tests.support.tuned_source import arrive_daily, tuned_source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.operations.alerts.alert import Alert

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
DAYS = [date(2024, 2, day) for day in range(1, 11)]
LAGS = [*[30 * MINUTE] * 97, *[10 * HOUR] * 3]
MORNING = datetime(2024, 2, 11, 1, 30, tzinfo=timezone.utc)


@pytest.fixture(autouse=True)
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


@pytest.fixture(name="lake")
def _lake(tmp_path: Path) -> Lake:
    lake = lake_in(tmp_path)
    lake.settings.now = MORNING
    return lake


def tick(lake: Lake, source: SourceContract, instance: dg.DagsterInstance) -> str:
    """One tick of the schedule, as the daemon evaluates it."""
    [kind] = [kind for kind in schedules.kinds(lake, Catalog({"events": source})) if kind.name == "tune_watermark"]
    with dg.build_schedule_context(instance, scheduled_execution_time=lake.settings.now) as context:
        return str(schedule_of(lake, kind).evaluate_tick(context).skip_message)


def alert_of(lake: Lake, source: SourceContract) -> Alert | None:
    return {alert.kind: alert for alert in signals.of_source(lake, source)}.get(AlertKind.WATERMARK_OFF)


@pytest.mark.merge
def test_it_is_proposed_and_applied_by_itself_and_a_person_undoes_it(lake: Lake, instance: dg.DagsterInstance) -> None:
    source = tuned_source("PT1H", auto=True, at_least="PT30M", at_most="P2D")
    arrive_daily(lake, source, DAYS, LAGS)
    with api_client(lake, Catalog({"events": source})) as client:

        def served() -> Any:
            return get_json(client, "/sources/events/watermark")["tuning"]

        before = served()
        assert (before["max_lateness_seconds"], before["decisions"], before["pinned"]) == (3600, [], None)
        proposal = before["recommendation"]["proposal"]
        assert (proposal["verdict"], proposal["severity"], proposal["proposed_seconds"]) == ("raise", "warn", 36_000)
        assert before["recommendation"]["next_step_seconds"] == 75 * 60
        alert = alert_of(lake, source)
        assert alert is not None
        assert alert.addressed_to == ["anna"]
        assert "expects rows within 1 h, and 97.00% of 1,000 rows came within it; the contract wants 99.0%" in alert.text
        assert "Proposed: 10 h" in alert.text
        assert "Tuning goes there by itself, next to 1 h 15 min" in alert.text
        assert (alert.numbers["caught"], alert.numbers["proposed_seconds"]) == (0.97, 36_000)

        values = []
        for day in range(12):
            lake.settings.now = MORNING + day * DAY
            tick(lake, source, instance)
            values.append(served()["max_lateness_seconds"])
        assert values[:3] == [75 * 60, 93 * 60, 116 * 60]
        assert values[-2:] == [36_000, 36_000]
        assert all(after - prior <= prior * 0.25 for prior, after in zip([3600, *values], values))
        assert alert_of(lake, source) is None, "it catches what was wanted"
        assert [entry["automatic"] for entry in served()["decisions"]] == [True] * 11

        lake.settings.now += HOUR
        lateness_tuning.undo(lake, source, "anna", "the last step was enough")
        assert served()["max_lateness_seconds"] == values[-3]
        assert (served()["pinned"]["by"], served()["decisions"][-1]["kind"]) == ("anna", "undone")
        lake.settings.now += DAY
        assert "pinned by anna" in tick(lake, source, instance)
        assert served()["max_lateness_seconds"] == values[-3]


@pytest.mark.merge
def test_a_pinned_watermark_is_left_alone_and_alerts_nobody(lake: Lake, instance: dg.DagsterInstance) -> None:
    source = tuned_source("PT1H", auto=True)
    arrive_daily(lake, source, DAYS, LAGS)
    state = signals.state_of(lake, Catalog({"events": source}))
    assert alert_of(lake, source) is not None
    lateness_tuning.pin(lake, source, "anna", "as agreed with the shops")
    assert signals.state_of(lake, Catalog({"events": source})) != state, "the sensor looks again"
    assert alert_of(lake, source) is None
    lake.settings.now = MORNING + DAY
    assert tick(lake, source, instance) == "1 h of events is pinned by anna"
    watermark = event_watermark.of_source(lake, source)
    assert watermark is not None
    assert watermark.watermark == datetime(2024, 2, 10, 21, 30, tzinfo=timezone.utc)


@pytest.mark.merge
def test_at_the_bound_of_the_contract_the_alert_says_so(lake: Lake) -> None:
    source = tuned_source("PT2H", at_most="PT2H")
    arrive_daily(lake, source, DAYS, LAGS)
    alert = alert_of(lake, source)
    assert alert is not None
    assert "came within 10 h; the contract's bound is 2 h" in alert.text
    assert alert_of(lake, tuned_source("PT10H")) is None
    assert alert_of(lake, tuned_source("PT2H", rows=5000)) is None, "too few rows tell nothing"


def test_there_is_a_schedule_where_the_contract_says_auto(lake: Lake) -> None:
    names = [kind.name for kind in schedules.kinds(lake, Catalog({"events": tuned_source("PT1H")}))]
    assert names == ["freshness"]
    source = tuned_source("PT1H", auto=True)
    (tuning,) = (kind for kind in schedules.kinds(lake, Catalog({"events": source})) if kind.name != "freshness")
    assert (tuning.name, tuning.cron) == ("tune_watermark", "30 1 * * *")
    dg.Definitions.validate_loadable(build_definitions(lake.settings, Catalog({"events": source})))
