"""What the sensors downstream of landing request, from the ledger and Dagster's own events; none starts Spark."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.contracts import load_catalog
from lakehouse.ledger import applied_inputs, decisions, ingestions
from lakehouse.ledger.decisions import Decision
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.orchestration.automation.ready import IN_PROGRESS
from lakehouse.orchestration.plan_runs import BACKFILL_RUNNING, backfill_lock
from lakehouse_tests.support.sensor_ticks import SensorTicks, days_of

if TYPE_CHECKING:
    from lakehouse.lake import Lake

ARRIVAL = date(2024, 11, 5)
TOUCHED = [date(2024, 11, 2), date(2024, 11, 4)]
CATALOG = load_catalog(None)


def ingest(lake: Lake, arrival: date = ARRIVAL, touched: list[date] = TOUCHED, name: str = "abc") -> None:
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


def test_days_left_behind_start_silver_and_what_follows(deployment: Lake, instance: dg.DagsterInstance) -> None:
    sensor = SensorTicks(deployment, CATALOG, "reconcile_sales", instance)
    assert sensor.skip_message() == "nothing waits for silver"
    ingest(deployment)
    (request,) = sensor.run_requests()
    assert days_of(request) == ["2024-11-02", "2024-11-04"]
    assert [key.to_user_string() for key in request.asset_selection or ()] == [
        "silver/sales",
        "gold/revenue",
        "gold/revenue_weekly",
        "gold/revenue_monthly",
    ]
    (again,) = sensor.run_requests()
    assert again.run_key == request.run_key, "a repeated tick starts nothing twice"


def test_a_planned_backfill_is_left_alone_and_what_it_leaves_is_followed(deployment: Lake, instance: dg.DagsterInstance) -> None:
    sensors = [
        SensorTicks(deployment, CATALOG, name, instance) for name in ("reconcile_sales", "landing_sales", "stewards_sales")
    ]
    ingest(deployment)
    with backfill_lock(deployment, "sales"):
        assert {sensor.skip_message() for sensor in sensors} == {BACKFILL_RUNNING}
    assert len(sensors[0].run_requests()) == 1


def test_arrivals_before_the_first_partition_of_bronze_are_followed_too(deployment: Lake, instance: dg.DagsterInstance) -> None:
    ingest(deployment, date(2024, 10, 31), name="before")
    (request,) = SensorTicks(deployment, CATALOG, "reconcile_sales", instance).run_requests()
    assert days_of(request) == ["2024-11-02", "2024-11-04"]


def test_days_just_announced_are_left_to_the_policy(deployment: Lake, instance: dg.DagsterInstance) -> None:
    ingest(deployment)
    announce(instance, TOUCHED)
    sensor = SensorTicks(deployment, CATALOG, "reconcile_sales", instance)
    assert "all were announced recently" in sensor.skip_message()
    deployment.settings.reconcile_seconds = 0
    assert len(SensorTicks(deployment, CATALOG, "reconcile_sales", instance).run_requests()) == 1


def announce(instance: dg.DagsterInstance, days: list[date]) -> None:
    for day in days:
        instance.report_runless_asset_event(dg.AssetMaterialization(["arrivals", "sales"], partition=f"{day}"))


def test_the_announcements_of_other_days_do_not_hide_one_left_behind(deployment: Lake, instance: dg.DagsterInstance) -> None:
    ingest(deployment)
    busy = [date(2024, 11, 6)]
    ingest(deployment, date(2024, 11, 7), busy, "other")
    announce(instance, busy)
    (request,) = SensorTicks(deployment, CATALOG, "reconcile_sales", instance).run_requests()
    assert days_of(request) == ["2024-11-02", "2024-11-04"]


def test_days_that_silver_has_taken_are_done(deployment: Lake, instance: dg.DagsterInstance) -> None:
    ingest(deployment)
    applied_inputs.record(deployment, "sales", run_id="run", days=TOUCHED, ingestion_ids=["abc"], method="merge")
    assert SensorTicks(deployment, CATALOG, "reconcile_sales", instance).skip_message() == "nothing waits for silver"


def test_it_gives_up_after_three_attempts_and_reports_it(deployment: Lake, instance: dg.DagsterInstance) -> None:
    ingest(deployment)
    sensor = SensorTicks(deployment, CATALOG, "reconcile_sales", instance)
    (request,) = sensor.run_requests()
    for _ in range(3):
        sensor.add_run(request)
    assert "3 runs did not make silver follow the arrivals for 2024-11-02, 2024-11-04" in sensor.skip_message()
    ingest(deployment, date(2024, 11, 7), [date(2024, 11, 6)], "other")
    (other,) = sensor.run_requests()
    assert days_of(other) == ["2024-11-02", "2024-11-04", "2024-11-06"], "what was given up does not stop what comes later"


def test_it_waits_while_a_run_is_at_work(deployment: Lake, instance: dg.DagsterInstance) -> None:
    ingest(deployment)
    silver = frozenset({dg.AssetKey(["silver", "sales"])})
    instance.add_run(dg.DagsterRun(job_name="__ASSET_JOB", asset_selection=silver, status=dg.DagsterRunStatus.STARTED))
    assert "a run is in progress" in SensorTicks(deployment, CATALOG, "reconcile_sales", instance).skip_message()


def test_a_decision_starts_silver_for_exactly_its_days(deployment: Lake, instance: dg.DagsterInstance) -> None:
    sensor = SensorTicks(deployment, CATALOG, "stewards_sales", instance)
    assert sensor.skip_message() == "no decision waits for silver"
    decision_id = decide(deployment, "s1", TOUCHED)
    (request,) = sensor.run_requests()
    assert days_of(request) == ["2024-11-02", "2024-11-04"]
    assert [key.path[0] for key in request.asset_selection or ()] == ["silver", "gold", "gold", "gold"]
    assert request.tags["dagster/max_retries"] == "0", "its sensor tries it again, nobody else"
    (again,) = sensor.run_requests()
    assert again.run_key == request.run_key
    applied_inputs.record(deployment, "sales", run_id="run", days=TOUCHED, ingestion_ids=[decision_id], method="rebuild")
    assert sensor.skip_message() == "no decision waits for silver"


def test_what_comes_while_a_run_is_on_its_way_waits_for_the_next_and_goes_with_what_that_left(
    deployment: Lake, instance: dg.DagsterInstance
) -> None:
    sensor = SensorTicks(deployment, CATALOG, "stewards_sales", instance)
    decide(deployment, "s1", TOUCHED)
    (request,) = sensor.run_requests()
    sensor.add_run(request, dg.DagsterRunStatus.STARTED)
    decide(deployment, "s2", [date(2024, 11, 3)])
    assert sensor.skip_message() == IN_PROGRESS
    instance.report_run_failed(instance.get_runs()[0])
    (both,) = sensor.run_requests()
    assert days_of(both) == ["2024-11-02", "2024-11-03", "2024-11-04"]


def decide(lake: Lake, key: str, days: list[date]) -> str:
    said = Decision("abc", int(key[1:]), key, "accept", "anna", "true", lake.now(), touched_days=days)
    return decisions.record(lake, "sales", [said])
