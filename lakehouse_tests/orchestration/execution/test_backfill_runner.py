"""A planned backfill, executed: once, again, after a stop at every step, over existing tables, and cancelled."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from lakehouse.contracts import load_catalog
from lakehouse.operations.backfills import log as backfill_log
from lakehouse.operations.backfills import planner
from lakehouse.operations.backfills import verification as backfill_verification
from lakehouse.operations.backfills.plan import BackfillStatus
from lakehouse.operations.backfills.planner import BackfillRequest, PlanProblemError
from lakehouse.orchestration.execution import backfill_runner
from lakehouse.orchestration.execution.backfill_runner import Backfill, CancelledError
from lakehouse.orchestration.execution.in_process import InProcess, RunFailedError
from lakehouse.orchestration.plan_runs import BackfillRunningError, backfill_lock, is_backfill_running, tags_of
from lakehouse.silver import audit_log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake
    from lakehouse.operations.backfills.plan import BackfillPlan
    from lakehouse.operations.backfills.verification import BackfillVerification

pytestmark = pytest.mark.spark

CATALOG = load_catalog(None)
HEADER = "sale_id,store,sold_at,amount,customer_id,received_at,op,is_correction,corrects_sale_id\n"
FIRST, SECOND, THIRD = (date(2024, 11, day) for day in (5, 6, 7))
NOW = datetime(2024, 11, 20, 12, tzinfo=timezone.utc)


@pytest.fixture
def at(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    lake.settings.now = NOW
    for name in ("root", "landing", "now"):
        monkeypatch.setenv(f"LAKEHOUSE_{name.upper()}", f"{getattr(lake.settings, name)}")
    deliver(lake, FIRST, "a@2024-11-01@10", "b@2024-11-04@10")
    deliver(lake, SECOND, "c@2024-11-01@5")
    return lake


def deliver(lake: Lake, day: date, *sales: str) -> None:
    lines = [
        f"{sale},north,{when}T10:00:00Z,{amount},1,{day}T06:00:00Z,insert,0,\n"
        for sale, when, amount in (one.split("@") for one in sales)
    ]
    Path(str(lake.settings.landing), f"arrival_date={day}.csv").write_text(HEADER + "".join(lines))


def planned(lake: Lake, target: str = "sales", last: date = SECOND, **more: Any) -> BackfillPlan:
    wish = BackfillRequest(target=target, first_day=date(2024, 11, 1), last_day=last, reason="why", runner_id="anna", **more)
    made = planner.plan(lake, CATALOG, wish, datetime.now(timezone.utc))
    backfill_log.store_plan(lake, made)
    return made


def run(lake: Lake, instance: dg.DagsterInstance, spark: SparkSession, plan: BackfillPlan) -> BackfillVerification | None:
    return Backfill(lake, CATALOG, plan, InProcess(lake, CATALOG, instance), lambda: spark).run()


def revenue(lake: Lake, latest: str = "is_latest") -> list[tuple[date, int, Decimal, str]]:
    found = lake.table("gold", "revenue").read(["event_date", "revision", "revenue", "reason", latest])
    rows = [] if found is None else found.to_pylist()
    return sorted((row["event_date"], row["revision"], row["revenue"], row["reason"]) for row in rows)


def kinds(lake: Lake, plan: BackfillPlan) -> list[str]:
    return [entry.event for entry in backfill_log.events(lake, plan.plan_id)]


def test_files_end_as_checked_numbers_and_a_second_run_does_nothing(
    at: Lake, instance: dg.DagsterInstance, spark: SparkSession
) -> None:
    plan = planned(at)
    verdict = run(at, instance, spark, plan)
    assert verdict is not None
    assert not verdict.problems
    assert verdict.partitions == {"bronze/sales": 2, "silver/sales": 2}
    days = [date(2024, 11, 1), date(2024, 11, 4)]
    assert [row[:3] for row in revenue(at)] == [(days[0], 1, Decimal("15.00")), (days[1], 1, Decimal("10.00"))]
    runs = len(instance.get_runs())
    events = kinds(at, plan)
    assert run(at, instance, spark, plan) is None
    assert len(instance.get_runs()) == runs
    assert kinds(at, plan) == events
    said = backfill_verification.summary(at, CATALOG, plan)
    assert (said["files"], said["rows"], said["event_days"]) == (2, 3, 2)
    assert said["published"]["revenue"]["reasons"] == {"initial": 2}

    deliver(at, THIRD, "d@2024-11-04@1")  # a later plan restates what stands there, and says why
    again = planned(at, last=THIRD)
    assert run(at, instance, spark, again) is not None
    assert revenue(at)[-1] == (days[1], 2, Decimal("11.00"), "late_data")  # what the data says of itself
    assert backfill_verification.summary(at, CATALOG, again)["published"]["revenue"]["restated"] == ["2024-11-04"]
    newest = at.table("gold", "revenue").read(["restatement_reason"], {"revision": [2], "event_date": [days[1]]})
    assert newest is not None
    assert newest["restatement_reason"].to_pylist() == [f"backfill: why ({again.plan_id})"]
    audited = audit_log.read(at, "sales", day=days[1], action="backfill").to_pylist()
    assert any(again.plan_id in row["reason"] and "by anna: why" in row["reason"] for row in audited)


@pytest.mark.proof
def test_stopped_after_every_event_it_continues_to_the_same_end(
    at: Lake, instance: dg.DagsterInstance, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(at, wave_size=1)
    real, stops = backfill_log.record, 0
    seen: set[str] = set()

    def stop_before_each_is_written(lake: Lake, entry: backfill_log.BackfillEvent) -> bool:
        if entry.event not in seen:
            seen.add(entry.event)
            raise KeyboardInterrupt
        return real(lake, entry)

    monkeypatch.setattr(backfill_runner.backfill_log, "record", stop_before_each_is_written)
    while True:
        try:
            verdict = run(at, instance, spark, plan)
            break
        except KeyboardInterrupt:
            stops += 1
    assert len(seen) >= stops >= 8  # roll-ups stop side by side
    assert verdict is not None
    assert not verdict.problems
    assert [row[1] for row in revenue(at)] == [1, 1]
    events = kinds(at, plan)
    assert len(events) == len(set(events))
    assert events.count("finished") == 1
    assert [event for event in events if event.startswith("silver:")] == [
        "silver:silver/sales:2024-11-01:2024-11-01:1",
        "silver:silver/sales:2024-11-04:2024-11-04:1",
    ]
    numbers = [event for event in events if event.startswith(("gold:", "rollups:"))]
    assert [event.partition(":")[2] for event in sorted(numbers)] == [
        "gold/revenue:2024-11-01:2024-11-04:2",
        "gold/revenue_monthly:2024-11-01:2024-11-01:1",
        "gold/revenue_weekly:2024-10-28:2024-11-04:2",
    ]


@pytest.mark.merge
def test_overwriting_recomputes_days_under_the_name_of_the_backfill(
    at: Lake, instance: dg.DagsterInstance, spark: SparkSession
) -> None:
    run(at, instance, spark, planned(at))
    where = at.table("silver", "sales")
    spark.sql(f"UPDATE delta.`{where}` SET amount = 99 WHERE event_date = DATE'2024-11-01' AND record_key = 'a'")  # by hand
    before = revenue(at)
    plan = planned(at, write_mode="overwrite")
    assert not plan.new_files
    verdict = run(at, instance, spark, plan)
    assert verdict is not None
    assert not verdict.problems
    assert revenue(at) == before
    rows = audit_log.read(at, "sales", day=date(2024, 11, 1)).to_pylist()
    assert [(row["action_type"], row["actor"], row["reason"]) for row in rows[-1:]] == [
        ("backfill", "anna", f"why ({plan.plan_id})")
    ]


@pytest.mark.merge
def test_a_metric_alone_is_recomputed_and_nothing_new_is_published(
    at: Lake, instance: dg.DagsterInstance, spark: SparkSession
) -> None:
    run(at, instance, spark, planned(at))
    before = revenue(at)
    plan = planned(at, "revenue")
    verdict = run(at, instance, spark, plan)
    assert verdict is not None
    assert not verdict.problems
    assert revenue(at) == before
    assert [one for one in kinds(at, plan) if one.startswith("gold:")] == ["gold:gold/revenue:2024-11-01:2024-11-04:2"]


class _Fails:
    """Layers of which one run fails a number of times."""

    in_parallel = False

    def __init__(self, layers: InProcess, times: int) -> None:
        self._layers, self.left = layers, times

    def run(self, key: dg.AssetKey, days: Sequence[date], tags: Mapping[str, str] | None = None) -> object:
        if self.left:
            self.left -= 1
            msg = "the network was away"
            raise RunFailedError(msg)
        return self._layers.run(key, days, tags)


@pytest.mark.merge
def test_a_run_that_fails_is_retried_and_then_reported(
    at: Lake, instance: dg.DagsterInstance, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _seconds: None)
    layers = InProcess(at, CATALOG, instance)
    plan = planned(at)
    with pytest.raises(RunFailedError, match="the network was away"):
        Backfill(at, CATALOG, plan, _Fails(layers, 3), lambda: spark).run()
    assert backfill_log.status(backfill_log.events(at, plan.plan_id)) is BackfillStatus.FAILED
    assert Backfill(at, CATALOG, plan, _Fails(layers, 2), lambda: spark).run() is not None
    assert backfill_log.status(backfill_log.events(at, plan.plan_id)) is BackfillStatus.FINISHED


def test_a_cancelled_backfill_stops_before_its_next_wave_and_never_starts_again(
    at: Lake, instance: dg.DagsterInstance, spark: SparkSession
) -> None:
    plan = planned(at, wave_size=1)
    layers = InProcess(at, CATALOG, instance)
    done: list[str] = []

    def cancel_after(_layer: object, table: str, _count: int) -> None:
        done.append(table)
        assert backfill_runner.cancel(at, plan, "bob")

    with pytest.raises(CancelledError, match="completed waves are kept"):
        Backfill(at, CATALOG, plan, layers, lambda: spark, cancel_after).run()
    assert done == ["bronze/sales"]
    with pytest.raises(PlanProblemError, match="was cancelled"):
        Backfill(at, CATALOG, plan, layers, lambda: spark).run()
    assert not backfill_runner.cancel(at, plan, "bob")


def test_a_run_of_a_plan_refuses_another_contract(at: Lake, instance: dg.DagsterInstance, spark: SparkSession) -> None:
    plan = planned(at)
    changed = CATALOG.sources["sales"].model_copy(update={"primary_key": ["store"]})
    other = replace(CATALOG, sources=CATALOG.sources | {"sales": changed})
    with pytest.raises(PlanProblemError, match="the contract of sales was"):
        Backfill(at, other, plan, InProcess(at, other, instance), lambda: spark).run()
    with pytest.raises(RunFailedError, match="reload the code location"):
        InProcess(at, other, instance).run(dg.AssetKey(["bronze", "sales"]), [FIRST], tags_of(plan))


def test_one_works_on_a_source_at_a_time(lake: Lake) -> None:
    assert not is_backfill_running(lake, "sales")
    with backfill_lock(lake, "sales"):
        assert is_backfill_running(lake, "sales")
        assert not is_backfill_running(lake, "other")
        with pytest.raises(BackfillRunningError, match="another backfill is running on sales"), backfill_lock(lake, "sales"):
            pass
    assert not is_backfill_running(lake, "sales")
