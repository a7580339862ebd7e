"""What one would write by hand: the newest record per key by MERGE, then the touched days again. No records, no checks.

It keeps the same silver state and daily aggregates as the project on histories without a move to an untouched day, and
is the yardstick of ``replay.py``. It knows nothing of stale re-deliveries, malformed lines, moves off the batch's days,
held files, interrupted runs, or why a number changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


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
