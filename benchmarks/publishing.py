"""What restating one day costs in a gold table of many days against one of few, with its roll-ups, as a ratio in one run.

    python benchmarks/publishing.py [--few 100] [--many 1000] [--apart]

Two lakes of the demo's sales are filled with as many event days, published for days, weeks and months. Then each takes the
same late rows in turn, with tables kept open from day to day as a replay keeps them (``--apart``: opened anew by each step, as
by runs of their own). Timed is what follows silver: the pending changes, the day's number by Spark, its audit and its
commit, and both roll-ups; files and bytes are counted from the Delta logs. A table that is opened or read in full shows here.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handwritten import session

from lakehouse.bronze.ingest import Ingest
from lakehouse.contracts import load_catalog
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import rollups
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.lake import Lake, SimulatedClock
from lakehouse.ledger import applied_inputs
from lakehouse.settings import Settings
from lakehouse.silver import update as silver_update

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = date(2027, 8, 1)  # the bundled contract begins on 2024-11-01: a thousand event days fit in between
WARM_UP, MEASURED = 4, 11
METRIC = MetricContract.model_validate(
    {
        "metric": "takings",
        "source": "sales",
        "grain": ["store"],
        "measures": [{"name": "takings", "sql": "sum(amount)", "type": "decimal(18,2)", "additive": True}],
        "publication": {"rollups": ["week", "month"]},
    }
)


def main() -> None:
    """Fill both lakes, then take turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--few", type=int, default=100)
    parser.add_argument("--many", type=int, default=1000)
    parser.add_argument("--apart", action="store_true")
    arguments = parser.parse_args()
    spark = session("ours")
    seconds: dict[int, list[list[float]]] = {arguments.few: [], arguments.many: []}
    written: dict[int, list[tuple[int, ...]]] = {days: [] for days in seconds}
    with tempfile.TemporaryDirectory() as scratch:
        lakes = {days: Shop(spark, Path(scratch, str(days)), days, cached=not arguments.apart) for days in seconds}
        for number in range(WARM_UP + MEASURED):
            for days, lake in lakes.items():
                lake.silver(FIRST + timedelta(days=1 + number), [FIRST - timedelta(days=2 + 3 * number)], f"late{number}")
                before = lake.logged()
                seconds[days].append(lake.published(1))
                written[days].append(tuple(now - then for now, then in zip(lake.logged(), before)))
                print(f"{days:5} event days  {sum(seconds[days][-1]):5.2f} s", file=sys.stderr)
    figures: dict[str, Any] = {}
    for days, taken in seconds.items():
        parts = [round(statistics.median(part), 3) for part in zip(*taken[WARM_UP:])]
        counts = [statistics.median(part) for part in zip(*written[days][WARM_UP:])]
        figures[f"{days} event days"] = {
            "seconds": round(statistics.median(map(sum, taken[WARM_UP:])), 3),
            "of the day, the week, the month": parts,
            **dict(zip(("files written", "files removed", "bytes written"), counts)),
        }
    few, many = (statistics.median(map(sum, taken[WARM_UP:])) for taken in seconds.values())
    print(json.dumps(figures | {"ratio": round(many / few, 2)}, indent=1))
    sys.stdout.flush()
    os._exit(0)


class Shop:
    """A lake with sales on each of the ``days`` before the first arrival day, published."""

    def __init__(self, spark: SparkSession, root: Path, days: int, *, cached: bool) -> None:
        self._spark, self._root = spark, root
        self._clock = SimulatedClock(datetime.combine(FIRST, datetime.min.time(), timezone.utc))
        lake = Lake(Settings(root=str(root / "lake"), landing=str(root / "landing"))).at(self._clock)
        self._lake = lake.cached() if cached else lake
        self._source = load_catalog(None).sources["sales"]
        self._daily = Series(METRIC)
        start = time.perf_counter()
        self.silver(FIRST, [FIRST - timedelta(days=1 + back) for back in range(days)], "first")
        self.published(days)
        print(f"{days:5} event days  filled in {time.perf_counter() - start:.1f} s", file=sys.stderr)

    def silver(self, arrival: date, event_days: list[date], prefix: str) -> None:
        """Deliver a sale of each day, and bring silver up to date."""
        landing = self._root / "landing"
        landing.mkdir(parents=True, exist_ok=True)
        lines = ["sale_id,store,amount,customer_id,sold_at,received_at,op,is_correction,corrects_sale_id"]
        lines += [f"{prefix}-{day},north,1.00,7,{day}T12:00:00Z,{arrival}T06:00:00Z,insert,false," for day in event_days]
        (landing / f"arrival_date={arrival}.csv").write_text("\n".join(lines) + "\n")
        self._clock.set(datetime.combine(arrival, datetime.min.time(), timezone.utc) + timedelta(hours=12))
        Ingest(self._lake, self._source, self._session, "run").day(arrival)
        waiting = sorted(applied_inputs.pending(self._lake, "sales"))
        silver_update.update(self._lake, self._source, self._session, waiting, "run")

    def published(self, days: int) -> list[float]:
        """Publish what silver changed, for days, weeks and months; the seconds of each."""
        run, times = Run("run"), [time.perf_counter()]
        pending = find_pending(self._lake, self._daily)
        done = restatement_days.restate(self._lake, self._source, self._daily, self._session, pending.starts, run, pending)
        if len(done.revisions) != days:
            sys.exit(f"{days} days should have been published, not {len(done.revisions)}")
        times.append(time.perf_counter())
        for rollup in self._daily.rollups:
            waiting = find_pending(self._lake, rollup)
            rollups.restate(self._lake, self._source, rollup, self._session, waiting.starts, run, waiting)
            times.append(time.perf_counter())
        return [later - earlier for earlier, later in pairwise(times)]

    def logged(self) -> tuple[int, int, int]:
        """Files added and removed, and bytes added, in all of gold and ops, from the logs."""
        added = removed = size = 0
        for layer in ("gold", "ops"):
            for commit in (self._root / "lake" / layer).glob("*/_delta_log/*.json"):
                for action in map(json.loads, commit.read_text().splitlines()):
                    added += "add" in action
                    removed += "remove" in action
                    size += action.get("add", {}).get("size", 0)
        return added, removed, size

    def _session(self) -> SparkSession:
        return self._spark


if __name__ == "__main__":
    main()
