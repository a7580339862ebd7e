"""What one late row costs in a large table against a small one, through all layers, as a ratio in one run.

    python benchmarks/scale.py --few 100000,200,40 --many 10000000,200,40

A table is given by its rows, event days, and deliveries (files, up to 100 of them an arrival day). Both lakes take a late row in
turn, so that both see the same machine. A design that reads every row, every day or every delivery shows here.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from handwritten import session
from measure import Meter, Work
from volume_files import FIRST, HEAP, write_readings
from volume_lakehouse import instance_in, replay_of

if TYPE_CHECKING:
    import dagster as dg

    from lakehouse.orchestration.execution.replay import Replay

WARM_UP, MEASURED = 6, 15
FILES_A_DAY = 100


class Lake:
    """A lake of one source, filled, that takes late rows."""

    def __init__(self, root: Path, size: str, instance: dg.DagsterInstance) -> None:
        self.name, self.root, self.landing = size, root / "lake", root / "landing"
        rows, self.days, deliveries = map(int, size.split(","))
        arrivals = -(-deliveries // FILES_A_DAY)
        self._rng = np.random.default_rng(7)
        for number in range(deliveries):
            arrival = FIRST + timedelta(days=self.days + number * arrivals // deliveries)
            self._deliver(arrival, f"{number:05}.csv", number * (rows // deliveries), rows // deliveries, np.arange(self.days))
        self._arrived = FIRST + timedelta(days=self.days + arrivals - 1)
        self.rows = rows
        self.replay: Replay = replay_of(self.root, self.landing, FIRST + timedelta(days=self.days), instance)
        start = time.perf_counter()
        for _ in self.replay.days(self.replay.arrival_days()[0]):
            pass
        print(f"{size}: filled in {time.perf_counter() - start:.0f} s", file=sys.stderr)
        self.seconds: list[float] = []
        self.work: list[Work] = []

    def late_row(self, spark: Any) -> None:
        """Deliver a new row on an old day, and measure its arrival day."""
        number = len(self.seconds)
        self._arrived += timedelta(days=1)
        self._deliver(self._arrived, "late.csv", self.rows + number, 1, np.array([2 + 3 * number]))
        meter = Meter(spark, self.root)
        before, start = meter.now(), time.perf_counter()
        result = next(iter(self.replay.days([self._arrived])))
        self.seconds.append(time.perf_counter() - start)
        self.work.append(meter.now().since(before))
        if len(result.touched) != 1:
            sys.exit(f"one day should have been touched, not {result.touched}")
        print(f"{self.name}  {self._arrived}  {self.seconds[-1]:5.2f} s", file=sys.stderr)

    def figures(self) -> dict[str, Any]:
        """Medians behind the warm-up."""
        counts = [asdict(one) for one in self.work[WARM_UP:]]
        work = {name: statistics.median(one[name] for one in counts) for name in counts[0]}
        return {"seconds": round(statistics.median(self.seconds[WARM_UP:]), 2), **work}

    def _deliver(self, arrival: date, name: str, first: int, rows: int, event_days: Any) -> None:
        write_readings(self.landing / f"{arrival}" / name, self._rng, first, rows, event_days, arrival)


def main() -> None:
    """Fill both lakes, then take turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--few", default="100000,200,40", metavar="ROWS,DAYS,DELIVERIES")
    parser.add_argument("--many", default="10000000,200,40", metavar="ROWS,DAYS,DELIVERIES")
    arguments = parser.parse_args()
    os.environ.setdefault("LAKEHOUSE_SPARK_MEMORY", HEAP)
    spark = session("ours")
    with tempfile.TemporaryDirectory() as scratch, instance_in(Path(scratch)) as instance:
        lakes = [Lake(Path(scratch, side), getattr(arguments, side), instance) for side in ("few", "many")]
        for _ in range(WARM_UP + MEASURED):
            for lake in lakes:
                lake.late_row(spark)
        figures: dict[str, Any] = {lake.name: lake.figures() for lake in lakes}
        few, many = (figures[lake.name]["seconds"] for lake in lakes)
        print(json.dumps(figures | {"ratio": round(many / few, 2)}, indent=1))
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
