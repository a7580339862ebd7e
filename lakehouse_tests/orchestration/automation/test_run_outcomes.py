"""What failed according to Dagster's records, and what has been done since. Runs are recorded by hand; none is executed."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from lakehouse.contracts import Catalog, load_catalog
from lakehouse.gold.publication.checks import deprecated_names
from lakehouse.operations.alerts import run_rules
from lakehouse.orchestration import plan_runs
from lakehouse.orchestration.assets.checks import check_names
from lakehouse.orchestration.assets.metric_assets import FOLLOWS_TAG
from lakehouse.orchestration.automation import alert_sensor
from lakehouse.orchestration.automation.alert_sensor import RunLook
from lakehouse.orchestration.automation.ready import tag_of
from lakehouse.orchestration.build import build_definitions
from lakehouse.orchestration.dagster_internals import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    PARTITION_NAME_TAG,
    RETRY_NUMBER_TAG,
    WILL_RETRY_TAG,
)
from lakehouse.orchestration.run_events import tags_for
from lakehouse_tests.support.dagster_records import DagsterRecords
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import day, metric

if TYPE_CHECKING:
    from lakehouse.lake import Lake
    from lakehouse.operations.alerts.alert import Alert
    from lakehouse.operations.alerts.run_rules import RunOutcomes

SILVER, GOLD = dg.AssetKey(["silver", "events"]), dg.AssetKey(["gold", "total"])
WEEKLY = dg.AssetKey(["gold", "total_weekly"])
CATALOG = Catalog({"events": contract(owner="anna")}, {"total": metric(owner="ben", publication={"rollups": ["week"]})})
ONE = {PARTITION_NAME_TAG: "2024-01-05"}


class Records(DagsterRecords):
    """Dagster's records of an instance, and looks at them."""

    since: datetime | None = None

    def look(self, *open_alerts: Alert) -> RunOutcomes:
        look = RunLook(self.instance, CATALOG, self.since)
        outcomes = look.outcomes(open_alerts)
        self.since = look.through
        return outcomes

    def alerts(self, *open_alerts: Alert) -> list[Alert]:
        return list(run_rules.alerts(CATALOG, self.look(*open_alerts)))


@pytest.fixture(name="records")
def _records(instance: dg.DagsterInstance) -> Records:
    return Records(instance)


def test_without_runs_nothing_is_known(records: Records) -> None:
    looked = records.look()
    assert (looked.runs, looked.checks, looked.subjects) == ([], [], set())


def test_a_failed_run_alerts_until_its_partition_is_materialized(records: Records) -> None:
    run_id = records.run(SILVER, ONE)
    [alert] = records.alerts()
    assert (alert.kind.value, alert.subject, alert.period) == ("failed_run", "silver/events", "2024-01-05")
    assert (alert.addressed_to, alert.numbers) == (["anna"], {"run_id": run_id, "partitions": 1})
    assert "A run of silver/events for 2024-01-05 failed: the error was not recorded." in alert.text
    assert f"See run {run_id[:8]} in Dagster" in alert.text
    records.succeed(SILVER, "2024-01-06")
    assert [again.key for again in records.alerts(alert)] == [alert.key], "another day is no cure"
    records.succeed(SILVER, "2024-01-05")
    assert records.alerts(alert) == []


def test_what_is_not_looked_at_is_not_known(records: Records) -> None:
    records.run(SILVER, ONE)
    [alert] = records.alerts()
    records.since = datetime.now(timezone.utc) + timedelta(hours=1)
    assert not records.look(alert).know(alert), "no run of silver has ended since"


def test_attempts_for_the_same_partitions_are_one_alert_and_others_are_others(records: Records) -> None:
    first, second = (records.run(SILVER, tags_for([day(5), day(9)])) for _ in range(2))
    records.run(SILVER, ONE)
    by_key = {alert.key: alert for alert in records.alerts()}
    assert len(by_key) == 2
    scattered = next(alert for alert in by_key.values() if alert.period is None)
    assert scattered.numbers["run_id"] in {first, second}
    assert "for 2024-01-05, 2024-01-09 failed" in scattered.text
    records.succeed(SILVER, "2024-01-05")
    assert {alert.key for alert in records.alerts(*by_key.values())} == {scattered.key}, "the 9th is not done"


