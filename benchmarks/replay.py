"""The replay against a hand-written job: median seconds per arrival day from the eleventh on, as a ratio, in one run.

    python benchmarks/replay.py DATA [--days 30] [--session small]

DATA is the folder of the earthquake history (with ``batches``). Each side has a process and a session of its own: the
hand-written job (``handwritten.py``) in its three sessions, and the replay, which pays for everything it does (Dagster's
events, checks, records), of which the hand-written job has none.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from handwritten import FIRST, SESSIONS, session
from measure import Meter
from volume_lakehouse import instance_in

from lakehouse import locations
from lakehouse.contracts import load_catalog
from lakehouse.delta import commit_log
from lakehouse.lake import Lake
from lakehouse.orchestration.execution.replay import Replay
from lakehouse.settings import Settings

WARM_UP = 10
Day = dict[str, Any]


def main() -> None:
    """Run all three and print the figures, as one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--session", choices=SESSIONS, action="append", help="of the hand-written job (default: all)")
    arguments = parser.parse_args()
    batches = arguments.data / "batches"
    with tempfile.TemporaryDirectory() as scratch:
        kinds = arguments.session or SESSIONS
        figures = {f"by hand, {kind}": _by_hand(batches, Path(scratch, kind), arguments.days, kind) for kind in kinds}
        figures = {name: _summary(days) for name, days in figures.items()}
        replayed = _summary(_replayed(batches, Path(scratch, "lake"), arguments.days))
    ratios = {}
    for name, one in figures.items():
        ratios[name] = {what: round(replayed[what] / one[what], 2) for what in ("seconds", "first day seconds")}
    figures |= {"replay": replayed, "ratio": ratios}
    print(json.dumps(figures, indent=1))
    sys.stdout.flush()
    os._exit(0)


def _by_hand(batches: Path, root: Path, days: int, kind: str) -> list[Day]:
    script = Path(__file__).with_name("handwritten.py")
    command = [sys.executable, str(script), str(batches), str(root), str(days), "--session", kind]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _replayed(batches: Path, root: Path, days: int) -> list[Day]:
    os.environ["LAKEHOUSE_ROOT"] = str(root)
    lake = Lake(Settings(landing=str(batches)))
    spark = session("ours")
    meter = Meter(spark, root)
    done: list[Day] = []
    with tempfile.TemporaryDirectory() as home, instance_in(Path(home)) as instance:
        replay = Replay(lake, load_catalog(None), "earthquakes", instance)
        for day in (FIRST + timedelta(days=offset) for offset in range(days)):
            before, start = meter.now(), time.perf_counter()
            result = next(iter(replay.days([day])))
            seconds = time.perf_counter() - start
            done.append({"seconds": seconds, "event_days": len(result.touched), "work": asdict(meter.now().since(before))})
            print(f"replay   {day}  {seconds:6.2f} s", file=sys.stderr)
    silver = DeltaTable(locations.silver(lake, "earthquakes").address)
    merges = [commit for commit in commit_log.history(silver, -1) if commit["operation"] == "MERGE"]
    changed = ("num_target_rows_inserted", "num_target_rows_updated", "num_target_rows_copied")  # few rows: by delta-rs
    for day, commit in zip(reversed(done), merges):
        day["silver_rows_written"] = sum(int(commit["operationMetrics"][name]) for name in changed)
    return done


def _summary(days: list[Day]) -> dict[str, Any]:
    """Medians per arrival day, and sums, from the eleventh day on."""
    later = days[WARM_UP:]
    summary: dict[str, Any] = {
        "first day seconds": round(days[0]["seconds"], 1),
        "seconds": round(statistics.median(day["seconds"] for day in later), 2),
        "event days": sum(day["event_days"] for day in later),
    }
    if any("silver_rows_written" in day for day in later):
        summary["silver rows written"] = sum(day.get("silver_rows_written", 0) for day in later)
    return summary | {name: statistics.median(day["work"][name] for day in later) for name in later[0]["work"]}


if __name__ == "__main__":
    main()
