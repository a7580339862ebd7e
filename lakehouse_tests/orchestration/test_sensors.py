"""What the sensors ask for, from the ledger and Dagster's own events; none starts Spark."""

from __future__ import annotations

import os
import time
from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from lakehouse.contracts import load_catalog
from lakehouse.ledger import decisions, ingestions, progress
from lakehouse.ledger.decisions import Decision
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.orchestration import sensors
from lakehouse.orchestration.build import build_definitions
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

ARRIVAL = date(2024, 11, 5)
TOUCHED = [date(2024, 11, 2), date(2024, 11, 4)]
CATALOG = load_catalog(None)
SALES = CATALOG.sources["sales"]


@pytest.fixture(name="lake")
def _lake(tmp_path: Path) -> Settings:
    (tmp_path / "landing").mkdir()
    return Settings(root=str(tmp_path / "lake"), landing=str(tmp_path / "landing"))


@pytest.fixture(name="instance")
def _instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def ingest(lake: Settings, arrival: date = ARRIVAL, touched: list[date] = TOUCHED, name: str = "abc") -> None:
    """What a run leaves that was killed after its ledger row and before its events."""
    ingestions.record(
        lake,
        Ingestion(
            source="sales",
            ingestion_id=name,
            content_hash=f"{name}def",
            arrival_date=arrival,
            source_file=f"arrival_date={arrival}.csv",
            bytes=10,
            modified=None,
            status="ingested",
            run_id="killed",
            recorded_at=datetime(2024, 11, 5, tzinfo=timezone.utc),
            rows=2,
            malformed=0,
            touched_days=touched,
            touched_rows=[1] * len(touched),
        ),
    )


def tick(sensor: dg.SensorDefinition, instance: dg.DagsterInstance, lake: Settings) -> dg.SensorExecutionData:
    """One look of a sensor, as the daemon takes it."""
    definitions = build_definitions(lake, CATALOG)
    context = dg.build_sensor_context(instance, definitions=definitions)
    return sensor.evaluate_tick(context)


def test_days_left_behind_are_announced_again(lake: Settings, instance: dg.DagsterInstance) -> None:
    sensor = sensors.reconciling_sensor(lake, SALES)
    assert tick(sensor, instance, lake).skip_message == "nothing waits for silver"
    ingest(lake)
    (request,) = tick(sensor, instance, lake).run_requests
    assert (request.partition_key, request.asset_selection) == ("2024-11-05", [dg.AssetKey(["bronze", "sales"])])
    (again,) = tick(sensor, instance, lake).run_requests
    assert again.run_key == request.run_key, "a repeated tick starts nothing twice"


def test_days_just_announced_are_left_to_the_policy(lake: Settings, instance: dg.DagsterInstance) -> None:
    ingest(lake)
    announce(instance, TOUCHED)
    sensor = sensors.reconciling_sensor(lake, SALES)
    assert "all announced a short while ago" in str(tick(sensor, instance, lake).skip_message)
    lake.reconcile_seconds = 0
    assert len(tick(sensors.reconciling_sensor(lake, SALES), instance, lake).run_requests) == 1


def announce(instance: dg.DagsterInstance, days: list[date]) -> None:
    for day in days:
        instance.report_runless_asset_event(dg.AssetMaterialization(["arrivals", "sales"], partition=f"{day}"))


def test_the_announcements_of_other_days_do_not_hide_one_left_behind(lake: Settings, instance: dg.DagsterInstance) -> None:
    ingest(lake)
    busy = [date(2024, 11, 6)]
    ingest(lake, date(2024, 11, 7), busy, "other")
    announce(instance, busy)
    (request,) = tick(sensors.reconciling_sensor(lake, SALES), instance, lake).run_requests
    assert request.partition_key == "2024-11-05"


def test_days_that_silver_has_taken_are_done(lake: Settings, instance: dg.DagsterInstance) -> None:
    ingest(lake)
    progress.record(
        lake, "sales", run_id="run", days=TOUCHED, ingestion_ids=["abc"], method="merge", silver_version=1, now=lake.clock()
    )
    assert tick(sensors.reconciling_sensor(lake, SALES), instance, lake).skip_message == "nothing waits for silver"


