"""Late events of a backfill: rows that its runner admits as history are on time in every metric. No Spark."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.bronze.ingest import Ingest
from lakehouse.cli.console import out
from lakehouse.late_events import counters, follow, late_rows
from lakehouse.ledger import ids as ledger_ids
from lakehouse.ledger import late_decisions
from lakehouse.operations.backfills import planner
from lakehouse.operations.backfills.commands import print_plan
from lakehouse.operations.backfills.planner import BackfillRequest
from lakehouse.orchestration.execution.webserver import Cost
from lakehouse_tests.support.late_lake import LateLake, late
from lakehouse_tests.support.numbers_without_spark import without_spark
from lakehouse_tests.support.windowed_lake import ARRIVES, FIRST, TUMBLING, Event

if TYPE_CHECKING:
    from lakehouse.lake import Lake
    from lakehouse.operations.backfills.plan import BackfillPlan


def late_keys(lake: Lake) -> set[str]:
    return set(late_rows.read(lake, "orders")["record_key"].to_pylist())


def test_what_a_backfill_admits_is_on_time_and_what_came_before_the_admission_stays_late(lake: Lake) -> None:
    def brought(sample: LateLake, arrived: int, event: Event, plan: str, *, admits: bool) -> None:
        sample.land_at(arrived, event)
        content = Path(str(lake.settings.landing), f"orders.arrival_date={ARRIVES}.{sample.delivered}.csv").read_bytes()
        ids = {ledger_ids.of_content(hashlib.sha256(content).hexdigest())}
        if admits:
            late_decisions.record_history(lake, "orders", plan, ids, "bob", "the harbour shop was bought")
        Ingest(lake, sample.sources["orders"], sample.session, "run", backfill=plan).day(sample.arrives)
        follow.follow(lake, sample.sources["orders"], sample.metrics)
        if not admits:
            late_decisions.record_history(lake, "orders", f"{plan} again", ids, "bob", "the harbour shop was bought")

    with without_spark():
        sample = LateLake(lake, None, [late(TUMBLING, "side_output")])
        sample.classify_at(0, Event("first", 30), Event("newest", 200))
        sample.classify_at(1, Event("straggler", 31))
        brought(sample, 2, Event("not admitted", 32), "bf-1", admits=False)
        brought(sample, 3, Event("admitted", 33), "bf-2", admits=True)
        assert late_keys(lake) == {"straggler", "not admitted"}
        counts = counters.of_metric(lake, sample.metrics[0])
        assert (counts.on_time, counts.late_dropped, counts.historical) == (2, 1, 2), "rows of plans are history"
        assert counters.dropped_by_day(lake, sample.metrics[0]) == {FIRST: 1}
        assert counters.by_event_day(lake, sample.metrics[0], [FIRST])[FIRST].late_dropped == 1
        assert counters.newest_arrival(lake, sample.metrics[0]) == ARRIVES


def test_a_plan_counts_the_rows_of_new_files_that_come_too_late_for_a_metric_without_a_cutoff(lake: Lake) -> None:
    with without_spark():
        sample = LateLake(lake, None, [late(TUMBLING, "side_output"), late({**TUMBLING, "metric": "patient"}, "drop", 600)])
        sample.classify_at(0, Event("first", 30), Event("newest", 200))
        sample.land_at(1, Event("beyond", 32), Event("beyond too", 33), Event("fine", 201))
        wish = BackfillRequest(target="orders", first_day=ARRIVES, last_day=ARRIVES, reason="why", runner_id="anna")
        made = planner.plan(lake, sample.catalog, wish, lake.now())
        assert (sum(file.beyond for file in made.files), made.too_late) == (0, 2)
        assert sorted((file.known, file.behind) for file in made.files) == [(False, 2), (True, 0)]
        assert printed(made) == (
            "2 rows of 1 file come later than the grace of a metric with late_events allows, and do not count in it at once; to "
            "admit them as history, plan again with --admit-history"
        )
        admits = planner.plan(lake, sample.catalog, replace(wish, admit_history=True), lake.now())
        assert printed(admits).endswith("metric with late_events allows: anna admits them as history")


def printed(plan: BackfillPlan) -> str:
    """What the command prints of the plan about late rows."""
    with out.capture() as text:
        print_plan(plan, Cost(None, 0, ("bronze/orders",)))
    return next(line.strip() for line in text.get().splitlines() if "grace" in line)
