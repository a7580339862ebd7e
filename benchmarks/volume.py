"""A first load of many rows and a file of late ones against a job written by hand, in one run over the same files.

    python benchmarks/volume.py [--rows 1000000] [--files 4] [--days 200] [--late 10000] [--late-days 30] [--only hand|lakehouse]

The hand-written job reads CSV, appends it to a Bronze table, merges it into Silver by literal days and replaces the touched days
of Gold, with 8 shuffle partitions and a heap of 6 GB. The lakehouse replays the same two arrival days and pays for everything it
does. Each side has a process of its own. Printed as one JSON object: seconds and their ratio, the largest resident memory of each Python process,
and the bytes and files of each layer. The files are generated from a fixed seed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

FIRST = date(2024, 1, 1)
HEAP, SHUFFLE_PARTITIONS = "6g", "8"
CONTRACT = """
dataset: readings
primary_key: [reading_id]
source: {{landing: "{{arrival_date}}/*.csv", format: csv, start_date: {start}}}
clocks: {{event: measured_at, arrival: received_at}}
model:
  fields:
    - {{name: reading_id, type: string, required: true}}
    - {{name: meter, type: string, required: true}}
    - {{name: region, type: string, required: true}}
    - {{name: kwh, type: "decimal(12,3)", required: true}}
    - {{name: price, type: "decimal(9,4)"}}
"""
METRIC = """
metric: consumption
source: readings
grain: [region]
measures:
  - {name: kwh, sql: sum(kwh), type: "decimal(18,3)", additive: true}
  - {name: readings, sql: count(*), type: bigint, additive: true}