def test_it_gives_up_after_three_times_and_says_so(lake: Settings, instance: dg.DagsterInstance) -> None:
    ingest(lake)
    sensor = sensors.reconciling_sensor(lake, SALES)
    (request,) = tick(sensor, instance, lake).run_requests
    for _ in range(3):
        instance.add_run(dg.DagsterRun(job_name="__ASSET_JOB", tags=dict(request.tags), status=dg.DagsterRunStatus.FAILURE))
    assert "look why silver does not follow" in str(tick(sensor, instance, lake).skip_message)
    ingest(lake, date(2024, 11, 7), [date(2024, 11, 6)], "other")
    (other,) = tick(sensor, instance, lake).run_requests
    assert other.partition_key == "2024-11-07", "one day that was given up does not stop the others"


def test_it_waits_while_a_run_is_at_work(lake: Settings, instance: dg.DagsterInstance) -> None:
    ingest(lake)
    silver = frozenset({dg.AssetKey(["silver", "sales"])})
    instance.add_run(dg.DagsterRun(job_name="__ASSET_JOB", asset_selection=silver, status=dg.DagsterRunStatus.STARTED))
    assert "a run is at work" in str(tick(sensors.reconciling_sensor(lake, SALES), instance, lake).skip_message)


def test_a_new_file_starts_its_arrival_day_once_it_has_settled(lake: Settings, instance: dg.DagsterInstance) -> None:
    file = Path(str(lake.landing), "arrival_date=2024-11-05.csv")
    sensor = sensors.landing_sensor(lake, SALES)
    file.write_text("half a file")
    assert tick(sensor, instance, lake).skip_message == "no new file has settled"
    past = time.time() - 60
    os.utime(file, (past, past))
    (request,) = tick(sensor, instance, lake).run_requests
    assert (request.partition_key, request.asset_selection) == ("2024-11-05", [dg.AssetKey(["bronze", "sales"])])
    os.utime(file, (past + 1, past + 1))
    (changed,) = tick(sensor, instance, lake).run_requests
    assert changed.run_key != request.run_key, "a file that changed is another one"


def test_a_file_whose_run_failed_is_tried_three_times(lake: Settings, instance: dg.DagsterInstance) -> None:
    file = Path(str(lake.landing), "arrival_date=2024-11-05.csv")
    file.write_text("a file")
    os.utime(file, (time.time() - 60, time.time() - 60))
    sensor = sensors.landing_sensor(lake, SALES)
    asked = set()
    for _ in range(3):
        (request,) = tick(sensor, instance, lake).run_requests
        asked.add(request.run_key)
        instance.add_run(dg.DagsterRun(job_name="__ASSET_JOB", tags=dict(request.tags), status=dg.DagsterRunStatus.FAILURE))
    assert len(asked) == 3, "the daemon never runs a run key twice"
    assert "have failed; look at the newest" in str(tick(sensor, instance, lake).skip_message)


def test_a_decision_starts_silver_for_exactly_its_days(lake: Settings, instance: dg.DagsterInstance) -> None:
    sensor = sensors.steward_sensor(lake, SALES)
    assert tick(sensor, instance, lake).skip_message == "no decision waits for silver"
    at = lake.clock()
    decision_id = decisions.record(lake, "sales", [Decision("abc", 2, "s1", "accept", "anna", "true", at, touched_days=TOUCHED)])
    (request,) = tick(sensor, instance, lake).run_requests
    assert request.tags["lakehouse/days"] == '["2024-11-02", "2024-11-04"]'
    assert request.asset_selection == [dg.AssetKey(["silver", "sales"])]
    (again,) = tick(sensor, instance, lake).run_requests
    assert again.run_key == request.run_key
    progress.record(
        lake, "sales", run_id="run", days=TOUCHED, ingestion_ids=[decision_id], method="rebuild", silver_version=1, now=at
    )
    assert tick(sensor, instance, lake).skip_message == "no decision waits for silver"
