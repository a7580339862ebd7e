"""What one would write by hand: CSV to Bronze, the newest record per key by MERGE with literal days, the touched days again.

    python benchmarks/handwritten.py BATCHES ROOT DAYS [--session SESSION] [--skip DAYS] [--unpartitioned]

It is the yardstick of ``replay.py`` and ``object_store.py``. It keeps no account of rows, no audit, no revisions, no checks, and
knows nothing of
stale re-deliveries, malformed lines, moves off the batch's days (the record stays twice), held files, interrupted runs, or
why a number changed. Sessions: ``defaults`` has Delta's two options, ``small`` also two shuffle and two snapshot partitions,
as one tunes Spark for small data, and ``ours`` has the project's options. Prints a line of JSON per arrival day.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from datetime import date, timedelta
from pathlib import Path

from delta.tables import DeltaTable
from measure import Meter
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.lake import Lake
from lakehouse.settings import Settings
from lakehouse.spark.session import spark_options

FIRST = date(2018, 1, 1)
SESSIONS = ("defaults", "small", "ours")
_BY_HAND = ("spark.master", "spark.sql.extensions", "spark.sql.catalog.spark_catalog", "spark.driver.extraClassPath")


def arrival_day(spark: SparkSession, file: Path, root: str, *, by_day: bool = True) -> int:
    """Bring one file in; gives the number of event days recomputed.

    :param by_day: whether the tables are partitioned: Bronze by file, the others by event day.
    """
    of_bronze, of_days = (["file"], ["event_date"]) if by_day else ([], [])
    bronze, silver, gold = f"{root}/bronze", f"{root}/silver", f"{root}/gold"
    batch = spark.read.csv(str(file), header=True, multiLine=True, escape='"').withColumn("event_date", F.to_date("event_date"))
    batch = batch.withColumn("file", F.lit(file.name))
    batch.write.format("delta").mode("append").partitionBy(*of_bronze).save(bronze)
    delivered = spark.read.format("delta").load(bronze).where(F.col("file") == file.name).drop("file")
    days = sorted(row[0] for row in delivered.select("event_date").distinct().collect())
    literals = ", ".join(f"DATE'{day}'" for day in days)
    if not DeltaTable.isDeltaTable(spark, silver):
        delivered.limit(0).write.format("delta").partitionBy(*of_days).save(silver)
    (
        DeltaTable.forPath(spark, silver)
        .alias("t")
        .merge(delivered.alias("s"), f"t.event_date IN ({literals}) AND t.event_id = s.event_id")
        .whenMatchedDelete("s.op = 'delete' AND s.arrival_ts >= t.arrival_ts")
        .whenMatchedUpdateAll("s.arrival_ts >= t.arrival_ts")
        .whenNotMatchedInsertAll("s.op <> 'delete'")
        .execute()
    )
    magnitude = F.col("mag").cast("decimal(6,2)")
    measures = [F.count("*").alias("n_events"), F.count("mag").alias("n_with_mag")]
    measures += [F.sum(magnitude).alias("sum_mag"), F.max(magnitude).alias("max_mag")]
    touched = spark.read.format("delta").load(silver).where(f"event_date IN ({literals})")
    daily = touched.groupBy("event_date").agg(*measures)
    writer = daily.write.format("delta").mode("overwrite").partitionBy(*of_days)
    if DeltaTable.isDeltaTable(spark, gold):
        writer = writer.option("replaceWhere", f"event_date IN ({literals})")
    writer.save(gold)
    return len(days)


def session(kind: str) -> SparkSession:
    """A session of one of ``SESSIONS``."""
    ours = spark_options(Lake(Settings(spark_long_lived=True)))
    options = ours if kind == "ours" else {name: ours[name] for name in _BY_HAND if name in ours}
    if kind == "small":
        options |= {"spark.sql.shuffle.partitions": "2", "spark.databricks.delta.snapshotPartitions": "2"}
    builder = SparkSession.builder
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main() -> None:
    """Take the arrival days one by one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("batches", type=Path)
    parser.add_argument("root")
    parser.add_argument("days", type=int)
    parser.add_argument("--session", choices=SESSIONS, default="defaults")
    parser.add_argument("--skip", type=int, default=0, help="arrival days that were brought in before")
    parser.add_argument("--unpartitioned", action="store_true")
    arguments = parser.parse_args()
    spark = session(arguments.session)
    meter = Meter(spark, Path(arguments.root))
    for day in (FIRST + timedelta(days=arguments.skip + offset) for offset in range(arguments.days)):
        before, start = meter.now(), time.perf_counter()
        event_days = arrival_day(
            spark, arguments.batches / f"arrival_date={day}.csv.gz", arguments.root, by_day=not arguments.unpartitioned
        )
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "event_days": event_days, "work": asdict(meter.now().since(before))}), flush=True)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
