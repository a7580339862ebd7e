"""The waves of a backfill: which are requested at the same time, with which result, and what happens when one fails."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from lakehouse.bronze.ingest import Ingest
from lakehouse.contracts import load_catalog
from lakehouse.gold.numbers import served_version
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import rollups
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.operations.backfills import log as backfill_log
from lakehouse.operations.backfills import planner
from lakehouse.operations.backfills.plan import BackfillPlan, BackfillStatus, Layer, Wave
from lakehouse.operations.backfills.planner import BackfillRequest
from lakehouse.orchestration.execution.backfill_runner import Backfill, Waves
from lakehouse.orchestration.execution.in_process import RunFailedError
from lakehouse.silver import update as silver_update
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.sales_files import deliver_sales

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

CATALOG = load_catalog(None)
KEY = dg.AssetKey(["bronze", "sales"])
DAYS = [date(2024, 11, 5) + timedelta(days=number) for number in range(5)]


def plan_of(lake: Lake, *, parallel: bool = True, retries: int = 2, max_parallel: int = 2) -> BackfillPlan:
    """A plan with a wave of Bronze for each day."""
    plan = BackfillPlan(
        plan_id="bf-1",
        target="sales",
        source="sales",
        metric=None,
        first_day=DAYS[0],
        last_day=DAYS[-1],
        reason="why",
        runner_id="anna",
        retries=retries,
        max_parallel=max_parallel,
        code_version="1",
        contracts={},
        waves=tuple(Wave(layer=Layer.BRONZE, table="bronze/sales", partitions=(day,), parallel=parallel) for day in DAYS),
        created_at=datetime(2024, 11, 20, tzinfo=timezone.utc),
    )
    backfill_log.store_plan(lake, plan)
    return plan


@dataclass
class Watched:
    """Layers that note how many runs there are at a time; the first runs of some days fail.

    ``awaited`` runs at a time are waited for, but for the first day, which is alone.
    """

    in_parallel: bool = True
    fails: dict[date, int] = field(default_factory=dict)
    may_pass: bool = True
    most: int = 0
    started: list[date] = field(default_factory=list)
    at_work: set[date] = field(default_factory=set)
    beside: dict[date, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    awaited: int = 0
    reached: threading.Event = field(default_factory=threading.Event)

    def run(self, key: dg.AssetKey, days: Sequence[date], tags: Mapping[str, str] | None = None) -> object:
        [day] = days
        with self.lock:
            self.started.append(day)
            self.at_work.add(day)
            self.most = max(self.most, len(self.at_work))
            if self.most >= self.awaited > 0:
                self.reached.set()
        if self.awaited and day != DAYS[0]:
            assert self.reached.wait(60)
        else:
            threading.Event().wait(0.2)  # the tests replace time.sleep
        with self.lock:
            self.beside[day] = len(self.at_work)
            self.at_work.remove(day)
            failing = self.fails.get(day, 0)
            self.fails[day] = failing - 1
        if failing > 0:
            msg = f"{key.to_user_string()} failed for {day}: the network was away"
            raise RunFailedError(msg, may_pass=self.may_pass)
        return tags


def go(lake: Lake, plan: BackfillPlan, layers: Watched) -> None:
    waves = Waves(lake, plan, layers, lambda _layer, _table, _count: None)
    waves.of_table(Layer.BRONZE, lambda day: waves.run(Layer.BRONZE, KEY, [day], [day]), DAYS)


def events_of(lake: Lake, kind: str) -> list[str]:
    return sorted(entry.event for entry in backfill_log.events(lake, "bf-1") if entry.kind == kind)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, which take no time here."""
    taken: list[float] = []
    sleep = time.sleep

    def pause(seconds: float) -> None:
        if threading.current_thread() is threading.main_thread():
            taken.append(seconds)
        else:  # of a library
            sleep(seconds)

    monkeypatch.setattr("tenacity.nap.time.sleep", pause)
    return taken


def test_waves_are_requested_at_the_same_time_behind_the_first(lake: Lake) -> None:
    layers = Watched(awaited=3)
    go(lake, plan_of(lake, max_parallel=3), layers)
    assert layers.most == 3
    assert layers.beside[DAYS[0]] == 1
    assert sorted(layers.started) == DAYS
    assert len(events_of(lake, "wave")) == len(DAYS)


