"""What one late row costs in a table of many event days against one of few, through all layers, as a ratio in one run.

    python benchmarks/scale.py [--few 100] [--many 1000]

Two lakes of the demo's contracts are filled with as many event days of a few rows each, then take the same late rows in
turn, so that both see the same machine. A design that reads every day, or a fixed look-back, shows here.
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
from typing import Any

import dagster as dg
from handwritten import session
from measure import Meter, Work

from lakehouse.contracts import load_catalog
from lakehouse.orchestration.execution.replay import Replay
from lakehouse.settings import Settings

FIRST = date(2027, 8, 1)  # the bundled contract begins on 2024-11-01: a thousand event days fit in between
WARM_UP, MEASURED = 6, 15
ROWS_A_DAY = 5


def main() -> None:
    """Fill both lakes, then take turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--few", type=int, default=100)
    parser.add_argument("--many", type=int, default=1000)
    arguments = parser.parse_args()
    spark = session(tuned=True)
    seconds: dict[int, list[float]] = {arguments.few: [], arguments.many: []}
    work: dict[int, list[Work]] = {arguments.few: [], arguments.many: []}
    with tempfile.TemporaryDirectory() as scratch, dg.DagsterInstance.ephemeral() as instance:
        replays = {days: _filled(Path(scratch, str(days)), days, instance) for days in seconds}
        for number in range(WARM_UP + MEASURED):
            arrival = FIRST + timedelta(days=1 + number)
            for days, replay in replays.items():
                root = Path(scratch, str(days))
                _deliver(root, arrival, [FIRST - timedelta(days=2 + 3 * number)], f"late{number}")
                meter = Meter(spark, root / "lake")
                before, start = meter.now(), time.perf_counter()
                result = next(iter(replay.days([arrival])))
                seconds[days].append(time.perf_counter() - start)
                work[days].append(meter.now().since(before))
                if [len(written) for written in result.restated.values()] != [1]:
                    sys.exit(f"one day should have been restated, not {result.restated}")
                print(f"{days:5} event days  {arrival}  {seconds[days][-1]:5.2f} s", file=sys.stderr)
    figures: dict[str, Any] = {}
    for days, taken in seconds.items():
        per_day = {name: statistics.median(asdict(one)[name] for one in work[days][WARM_UP:]) for name in asdict(work[days][0])}
        figures[f"{days} event days"] = {"seconds": round(statistics.median(taken[WARM_UP:]), 2), **per_day}
    few, many = (statistics.median(taken[WARM_UP:]) for taken in seconds.values())
    print(json.dumps(figures | {"ratio": round(many / few, 2)}, indent=1))
    sys.stdout.flush()
    os._exit(0)


def _filled(root: Path, days: int, instance: dg.DagsterInstance) -> Replay:
    """A lake with rows on each of the ``days`` before the first arrival day."""
    _deliver(root, FIRST, [FIRST - timedelta(days=1 + back) for back in range(days)], "first")
    settings = Settings(root=str(root / "lake"), landing=str(root / "landing"))
    replay = Replay(settings, load_catalog(None), "sales", instance)
    for result in replay.days([FIRST]):
        print(f"{days:5} event days  filled in {result.seconds} s", file=sys.stderr)
    return replay


def _deliver(root: Path, arrival: date, event_days: list[date], prefix: str) -> None:
    landing = root / "landing"
    landing.mkdir(parents=True, exist_ok=True)
    lines = ["sale_id,store,amount,customer_id,sold_at,received_at,op,is_correction,corrects_sale_id"]
    for day in event_days:
        for row in range(ROWS_A_DAY if len(event_days) > 1 else 1):
            name = f"{prefix}-{day}-{row}"
            lines.append(f"{name},north,{row + 1}.00,{row},{day}T12:00:00Z,{arrival}T06:00:00Z,insert,false,")
    (landing / f"arrival_date={arrival}.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