"""


def generate(folder: Path, rows: int, files: int, days: int, late: int, late_days: int) -> list[date]:
    """Write the files of two arrival days: the first load, and the late rows; returns both days."""
    import numpy as np

    load, after = FIRST + timedelta(days=days), FIRST + timedelta(days=days + 1)
    rng = np.random.default_rng(7)
    per_file = rows // files
    for number in range(files):
        _write(folder / f"{load}" / f"readings_{number:03}.csv", rng, number * per_file, per_file, np.arange(days), load)
    scattered = np.sort(rng.choice(days, size=late_days, replace=False))
    _write(folder / f"{after}" / "late.csv", rng, rows, late, scattered, after)
    return [load, after]


def _write(path: Path, rng: Any, first: int, rows: int, event_days: Any, arrival: date) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv as pacsv

    path.parent.mkdir(parents=True, exist_ok=True)
    start = np.datetime64(FIRST, "s")
    measured = start + rng.choice(event_days, size=rows) * np.timedelta64(86_400, "s") + rng.integers(0, 86_400, size=rows)
    received = np.datetime64(arrival, "s") + np.sort(rng.integers(0, 80_000, size=rows))
    text = pa.table(
        {
            "reading_id": pa.array([f"r{first + row:010}" for row in range(rows)]),
            "meter": pa.array([f"m{meter:05}" for meter in rng.integers(0, 20_000, size=rows)]),
            "region": pa.array(np.array(["north", "east", "south", "west"])[rng.integers(0, 4, size=rows)]),
            "kwh": pa.array(rng.integers(0, 90_000, size=rows) / 1000).cast(pa.string()),
            "price": pa.array(rng.integers(1_000, 5_000, size=rows) / 10_000).cast(pa.string()),
            "measured_at": pa.array([f"{moment}Z" for moment in np.datetime_as_string(measured)]),
            "received_at": pa.array([f"{moment}Z" for moment in np.datetime_as_string(received)]),
        }
    )
    pacsv.write_csv(text, path, pacsv.WriteOptions(quoting_style="none"))


def by_hand(folder: Path, root: Path, arrival_days: list[date]) -> dict[str, Any]:
    """The job that one writes by hand."""
    from delta.tables import DeltaTable
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

    from lakehouse.settings import Settings
    from lakehouse.spark.session import spark_options

    needed = ("spark.master", "spark.sql.extensions", "spark.sql.catalog.spark_catalog", "spark.driver.extraClassPath")
    options = {name: value for name, value in spark_options(Settings()).items() if name in needed}
    options |= {"spark.driver.memory": HEAP, "spark.sql.shuffle.partitions": SHUFFLE_PARTITIONS}
    builder = SparkSession.builder
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    bronze, silver, gold = (f"{root}/{layer}" for layer in ("bronze", "silver", "gold"))
    columns = "reading_id string, meter string, region string, kwh decimal(12,3), price decimal(9,4), measured_at timestamp, "
    columns += "received_at timestamp"

    def arrival_day(day: date) -> None:
        batch = spark.read.csv(f"{folder}/{day}/*.csv", header=True, schema=columns)
        batch = batch.withColumn("event_date", F.to_date("measured_at")).withColumn("arrival_date", F.lit(day))
        batch.write.format("delta").mode("append").partitionBy("arrival_date").save(bronze)
        delivered = spark.read.format("delta").load(bronze).where(F.col("arrival_date") == day)
        newest = delivered.groupBy("reading_id").agg(F.max_by(F.struct(*delivered.columns), "received_at").alias("row")).select("row.*")
        days = sorted(row[0] for row in delivered.select("event_date").distinct().collect())
        literals = ", ".join(f"DATE'{one_day}'" for one_day in days)
        if not DeltaTable.isDeltaTable(spark, silver):
            delivered.limit(0).write.format("delta").partitionBy("event_date").save(silver)
        (
            DeltaTable.forPath(spark, silver)
            .alias("t")
            .merge(newest.alias("s"), f"t.event_date IN ({literals}) AND t.event_date = s.event_date AND t.reading_id = s.reading_id")
            .whenMatchedUpdateAll("s.received_at > t.received_at")
            .whenNotMatchedInsertAll()
            .execute()
        )
        touched = spark.read.format("delta").load(silver).where(f"event_date IN ({literals})")
        daily = touched.groupBy("event_date", "region").agg(F.sum("kwh").alias("kwh"), F.count("*").alias("readings"))
        writer = daily.write.format("delta").mode("overwrite").partitionBy("event_date")
        (writer.option("replaceWhere", f"event_date IN ({literals})") if DeltaTable.isDeltaTable(spark, gold) else writer).save(gold)

    return _timed(arrival_day, arrival_days)


def lakehouse(folder: Path, root: Path, arrival_days: list[date]) -> dict[str, Any]:
    """The same two days through the project."""
    contracts = root / "contracts"
    contracts.mkdir(parents=True)
    (contracts / "readings.yaml").write_text(CONTRACT.format(start=arrival_days[0]))
    (contracts / "consumption.yaml").write_text(METRIC)
    os.environ |= {"LAKEHOUSE_ROOT": str(root), "LAKEHOUSE_BUNDLED_CONTRACTS": "false", "LAKEHOUSE_SPARK_MEMORY": HEAP}

    import dagster as dg

    from lakehouse.contracts import load_catalog
    from lakehouse.orchestration.execution.replay import Replay
    from lakehouse.settings import Settings

    settings = Settings(landing=str(folder), contracts=contracts)
    with tempfile.TemporaryDirectory() as home, dg.DagsterInstance.local_temp(home) as instance:
        replay = Replay(settings, load_catalog(settings), "readings", instance)
        return _timed(lambda day: list(replay.days([day])), arrival_days)


def _timed(arrival_day: Any, arrival_days: list[date]) -> dict[str, Any]:
    seconds = []
    for day in arrival_days:
        start = time.perf_counter()
        arrival_day(day)
        seconds.append(round(time.perf_counter() - start, 1))
    return {"first load": seconds[0], "late rows": seconds[1], "python_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}


def sizes(root: Path) -> dict[str, str]:
    """Files and megabytes of each layer."""
    layers = {}
    for layer in sorted(folder for folder in root.iterdir() if folder.is_dir() and folder.name != "contracts"):
        files = [file for file in layer.rglob("*") if file.is_file()]
        layers[layer.name] = f"{len(files):,} files, {sum(file.stat().st_size for file in files) / 1e6:,.1f} MB"
    return layers


def main() -> None:
    """Generate the files, run both sides, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in {"rows": 1_000_000, "files": 4, "days": 200, "late": 10_000, "late-days": 30}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--only", choices=["hand", "lakehouse"])
    parser.add_argument("--side", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        side, folder, root, days = arguments.side
        run = by_hand if side == "hand" else lakehouse
        print(json.dumps(run(Path(folder), Path(root), [date.fromisoformat(day) for day in days.split(",")])), flush=True)
        os._exit(0)
    started = datetime.now(timezone.utc)
    with tempfile.TemporaryDirectory() as scratch:
        files = Path(scratch, "landing")
        days = generate(files, arguments.rows, arguments.files, arguments.days, arguments.late, arguments.late_days)
        figures: dict[str, Any] = {"rows": arguments.rows, "files": arguments.files, "generated": f"{datetime.now(timezone.utc) - started}"}
        for side in [arguments.only] if arguments.only else ["hand", "lakehouse"]:
            root = Path(scratch, side)
            command = [sys.executable, __file__, "--side", side, str(files), str(root), ",".join(map(str, days))]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
            figures[side] = json.loads(done.stdout.splitlines()[-1]) | sizes(root)
    if not arguments.only:
        figures["ratio"] = {
            work: round(figures["lakehouse"][work] / figures["hand"][work], 2) for work in ("first load", "late rows")
        }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