@pytest.mark.parametrize(
    ("in_parallel", "parallel", "max_parallel"), [(False, True, 3), (True, False, 3), (True, True, 1)], ids=str
)
def test_waves_are_requested_one_after_another_where_one_side_forbids_more(
    lake: Lake, in_parallel: bool, parallel: bool, max_parallel: int
) -> None:
    layers = Watched(in_parallel=in_parallel)
    go(lake, plan_of(lake, parallel=parallel, max_parallel=max_parallel), layers)
    assert layers.most == 1
    assert layers.started == DAYS


def test_after_a_failure_no_further_wave_starts(lake: Lake) -> None:
    layers = Watched(fails={DAYS[1]: 1})
    with pytest.raises(RunFailedError, match="2024-11-06"):
        go(lake, plan_of(lake, retries=0), layers)
    assert DAYS[4] not in layers.started
    go(lake, plan_of(lake, retries=0), layers)
    assert len(events_of(lake, "wave")) == len(DAYS)


def test_each_failed_attempt_is_an_event_and_the_pauses_grow(lake: Lake, pauses: list[float]) -> None:
    layers = Watched(fails={DAYS[1]: 3})
    go(lake, plan_of(lake, parallel=False, retries=3), layers)
    assert layers.started.count(DAYS[1]) == 4
    assert events_of(lake, "attempt") == [f"attempt:bronze:bronze/sales:2024-11-06:2024-11-06:1:{number}" for number in (1, 2, 3)]
    assert len(pauses) == 3
    assert pauses == sorted(pauses)
    assert pauses[0] >= 2
    assert pauses[-1] >= 8
    [first, *_] = [entry for entry in backfill_log.events(lake, "bf-1") if entry.kind == "attempt"]
    assert first.said["problem"] == "bronze/sales failed for 2024-11-06: the network was away"
    assert first.said["partitions"] == ["2024-11-06"]


def test_what_another_attempt_cannot_mend_is_reported_at_once(lake: Lake, pauses: list[float]) -> None:
    layers = Watched(fails={DAYS[0]: 1}, may_pass=False)
    with pytest.raises(RunFailedError):
        go(lake, plan_of(lake), layers)
    assert layers.started == [DAYS[0]]
    assert not pauses
    assert len(events_of(lake, "attempt")) == 1


def test_stopped_in_a_pause_the_attempts_are_counted_on(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(_seconds: float) -> None:
        raise KeyboardInterrupt

    plan, layers = plan_of(lake, parallel=False, retries=1), Watched(fails={DAYS[1]: 3})
    with monkeypatch.context() as patched:
        patched.setattr("tenacity.nap.time.sleep", stopped)
        with pytest.raises(KeyboardInterrupt):
            go(lake, plan, layers)
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _seconds: None)
    with pytest.raises(RunFailedError):
        go(lake, plan, layers)
    go(lake, plan, layers)
    assert [event.rpartition(":")[2] for event in events_of(lake, "attempt")] == ["1", "2", "3"]
    assert len(events_of(lake, "wave")) == len(DAYS)


