"""Shared runs of real tables: files of several sources become numbers in one run, whatever fails or is killed."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from lakehouse.contracts import Catalog, MetricContract
from lakehouse.contracts.series import Kind, Series
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.lake import Lake
from lakehouse.orchestration import plan_runs
from lakehouse.orchestration.assets import source_assets
from lakehouse.orchestration.automation.alert_sensor import RunLook
from lakehouse.orchestration.build import build_definitions
from lakehouse.settings import Settings
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.sensor_ticks import SensorTicks
from lakehouse_tests.support.shared_runs import execute
from lakehouse_tests.support.stopped_commits import Killed, kill_after

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.contracts import SourceContract

pytestmark = pytest.mark.merge

SENSORS = ("landing", "stewards", "restate", "reconcile")
FIRST, LATER = date(2024, 1, 5), date(2024, 1, 6)


class Fleet:
    """Sources with a metric each, and a metric of two of them; what their sensors request is run at once."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        self.lake = Lake(Settings(root=str(folder / "lake"), settle_seconds=0, spark_long_lived=True))
        self.instance = instance
        sources = {name: contract(dataset=name) for name in "abc"}
        metrics = [self._metric(f"total_{name}", name) for name in "abc"]
        self.catalog = Catalog(sources, {metric.metric: metric for metric in metrics})
        self.definitions = build_definitions(self.lake.settings, self.catalog)
        self.sensors = [SensorTicks(self.lake, self.catalog, name, instance) for name in SENSORS]
        self.runs: list[dg.DagsterRun] = []

    @staticmethod
    def _metric(name: str, source: str) -> MetricContract:
        measures = [{"name": "total", "sql": "sum(amount)", "type": "long", "additive": True}]
        publication = {"rollups": ["week"]}
        return MetricContract.model_validate({"metric": name, "source": source, "measures": measures, "publication": publication})

    def land(self, source: str, day: date, *lines: str) -> None:
        folder = Path(self.lake.landing_of(source))
        folder.mkdir(parents=True, exist_ok=True)
        text = "\n".join(["id,amount,event_time,arrived_at,op,corrects", *lines])
        (folder / f"arrival_date={day}.csv").write_text(f"{text}\n")

    def tick(self, name: str) -> list[dg.RunRequest]:
        return self.sensors[SENSORS.index(name)].run_requests()

    def run(self, request: dg.RunRequest, *, stop: bool = False) -> None:
        """Run what a sensor has requested."""
        self.runs.append(execute(self.instance, self.definitions, request, stop=stop))

    def follow(self, *, stop: bool = False) -> None:
        """Tick all sensors and run what they request, until they request nothing.

        :param stop: raise the first failure of a run.
        """
        while requests := [request for sensor in self.sensors for request in sensor.run_requests()[:1]]:
            self.run(requests[0], stop=stop)

    def follow_killed(self) -> int:
        """The same, killed behind each commit.

        :returns: the number of kills.
        """
        kills, last = 0, 1
        while True:
            known = self._commits()
            with pytest.MonkeyPatch.context() as patched:
                kill_after(patched, last)
                try:
                    self.follow(stop=True)
                except Killed:
                    kills += 1
                    assert kills < 200, "it never comes to its end"
                    self.give_up()
                else:
                    return kills
            last = 1 if self._commits() > known else last + 1  # what was killed is done, and a repetition wrote nothing

    def _commits(self) -> int:
        return sum(1 for _ in Path(self.lake.root).rglob("_delta_log/*.json"))

    def give_up(self) -> None:
        """What run monitoring does with a run whose process has ended."""
        for run in self.instance.get_runs(dg.RunsFilter(statuses=plan_runs.RUNNING)):
            self.instance.report_run_failed(run, "its process has ended")
            self.instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)

    def numbers(self) -> dict[str, dict[date, list[tuple[int, Any]]]]:
        """By series and period, the label of each revision and its number."""
        shown: dict[str, dict[date, list[tuple[int, Any]]]] = {}
        for metric in self.catalog.metrics.values():
            for series in (Series(metric), Series(metric, Kind.WEEK)):
                periods = numbers_history.history(self.lake, series)
                shown[series.name] = {
                    start: [(one.revision, row["total"]) for one in versions for row in one.rows]
                    for start, versions in periods.items()
                }
        return shown


@pytest.fixture(name="instance")
def _instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as instance:
        yield instance


def line(key: str, amount: int, day: int = 4, arrival: int = 5) -> str:
    return f"{key},{amount},2024-01-{day:02}T12:00:00Z,2024-01-{arrival:02}T01:00:00Z,insert,"


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
