"""A backfill of history: what the watermark holds is admitted by the runner's decision, before it comes to Bronze and after."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.contracts import load_catalog
from lakehouse.dispositions.row_frames import judged
from lakehouse.lateness import measurement
from lakehouse.ledger import ingestions, late_decisions
from lakehouse.operations.backfills import log as backfill_log
from lakehouse.operations.backfills import planner
from lakehouse.operations.backfills.planner import BackfillRequest
from lakehouse.orchestration.execution.backfill_runner import Backfill
from lakehouse.orchestration.execution.in_process import InProcess
from lakehouse.silver import audit_log
from lakehouse_tests.support.sales_files import deliver_sales

if TYPE_CHECKING:
    from collections import Counter

    import dagster as dg
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake
    from lakehouse.operations.backfills.plan import BackfillPlan

pytestmark = pytest.mark.spark

CATALOG = load_catalog(None)
SALES = CATALOG.sources["sales"]
ORDINARY, SENT, ACQUIRED = (date(2024, 11, day) for day in (2, 20, 21))
NOVEMBER = (date(2024, 11, 1), date(2024, 11, 30))


@pytest.fixture(name="lake")
def _lake(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    lake.settings.now = datetime(2024, 11, 22, 12, tzinfo=timezone.utc)
    for name in ("root", "landing", "now"):
        monkeypatch.setenv(f"LAKEHOUSE_{name.upper()}", f"{getattr(lake.settings, name)}")
    return lake


def run(lake: Lake, instance: dg.DagsterInstance, spark: SparkSession, by: str = "anna", **wanted: Any) -> BackfillPlan:
    wish = BackfillRequest("sales", *NOVEMBER, reason="the shop in the harbour was bought", runner_id=by, clock="event", **wanted)
    plan = planner.plan(lake, CATALOG, wish, datetime.now(timezone.utc))
    backfill_log.store_plan(lake, plan)
    verdict = Backfill(lake, CATALOG, plan, InProcess(lake, CATALOG, instance), lambda: spark).run()
    assert verdict is not None
    assert not verdict.problems
    return plan


def dispositions(lake: Lake) -> Counter[str]:
    return measurement.measure(lake, SALES, *NOVEMBER).dispositions


def silver(lake: Lake) -> set[str]:
    rows = locations.silver(lake, "sales").read(["record_key"])
    return set() if rows is None else set(rows["record_key"].to_pylist())


@pytest.mark.merge
def test_what_the_watermark_holds_is_admitted_before_it_comes_to_bronze_and_after(
    lake: Lake, instance: dg.DagsterInstance, spark: SparkSession
) -> None:
    """Sales that arrive more than seven days after the event wait for a steward, unless a person admits them as history."""
    deliver_sales(lake, ORDINARY, "s1@2024-11-01")
    deliver_sales(lake, SENT, "h1@2024-11-03", "h2@2024-11-04")
    held = run(lake, instance, spark)
    assert (sum(file.beyond for file in held.files), silver(lake)) == (2, {"s1"})
    assert dispositions(lake) == {"applied": 1, "quarantined": 2}

    deliver_sales(lake, ACQUIRED, "h3@2024-11-05", "s3@2024-11-20")
    admitting = run(lake, instance, spark, "bob", admit_history=True)
    assert [(file.arrival_date, file.known, file.beyond) for file in admitting.files] == [
        (ORDINARY, True, 0),
        (SENT, True, 2),
        (ACQUIRED, False, 1),
    ]
    assert silver(lake) == {"s1", "s3", "h1", "h2", "h3"}
    assert dispositions(lake) == {"applied": 5}
    revenue = lake.table("gold", "revenue").read(["event_date"], {"is_latest": [True]})
    assert revenue is not None
    assert sorted(day.day for day in revenue["event_date"].to_pylist()) == [1, 3, 4, 5, 20]

    decided = late_decisions.history_log(lake, "sales").read()
    assert {(entry.by, entry.reason, entry.plan_id) for entry in decided} == {("bob", admitting.reason, admitting.plan_id)}
    assert len(decided) == 3
    where = {"arrival_date": [SENT, ACQUIRED], "ingestion_id": [entry.ingestion_id for entry in decided]}
    again = [row for piece in judged(lake, SALES, lambda: spark, where) for row in piece["standing"].to_pylist()]
    assert again == ["admitted"] * 4, "whenever they are judged again"
    brought = {entry.arrival_date: entry.backfill for entry in ingestions.ingested(ingestions.all_of(lake, "sales")).values()}
    assert brought == {ORDINARY: held.plan_id, SENT: held.plan_id, ACQUIRED: admitting.plan_id}
    measured = measurement.measure(lake, SALES, *NOVEMBER)
    assert (measured.rows, measured.historical) == (0, 5)

    for day, by in ((1, "anna"), (3, "bob"), (5, "bob")):
        rows = audit_log.read(lake, "sales", day=date(2024, 11, day), action="backfill").to_pylist()
        assert {row["actor"] for row in rows} == {by}, day
    assert not any(file.beyond for file in run(lake, instance, spark, "bob", admit_history=True).files)