def test_a_run_over_a_range_waits_for_each_of_its_partitions(records: Records) -> None:
    bounds = (ASSET_PARTITION_RANGE_START_TAG, ASSET_PARTITION_RANGE_END_TAG)
    records.run(SILVER, dict(zip(bounds, ("2024-01-05", "2024-01-07"))))
    records.run(WEEKLY, dict(zip(bounds, ("2024-01-01", "2024-01-08"))))
    looked = {run.subject: run.partitions for run in records.look().runs}
    assert looked["silver/events"] == ["2024-01-05", "2024-01-06", "2024-01-07"]
    assert looked["gold/total_weekly"] == ["2024-01-01", "2024-01-08"]
    assert {tuple(alert.addressed_to) for alert in run_rules.alerts(CATALOG, records.look())} == {("anna",), ("anna", "ben")}


def test_retries_are_used_up_after_the_last_attempt_of_a_sensor(records: Records) -> None:
    cause = tags_for([day(5)]) | {tag_of(FOLLOWS_TAG, "total"): "total:7"}
    for kinds in ({"failed_run"}, {"failed_run"}, {"failed_run", "retries_used_up"}):
        records.run(GOLD, cause)
        assert {alert.kind.value for alert in records.alerts()} == kinds
    records.since = None
    records.run(GOLD, ONE | {RETRY_NUMBER_TAG: "1", WILL_RETRY_TAG: "true"})
    assert sum(run.given_up for run in records.look().runs) == 3, "the attempts of the sensor"
    records.since = None
    records.run(GOLD, ONE | {RETRY_NUMBER_TAG: "2"})
    assert sum(run.given_up for run in records.look().runs) == 4, "and the last one of Dagster's own"
    records.succeed(GOLD, "2024-01-05")
    assert records.look().runs == []


def test_a_job_alerts_until_it_succeeds(records: Records) -> None:
    records.run(None, {}, job_name="maintenance")
    [alert] = records.alerts()
    assert (alert.subject, alert.addressed_to) == ("maintenance", ())
    records.run(None, {}, job_name="maintenance", failed=False)
    assert records.alerts(alert) == []
    records.run(None, {})
    assert records.alerts() == [], "who runs assets in a command sees their error"


def test_a_run_of_checks_alone_alerts_until_they_are_evaluated(records: Records) -> None:
    arrivals = dg.AssetKey(["arrivals", "events"])
    checks = frozenset({dg.AssetCheckKey(arrivals, "reviews_in_time")})
    records.run(None, {}, asset_check_selection=checks)
    [alert] = records.alerts()
    assert alert.subject == "arrivals/events"
    records.check(arrivals, "reviews_in_time", None, passed=True)
    records.run(None, {}, asset_check_selection=checks, failed=False)
    assert records.alerts(alert) == []


# Checks -------------------------------------------------------------------------------------------------------------


def test_a_failed_check_alerts_by_its_severity_until_it_passes_for_its_partition(records: Records) -> None:
    records.check(SILVER, "required_fields", "2024-01-05", passed=False, description="3 rows lack a store")
    records.check(SILVER, "nulls", "2024-01-05", passed=False, severity=dg.AssetCheckSeverity.WARN)
    records.check(SILVER, "unique_key", "2024-01-05", passed=True)
    records.run(SILVER, ONE, failed=False)
    [alert] = records.alerts()
    assert (alert.kind.value, alert.subject, alert.period) == ("failed_check", "silver/events", "2024-01-05")
    assert alert.text.startswith("The check required_fields of silver/events 2024-01-05 failed (error): 3 rows lack a store.")
    records.check(SILVER, "required_fields", "2024-01-06", passed=True)
    records.run(SILVER, ONE, failed=False)
    assert [again.key for again in records.alerts(alert)] == [alert.key], "another partition"
    records.check(SILVER, "required_fields", "2024-01-05", passed=True)
    records.run(SILVER, ONE, failed=False)
    assert records.alerts(alert) == []


