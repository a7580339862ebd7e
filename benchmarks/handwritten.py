"""What one would write by hand: the newest record per key by MERGE, then the touched days again. No records, no checks.

    python benchmarks/handwritten.py BATCHES ROOT DAYS [--tuned]

It keeps the same silver state and daily aggregates as the project on histories without a move to an untouched day, and
is the yardstick of ``replay.py``. It knows nothing of stale re-deliveries, malformed lines, moves off the batch's days,
held files, interrupted runs, or why a number changed. Its session is what one writes by hand, Delta's two options and
Spark's defaults, or with ``--tuned`` the project's own. Prints a line of JSON per arrival day.
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

from lakehouse.settings import Settings
from lakehouse.spark.session import spark_options

FIRST = date(2018, 1, 1)
_BY_HAND = ("spark.master", "spark.sql.extensions", "spark.sql.catalog.spark_catalog", "spark.driver.extraClassPath")


def arrival_day(spark: SparkSession, file: Path, root: Path) -> int:
    """Bring one file in; gives the number of event days recomputed."""
    silver, gold = f"{root}/silver", f"{root}/gold"
    batch = spark.read.csv(str(file), header=True, multiLine=True, escape='"').withColumn("event_date", F.to_date("event_date"))
    batch.persist()
    if not DeltaTable.isDeltaTable(spark, silver):
        batch.limit(0).write.format("delta").partitionBy("event_date").save(silver)
    (
        DeltaTable.forPath(spark, silver)
        .alias("t")
        .merge(batch.alias("s"), "t.event_id = s.event_id")
        .whenMatchedDelete("s.op = 'delete' AND s.arrival_ts >= t.arrival_ts")
        .whenMatchedUpdateAll("s.arrival_ts >= t.arrival_ts")
        .whenNotMatchedInsertAll("s.op <> 'delete'")
        .execute()
    )
    days = [row[0] for row in batch.select("event_date").distinct().collect()]
    magnitude = F.col("mag").cast("decimal(6,2)")
    measures = [F.count("*").alias("n_events"), F.count("mag").alias("n_with_mag")]
    measures += [F.sum(magnitude).alias("sum_mag"), F.max(magnitude).alias("max_mag")]
    touched = spark.read.format("delta").load(silver).where(F.col("event_date").isin(days))
    daily = touched.groupBy("event_date").agg(*measures)
    where = f"event_date IN ({', '.join(repr(str(day)) for day in days)})"
    writer = daily.write.format("delta").mode("overwrite").partitionBy("event_date")
    (writer.option("replaceWhere", where) if DeltaTable.isDeltaTable(spark, gold) else writer).save(gold)
    batch.unpersist()
    return len(days)


def session(*, tuned: bool) -> SparkSession:
    """A session with the project's options, or with those that nobody can leave out."""
    options = spark_options(Settings(spark_long_lived=True))
    builder = SparkSession.builder
    for name, value in options.items():
        if tuned or name in _BY_HAND:
            builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main() -> None:
    """Take the arrival days one by one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("batches", type=Path)
    parser.add_argument("root", type=Path)
    parser.add_argument("days", type=int)
    parser.add_argument("--tuned", action="store_true")
    arguments = parser.parse_args()
    spark = session(tuned=arguments.tuned)
    meter = Meter(spark, arguments.root)
    for day in (FIRST + timedelta(days=offset) for offset in range(arguments.days)):
        before, start = meter.now(), time.perf_counter()
        event_days = arrival_day(spark, arguments.batches / f"arrival_date={day}.csv.gz", arguments.root)
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "event_days": event_days, "work": asdict(meter.now().since(before))}), flush=True)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
