"""A backfill of an entity: its rows end as under a full one, and what is not its own stays as it was."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.contracts import Catalog, load_catalog
from lakehouse.ledger import rebuild_requests
from lakehouse.operations.backfills import log as backfill_log
from lakehouse.operations.backfills import planner
from lakehouse.operations.backfills.planner import BackfillRequest
from lakehouse.orchestration.execution.backfill_runner import Backfill
from lakehouse.orchestration.execution.in_process import InProcess
from lakehouse.silver import audit_log
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.sales_files import SALES_HEADER

if TYPE_CHECKING:
    import dagster as dg
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake
    from lakehouse.operations.backfills.plan import BackfillPlan

pytestmark = pytest.mark.spark

CATALOG = load_catalog(None)
FIRST, LAST = date(2024, 11, 1), date(2024, 11, 6)
#: ``id store event-day amount``: a sale below 5 is quarantined once the contract asks for more than 5.
SALES = {
    date(2024, 11, 5): ("a north 01 10", "b north 04 2", "c south 01 2", "d south 03 2", "e south 02 8"),
    date(2024, 11, 6): ("f north 02 3", "e south 02 9", "g north 05 7"),
}


def stricter() -> Catalog:
    """The contracts with another row rule."""
    sales = CATALOG.sources["sales"]
    [rule] = sales.quality.row_rules
    quality = sales.quality.model_copy(update={"row_rules": [rule.model_copy(update={"sql": "amount > 5"})]})
    return replace(CATALOG, sources=CATALOG.sources | {"sales": sales.model_copy(update={"quality": quality})})


def run(
    lake: Lake, catalog: Catalog, instance: dg.DagsterInstance, spark: SparkSession, target: str, **wanted: Any
) -> BackfillPlan:
    wish = BackfillRequest(target=target, first_day=FIRST, last_day=LAST, reason="a till was tested", runner_id="anna", **wanted)
    plan = planner.plan(lake, catalog, wish, datetime.now(timezone.utc))
    backfill_log.store_plan(lake, plan)
    verdict = Backfill(lake, catalog, plan, InProcess(lake, catalog, instance), lambda: spark).run()
    assert verdict is not None
    assert not verdict.problems
    return plan


def filled(folder: Path, instance: dg.DagsterInstance, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Lake:
    folder.mkdir()
    lake = lake_in(folder)
    lake.settings.now = datetime(2024, 11, 7, 12, tzinfo=timezone.utc)
    for name in ("root", "landing", "now"):
        monkeypatch.setenv(f"LAKEHOUSE_{name.upper()}", f"{getattr(lake.settings, name)}")
    for day, sales in SALES.items():
        lines = [
            f"{name},{store},2024-11-{event}T10:00:00Z,{amount},1,{day}T06:00:00Z,insert,0,\n"
            for name, store, event, amount in (sale.split() for sale in sales)
        ]
        Path(str(lake.settings.landing), f"arrival_date={day}.csv").write_text(SALES_HEADER + "".join(lines))
    run(lake, CATALOG, instance, spark, "sales")
    return lake


def silver(lake: Lake) -> set[tuple[str, int]]:
    rows = locations.silver(lake, "sales").read(["record_key", "amount"])
    assert rows is not None
    return {(row["record_key"], int(row["amount"])) for row in rows.to_pylist()}


def statuses(lake: Lake) -> set[tuple[str, str, str]]:
    """What became of each row: key, amount, disposition."""
    account = locations.dispositions(lake, "sales").read(["ingestion_id", "line_number", "disposition"])
    bronze = locations.bronze(lake, "sales").read(["ingestion_id", "line_number", "record_key", "amount"])
    assert account is not None
    assert bronze is not None
    joined = account.join(bronze, ["ingestion_id", "line_number"])
    return {(row["record_key"], f"{row['amount']}", row["disposition"]) for row in joined.to_pylist()}


def revisions(lake: Lake, reasons: str = "reason") -> list[tuple[int, int, Any]]:
    rows = lake.table("gold", "revenue").read(["event_date", "revision", reasons])
    assert rows is not None
    return sorted((row["event_date"].day, row["revision"], row[reasons]) for row in rows.to_pylist())


@pytest.mark.proof
def test_only_the_rows_of_the_entity_are_judged_again_and_only_their_days_computed(
    tmp_path: Path, instance: dg.DagsterInstance, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = filled(tmp_path / "whole", instance, spark, monkeypatch)
    run(whole, stricter(), instance, spark, "sales", write_mode="overwrite")
    lake = filled(tmp_path / "entity", instance, spark, monkeypatch)
    before = statuses(lake)
    plan = run(lake, stricter(), instance, spark, "sales", write_mode="overwrite", where="store = 'north'")
    assert [sorted(day.day for day in wave.partitions) for wave in plan.waves if wave.table == "silver/sales"] == [[1, 2, 4, 5]]
    assert plan.rows_of_entity == 4
    assert silver(lake) == {("a", 10), ("g", 7), ("c", 2), ("d", 2), ("e", 9)}
    assert silver(whole) == {("a", 10), ("g", 7), ("e", 9)}
    north = {"a", "b", "f", "g"}
    assert {row for row in statuses(lake) if row[0] in north} == {row for row in statuses(whole) if row[0] in north}
    assert {row for row in statuses(lake) if row[0] not in north} == {row for row in before if row[0] not in north}
    # Days whose number came out equal, and the day without the entity, have no second revision.
    assert [row[:2] for row in revisions(lake)] == [(1, 1), (2, 1), (2, 2), (3, 1), (4, 1), (4, 2), (5, 1)]

    full_reason = f"a till was tested (only store = 'north') ({plan.plan_id})"
    [request] = rebuild_requests.all_of(lake, "sales")[-1:]
    assert (request.reason, [day.day for day in request.touched_days]) == (full_reason, [1, 2, 4, 5])
    assert (4, 2, f"backfill: {full_reason}") in revisions(lake, "restatement_reason")
    audited = audit_log.read(lake, "sales", day=date(2024, 11, 4)).to_pylist()
    assert (audited[-1]["actor"], audited[-1]["reason"]) == ("anna", full_reason)

    again = run(lake, stricter(), instance, spark, "revenue", where="store in ('south')")  # of a metric: its days
    [wave] = [wave for wave in again.waves if wave.table == "gold/revenue"]
    assert ([day.day for day in wave.partitions], again.rows_of_entity) == ([1, 2, 3], 3)
    assert len(revisions(lake)) == 7, "the same numbers get no revision"
