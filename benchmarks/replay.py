"""The replay against a hand-written job: median seconds per arrival day from the eleventh on, as a ratio, in one run.

    python benchmarks/replay.py DATA [--days 30]

DATA is the folder of the earthquake history (with ``batches``). Both sides share one process and one Spark session; the
replay pays for everything it does (Dagster's events, checks, records), the hand-written job has none of it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path

import dagster as dg
from handwritten import arrival_day
from measure import Meter, Work
from pyspark.sql import SparkSession

from lakehouse.contracts import load_catalog
from lakehouse.orchestration.replay import Replay
from lakehouse.settings import Settings
from lakehouse.tables.session import spark_options

WARM_UP = 10


def main() -> None:
    """Run both and print the figures, then as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--days", type=int, default=30)
    arguments = parser.parse_args()
    batches = arguments.data / "batches"
    days = [date(2018, 1, 1) + timedelta(days=offset) for offset in range(arguments.days)]
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["LAKEHOUSE_ROOT"] = f"{scratch}/lake"
        settings = Settings(landing=str(batches))
        builder = SparkSession.builder
        for key, value in spark_options(settings).items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        by_hand, hand_work, hand_days = _by_hand(spark, batches, Path(scratch, "hand"), days)
        ours, our_work, our_days = _replayed(spark, settings, Path(scratch, "lake"), days)
    figures = {
        "days": len(days),
        "by_hand_seconds": statistics.median(by_hand[WARM_UP:]),
        "replay_seconds": statistics.median(ours[WARM_UP:]),
        "by_hand_first_day": by_hand[0],
        "replay_first_day": ours[0],
        "by_hand_event_days": hand_days,
        "replay_event_days": our_days,
        "by_hand_per_day": _per_day(hand_work),
        "replay_per_day": _per_day(our_work),
    }
    figures["ratio"] = figures["replay_seconds"] / figures["by_hand_seconds"]
    for name, value in figures.items():
        print(f"{name:22} {value}")
    print(json.dumps(figures))
    sys.stdout.flush()
    os._exit(0)


def _by_hand(spark: SparkSession, batches: Path, root: Path, days: list[date]) -> tuple[list[float], list[Work], int]:
    meter = Meter(spark, root)
    seconds, work, event_days = [], [], 0
    for number, day in enumerate(days):
        before, start = meter.now(), time.perf_counter()
        recomputed = arrival_day(spark, batches / f"arrival_date={day}.csv.gz", root)
        seconds.append(time.perf_counter() - start)
        work.append(meter.now().since(before))
        event_days += recomputed if number >= WARM_UP else 0
        print(f"by hand  {day}  {seconds[-1]:6.2f} s", file=sys.stderr)
    return seconds, work, event_days


def _replayed(spark: SparkSession, settings: Settings, root: Path, days: list[date]) -> tuple[list[float], list[Work], int]:
    meter = Meter(spark, root)
    seconds, work, event_days = [], [], 0
    with tempfile.TemporaryDirectory() as home, dg.DagsterInstance.local_temp(home) as instance:
        replay = Replay(settings, load_catalog(None), "earthquakes", instance)
        for number, day in enumerate(days):
            before, start = meter.now(), time.perf_counter()
            result = next(iter(replay.days([day])))
            seconds.append(time.perf_counter() - start)
            work.append(meter.now().since(before))
            event_days += len(result.touched) if number >= WARM_UP else 0
            print(f"replay   {day}  {seconds[-1]:6.2f} s", file=sys.stderr)
    return seconds, work, event_days


def _per_day(work: list[Work]) -> dict[str, float]:
    """Medians from the eleventh day on."""
    later = work[WARM_UP:]
    return {name: statistics.median(getattr(one, name) for one in later) for name in vars(later[0])}


if __name__ == "__main__":
    main()