@dataclass
class Tables:
    """Layers that do what the runs of the assets do to the tables, without Dagster; a pool lets one of them write a table.

    Of the runs that wait, a pool chooses the one with the last days.
    """

    lake: Lake
    spark: SparkSession
    in_parallel: bool
    order: list[date] = field(default_factory=list)
    waiting: list[tuple[date, str]] = field(default_factory=list)
    at_work: set[str] = field(default_factory=set)
    pool: threading.Condition = field(default_factory=threading.Condition)

    def run(self, key: dg.AssetKey, days: Sequence[date], tags: Mapping[str, str] | None = None) -> object:
        table, turn = key.to_user_string(), (days[0], key.to_user_string())
        with self.pool:
            self.waiting.append(turn)
            self.pool.wait(0.3 if self.in_parallel else 0)  # others arrive
            self.pool.wait_for(lambda: table not in self.at_work and turn == max(run for run in self.waiting if run[1] == table))
            self.waiting.remove(turn)
            self.at_work.add(table)
            self.order.append(days[0])
        try:
            self._run(*key.path, days)
        finally:
            with self.pool:
                self.at_work.remove(table)
                self.pool.notify_all()
        return tags

    def _run(self, layer: str, name: str, days: Sequence[date]) -> None:
        contract, run = CATALOG.sources["sales"], Run(f"{layer}", explanation="why")
        if layer == "bronze":
            Ingest(self.lake, contract, self._session, "run").days(days)
        elif layer == "silver":
            silver_update.update(self.lake, contract, self._session, days, "run", CATALOG.metrics_of("sales"))
        else:
            daily = served_version.daily(self.lake, CATALOG, CATALOG.metrics["revenue"])
            if name == "revenue":
                follows = find_pending(self.lake, daily)
                restatement_days.restate(self.lake, contract, daily, self._session, days, run, follows)
            else:
                [rollup] = [one for one in daily.rollups if one.name == name]
                follows = find_pending(self.lake, rollup)
                rollups.restate(self.lake, contract, rollup, self._session, days, run, follows)

    def _session(self) -> SparkSession:
        return self.spark


#: What tells runs apart, and nothing about their result.
OF_THE_RUN = {"run_id", "publication_id", "inputs", "input_versions", "silver_version", "known_through"}
TABLES = [
    ("bronze", "sales"),
    ("silver", "sales"),
    ("ops", "sales_dispositions"),
    ("gold", "revenue"),
    ("gold", "revenue_weekly"),
    ("gold", "revenue_monthly"),
]


def rows(lake: Lake, layer: str, name: str) -> list[str]:
    found = lake.table(layer, name).read()
    assert found is not None, name
    return sorted(repr(sorted((column, row[column]) for column in row.keys() - OF_THE_RUN)) for row in found.to_pylist())


@pytest.mark.proof
@pytest.mark.spark
def test_waves_requested_at_the_same_time_leave_the_tables_of_one_after_another(tmp_path: Path, spark: SparkSession) -> None:
    ends = []
    for in_parallel in (False, True):
        folder = tmp_path / f"{in_parallel}"
        folder.mkdir()
        lake = lake_in(folder)
        lake.settings.now = datetime(2024, 11, 20, 12, tzinfo=timezone.utc)
        for number, day in enumerate(DAYS):  # each sale moves from day to day: the newest arrival has it
            moving = [f"s{key}@{date(2024, 11, 1 + (key + number) % 5)}" for key in range(6)]
            deliver_sales(lake, day, *moving, f"n{number}@{day - timedelta(days=2)}")
        layers = Tables(lake, spark, in_parallel)
        for target in ("sales", "revenue"):
            wish = BackfillRequest(
                target=target, first_day=date(2024, 11, 1), last_day=DAYS[-1], reason="why", runner_id="anna", wave_size=1,
                max_parallel=4,
            )  # fmt: skip
            plan = planner.plan(lake, CATALOG, wish, datetime(2024, 11, 20, tzinfo=timezone.utc))
            backfill_log.store_plan(lake, plan)
            layers.order.clear()
            verdict = Backfill(lake, CATALOG, plan, layers, lambda: spark).run()
            assert verdict is not None
            assert not verdict.problems
            assert backfill_log.status(backfill_log.events(lake, plan.plan_id)) is BackfillStatus.FINISHED
            waves = layers.order[: len(DAYS)]
            assert len(set(waves)) == len(DAYS)
            assert (waves == sorted(waves)) is not in_parallel
        ends.append({table: rows(lake, *table) for table in TABLES})
    for table in TABLES:
        assert ends[0][table] == ends[1][table], table


def test_an_earlier_plan_has_neither_retries_nor_waves_at_the_same_time(lake: Lake) -> None:
    stored: dict[str, Any] = plan_of(lake).model_dump(mode="json")
    del stored["retries"]
    for wave in stored["waves"]:
        del wave["parallel"]
    plan = BackfillPlan.model_validate(stored)
    assert plan.retries == 2, "three attempts, as the release that made it"
    assert not any(wave.parallel for wave in plan.waves)
