"""The sensor `alerts`: what it remembers between ticks, and what it finds again without that."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from lakehouse.contracts import Catalog
from lakehouse.operations.alerts import log as alert_log
from lakehouse.orchestration.automation.alert_sensor import AlertCursor
from lakehouse.orchestration.dagster_internals import PARTITION_NAME_TAG
from lakehouse_tests.support.dagster_records import DagsterRecords
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.sensor_ticks import SensorTicks

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.lake import Lake

SILVER = dg.AssetKey(["silver", "events"])
ONE = {PARTITION_NAME_TAG: "2024-01-05"}
IDLE = "nothing has changed since the last look"


@pytest.fixture(name="ticks")
def _ticks(deployment: Lake, instance: dg.DagsterInstance, tmp_path: Path) -> SensorTicks:
    deployment.settings.alert_targets = [f"file:{tmp_path / 'alerts.jsonl'}"]
    return SensorTicks(deployment, Catalog({"events": contract(owner="anna")}, {}), "alerts", instance)


def sent(tmp_path: Path) -> int:
    return len((tmp_path / "alerts.jsonl").read_text().splitlines())


def test_a_failed_run_is_told_once_and_its_recovery_too_whatever_is_forgotten(ticks: SensorTicks, tmp_path: Path) -> None:
    records = DagsterRecords(ticks.instance)
    assert ticks.skip_message() == "0 opened, 0 resolved, 0 open"
    assert ticks.skip_message() == IDLE
    records.run(SILVER, ONE)
    assert ticks.skip_message() == "1 opened, 0 resolved, 1 open"
    assert ticks.skip_message() == IDLE
    ticks.cursor = None  # as after 'reset cursor', or with a new Dagster home of the same runs
    assert ticks.skip_message() == "0 opened, 0 resolved, 1 open"
    records.run(SILVER, ONE)
    assert ticks.skip_message() == "0 opened, 0 resolved, 1 open", "another attempt is no other alert"
    records.succeed(SILVER, "2024-01-05")
    assert ticks.skip_message() == "0 opened, 1 resolved, 0 open"
    ticks.cursor = None
    assert ticks.skip_message() == "0 opened, 0 resolved, 0 open"
    assert sent(tmp_path) == 2


def test_a_tick_that_dies_after_recording_is_made_up_for(ticks: SensorTicks, tmp_path: Path) -> None:
    records = DagsterRecords(ticks.instance)
    ticks.tick()
    before = ticks.cursor
    records.run(SILVER, ONE)
    ticks.tick()
    ticks.cursor = before  # the daemon was killed before it stored the cursor
    assert ticks.skip_message() == "0 opened, 0 resolved, 1 open"
    assert sent(tmp_path) == 1


def test_an_alert_about_a_run_stays_while_dagster_cannot_be_read(ticks: SensorTicks, monkeypatch) -> None:
    records = DagsterRecords(ticks.instance)
    records.run(SILVER, ONE)
    ticks.tick()
    monkeypatch.setattr("lakehouse.orchestration.automation.alert_sensor._subjects", None)
    records.succeed(SILVER, "2024-01-05")
    with pytest.raises(Exception, match="the alerts of runs and checks could not be determined"):
        ticks.tick()
    monkeypatch.undo()
    assert [record.resolved_at for record in alert_log.all_of(ticks.lake)] == [None]
    assert ticks.skip_message() == "0 opened, 1 resolved, 0 open"


def test_a_cursor_of_an_earlier_release_is_an_empty_one() -> None:
    assert AlertCursor.read("f3a9c2") == AlertCursor.read(None) == AlertCursor()
    cursor = AlertCursor.read('{"state": "x", "runs_through": "2024-01-05 10:00:00+00:00"}')
    assert AlertCursor.read(f"{cursor}") == cursor


def test_an_alert_escalates_at_its_time_although_nothing_changes_and_an_acknowledged_one_does_not(
    ticks: SensorTicks, tmp_path: Path
) -> None:
    """The hour of an idle look is the same; the daemon is started again in between."""
    owner, platform = tmp_path / "owner.jsonl", tmp_path / "platform.jsonl"
    ticks.lake.settings.addresses = tmp_path / "addresses.yaml"
    ticks.lake.settings.addresses.write_text(
        f"owners: {{anna: ['file:{owner}']}}\nplatform: ['file:{platform}']\nescalate_after: PT20M\n"
    )
    ticks.lake.settings.now = datetime(2024, 1, 6, 10, 5, tzinfo=timezone.utc)
    records = DagsterRecords(ticks.instance)
    for day in ("2024-01-05", "2024-01-06"):
        records.run(SILVER, {PARTITION_NAME_TAG: day})
    ticks.tick()
    assert len(owner.read_text().splitlines()) == 2
    assert not platform.exists()
    first, second = alert_log.all_of(ticks.lake)
    alert_log.acknowledge(ticks.lake, [first], "anna", "on it")
    ticks.lake.settings.now += timedelta(minutes=19)
    restarted = SensorTicks(ticks.lake, ticks.catalog, "alerts", ticks.instance, ticks.cursor)
    assert restarted.skip_message() == IDLE
    ticks.lake.settings.now += timedelta(minutes=1)
    assert restarted.skip_message() == "0 opened, 0 resolved, 2 open"
    assert restarted.skip_message() == IDLE
    [line] = platform.read_text().splitlines()
    assert json.loads(line)["message_id"] == f"{second.alert_id}:escalated"
    records.succeed(SILVER, "2024-01-05", "2024-01-06")
    restarted.tick()
    assert [len(path.read_text().splitlines()) for path in (owner, platform)] == [4, 2]


def test_a_mistake_in_the_file_of_addresses_is_reported_by_the_tick(ticks: SensorTicks, tmp_path: Path) -> None:
    ticks.lake.settings.addresses = tmp_path / "addresses.yaml"
    ticks.lake.settings.addresses.write_text("owner: {}\n")
    with pytest.raises(Exception, match=r"addresses.yaml:1: owner: unknown key; docs/alerts.md lists the known ones"):
        ticks.tick()
