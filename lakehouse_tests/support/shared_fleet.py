"""A small deployment whose sensors' requests are run at once in this process: three sources with a metric and its weeks each."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakehouse.contracts import Catalog, MetricContract
from lakehouse.contracts.series import Kind, Series
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.lake import Lake
from lakehouse.orchestration import plan_runs
from lakehouse.orchestration.build import build_definitions
from lakehouse.settings import Settings
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.sensor_ticks import SensorTicks
from lakehouse_tests.support.shared_runs import execute
from lakehouse_tests.support.stopped_commits import Killed, kill_after

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


def line(key: str, amount: int, day: int = 4, arrival: int = 5) -> str:
    return f"{key},{amount},2024-01-{day:02}T12:00:00Z,2024-01-{arrival:02}T01:00:00Z,insert,"
