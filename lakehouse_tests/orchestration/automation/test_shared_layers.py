"""Shared runs of real tables: files of several sources become numbers in one run, whatever fails or is killed."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from lakehouse.orchestration import plan_runs
from lakehouse.orchestration.assets import source_assets
from lakehouse.orchestration.automation.alert_sensor import RunLook
from lakehouse_tests.support.empty_deployment import instance_on_disk  # noqa: F401 (a fixture)
from lakehouse_tests.support.shared_fleet import FIRST, LATER, Fleet, line
from lakehouse_tests.support.shared_runs import execute

if TYPE_CHECKING:
    from lakehouse.contracts import SourceContract
    from lakehouse.lake import Lake

pytestmark = pytest.mark.merge


def test_files_of_several_sources_become_numbers_in_one_run(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    fleet = Fleet(tmp_path, instance)
    for amount, name in enumerate("abc", 1):
        fleet.land(name, FIRST, line("1", amount), line("2", 10, day=3))
    fleet.follow()
    [run] = fleet.runs
    assert run.is_success
    assert fleet.numbers()["total_b"] == {date(2024, 1, 3): [(1, 10)], date(2024, 1, 4): [(1, 2)]}
    assert fleet.numbers()["total_b_weekly"] == {date(2024, 1, 1): [(1, 12)]}
    for layer, days in (("bronze", {"2024-01-05"}), ("silver", {"2024-01-03", "2024-01-04"})):
        assert instance.get_materialized_partitions(dg.AssetKey([layer, "b"])) == days
    assert instance.get_materialized_partitions(dg.AssetKey(["gold", "total_b_weekly"])) == {"2024-01-01"}
    evaluated = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    checks = [entry.get_dagster_event().asset_check_evaluation_data for entry in evaluated]
    assert {(check.asset_key.to_user_string(), check.partition) for check in checks} >= {
        ("bronze/b", "2024-01-05"),
        ("silver/b", "2024-01-04"),
        ("gold/total_b", "2024-01-04"),
        ("gold/total_b_weekly", "2024-01-01"),
    }
    fleet.land("b", LATER, line("3", 5, arrival=6))
    fleet.follow()
    assert len(fleet.runs) == 2
    assert fleet.numbers()["total_b"] == {date(2024, 1, 3): [(1, 10)], date(2024, 1, 4): [(1, 2), (2, 7)]}
    materialized = instance.all_logs(fleet.runs[-1].run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    days = {(event.get_dagster_event().asset_key.to_user_string(), event.get_dagster_event().partition) for event in materialized}
    assert days == {
        ("bronze/b", "2024-01-06"),
        ("arrivals/b", "2024-01-04"),
        ("silver/b", "2024-01-04"),
        ("gold/total_b", "2024-01-04"),
        ("gold/total_b_weekly", "2024-01-01"),
    }, "exactly what changed"


def test_a_table_that_fails_in_a_shared_run_fails_no_other_and_is_tried_again_alone(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(tmp_path, instance)
    for name in "abc":
        fleet.land(name, FIRST, line("1", 1))
    real = source_assets.update

    def fails(lake: Lake, of: SourceContract, *more: Any) -> Any:
        if of.dataset == "b":
            msg = "no space left on device"
            raise OSError(msg)
        return real(lake, of, *more)

    monkeypatch.setattr(source_assets, "update", fails)
    [request] = fleet.tick("landing")
    assert execute(instance, fleet.definitions, request).is_failure
    assert {name: bool(days) for name, days in fleet.numbers().items() if "weekly" not in name} == {
        "total_a": True,
        "total_b": False,
        "total_c": True,
    }
    assert not fleet.tick("landing"), "all files are in Bronze"
    [alert] = RunLook(instance, fleet.catalog, None).outcomes([]).runs
    assert alert.subject == "silver/b"
    assert not plan_runs.plan_run_requests(instance, "lakehouse/lands/a", [request.tags["lakehouse/lands/a"]]).answered
    for _ in range(plan_runs.ATTEMPTS):
        [again] = fleet.tick("reconcile")
        assert [key.path[1] for key in again.asset_selection or ()] == ["b", "total_b", "total_b_weekly"]
        assert execute(instance, fleet.definitions, again).is_failure
    assert not fleet.tick("reconcile"), "a person has to look"
    monkeypatch.setattr(source_assets, "update", real)
    fleet.land("b", LATER, line("2", 5, arrival=6))
    fleet.follow()
    assert fleet.numbers()["total_b"] == {date(2024, 1, 4): [(1, 6)]}
    assert not RunLook(instance, fleet.catalog, None).outcomes([]).runs, "a later run has done it"


def test_killed_behind_each_commit_it_ends_as_without(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_runs, "ATTEMPTS", 1000)
    ends = []
    for is_killed in (False, True):
        (tmp_path / f"{is_killed}").mkdir()
        fleet = Fleet(tmp_path / f"{is_killed}", instance)
        kills = 0
        for day in (FIRST, LATER):
            for amount, name in enumerate("ab", day.day):
                fleet.land(name, day, line(f"{day.day}", amount, arrival=day.day), line("late", amount, day=3, arrival=day.day))
            kills += fleet.follow_killed() if is_killed else 0
            fleet.follow()
        assert not is_killed or kills > 20
        ends.append(fleet.numbers())
    assert ends[0] == ends[1]