def test_a_contract_may_ask_for_warnings_or_for_no_check(records: Records) -> None:
    def kinds(least: str | None) -> list[str]:
        catalog = Catalog({"events": contract(alerts={"failed_checks": least}, quality={"nulls": {"amount": 0}})}, {})
        outcomes = RunLook(records.instance, catalog, None).outcomes([])
        return sorted(f"{alert.detail}" for alert in run_rules.alerts(catalog, outcomes))

    for name, severity in (("nulls", "WARN"), ("required_fields", "ERROR"), ("equals_bronze", "WARN")):
        records.check(SILVER, name, "2024-01-05", passed=False, severity=dg.AssetCheckSeverity(severity))
    records.run(SILVER, ONE, failed=False)
    assert kinds("error") == ["equals_bronze", "required_fields"]
    assert kinds("warn") == ["equals_bronze", "nulls", "required_fields"]
    assert kinds(None) == ["equals_bronze"], "layers that differ always alert"


def test_a_number_that_readers_see_and_that_differs_from_silver_is_a_reconciliation_that_fails(records: Records) -> None:
    records.check(GOLD, "published_equals_silver", "2024-01-05", passed=False, description="12 rows, and silver has 13")
    records.check(GOLD, "totals_equal_silver", "2024-01-05", passed=False)
    records.run(GOLD, ONE, failed=False)
    [alert] = records.alerts()
    assert (alert.kind.value, alert.addressed_to) == ("reconciliation", ["anna", "ben"])
    assert "12 rows, and silver has 13" in alert.text
    assert alert.title == "two layers differ: gold/total 2024-01-05"


def test_what_has_an_alert_of_its_own_is_not_told_twice(records: Records) -> None:
    bronze = dg.AssetKey(["bronze", "events"])
    records.check(bronze, "no_file_held", "2024-01-05", passed=False)
    records.run(bronze, ONE, failed=False)
    assert records.alerts() == []


def test_the_checks_that_are_read_are_those_that_the_definitions_have(deployment: Lake) -> None:
    catalog = load_catalog(None)
    defined = {key for checks in build_definitions(deployment.settings, catalog).asset_checks or () for key in checks.check_keys}
    read = {dg.AssetCheckKey(asset, name) for asset, names in check_names(catalog).items() for name in names}
    assert {key for key in defined if key.name not in deprecated_names()} == read


# A look -------------------------------------------------------------------------------------------------------------


def test_a_look_goes_on_where_the_last_one_ended_and_leaves_the_rest_to_the_next(records: Records, monkeypatch) -> None:
    monkeypatch.setattr(alert_sensor, "_RUNS", 3)
    for number in range(1, 6):
        records.run(SILVER, {PARTITION_NAME_TAG: f"2024-01-{number:02}"})
    looks = []
    since = None
    for _ in range(2):
        look = RunLook(records.instance, CATALOG, since)
        looks.append(([run.partitions[0] for run in look.outcomes([]).runs], look.is_complete))
        since = look.through
    assert looks == [(["2024-01-01", "2024-01-02", "2024-01-03"], False), (["2024-01-04", "2024-01-05"], True)]


def test_the_newest_end_changes_with_each_run_that_ends(records: Records) -> None:
    seen = [plan_runs.newest_end(records.instance)]
    records.run(SILVER, ONE)
    seen.append(plan_runs.newest_end(records.instance))
    records.instance.add_run(dg.DagsterRun(job_name="__ASSET_JOB", status=dg.DagsterRunStatus.STARTED))
    assert plan_runs.newest_end(records.instance) == seen[-1], "it has not ended"
    records.run(SILVER, ONE, failed=False)
    assert plan_runs.newest_end(records.instance) not in seen


def test_the_error_of_a_run_is_that_of_its_step(instance: dg.DagsterInstance) -> None:
    @dg.asset(key=SILVER)
    def broken() -> None:
        raise ValueError("no such column: amount")

    failed = dg.materialize([broken], instance=instance, raise_on_error=False)
    run = instance.get_run_by_id(failed.run_id)
    assert run is not None
    assert "no such column: amount" in alert_sensor._reason(alert_sensor._errors(instance, run), SILVER)
