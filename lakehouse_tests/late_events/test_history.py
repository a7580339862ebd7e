"""Late events of a backfill: rows that its runner admits as history are on time in every metric. No Spark."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.bronze.ingest import Ingest
from lakehouse.late_events import follow, late_rows
from lakehouse.ledger import history_admissions
from lakehouse.ledger import ids as ledger_ids
from lakehouse_tests.support.late_lake import LateLake, late
from lakehouse_tests.support.numbers_without_spark import without_spark
from lakehouse_tests.support.windowed_lake import ARRIVES, TUMBLING, Event

if TYPE_CHECKING:
    from lakehouse.lake import Lake


def late_keys(lake: Lake) -> set[str]:
    return set(late_rows.read(lake, "orders")["record_key"].to_pylist())


def test_what_a_backfill_admits_is_on_time_and_what_came_before_the_admission_stays_late(lake: Lake) -> None:
    def brought(sample: LateLake, arrived: int, event: Event, plan: str, *, admits: bool) -> None:
        sample.land_at(arrived, event)
        content = Path(str(lake.settings.landing), f"orders.arrival_date={ARRIVES}.{sample.delivered}.csv").read_bytes()
        ids = {ledger_ids.of_content(hashlib.sha256(content).hexdigest())}
        if admits:
            history_admissions.record(lake, "orders", plan, ids, "bob", "the harbour shop was bought")
        Ingest(lake, sample.sources["orders"], sample.session, "run", backfill=plan).day(sample.arrives)
        follow.follow(lake, sample.sources["orders"], sample.metrics)
        if not admits:
            history_admissions.record(lake, "orders", f"{plan} again", ids, "bob", "the harbour shop was bought")

    with without_spark():
        sample = LateLake(lake, None, [late(TUMBLING, "side_output")])
        sample.classify_at(0, Event("first", 30), Event("newest", 200))
        sample.classify_at(1, Event("straggler", 31))
        brought(sample, 2, Event("not admitted", 32), "bf-1", admits=False)
        brought(sample, 3, Event("admitted", 33), "bf-2", admits=True)
        assert late_keys(lake) == {"straggler", "not admitted"}
