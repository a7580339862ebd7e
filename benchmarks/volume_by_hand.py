"""The job of ``volume.py`` that one writes by hand: CSV to Bronze, MERGE by literal days, the touched days of Gold.

    python benchmarks/volume_by_hand.py LANDING ROOT DAYS [tuned] [unpartitioned]

It has 8 shuffle partitions and keeps no account of rows, no audit, no revisions, and no checks.
"""

from __future__ import annotations

import os
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from volume_files import HEAP, timed

from lakehouse.lake import Lake
from lakehouse.settings import Settings
from lakehouse.spark.session import spark_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BY_HAND = ("spark.master", "spark.sql.extensions", "spark.sql.catalog.spark_catalog", "spark.driver.extraClassPath")
_COLUMNS = (
    "reading_id string, meter string, region string, kwh decimal(12,3), price decimal(9,4), measured_at timestamp, "
    "received_at timestamp"
)


class Job:
    """The job over one folder of landing files."""

    def __init__(self, spark: SparkSession, landing: Path, root: Path, *, by_day: bool) -> None:
        self._spark, self._landing = spark, landing
        self._by_event, self._by_arrival = (["event_date"], ["arrival_date"]) if by_day else ([], [])
        self._bronze, self._silver, self._gold = (f"{root}/{layer}" for layer in ("bronze", "silver", "gold"))

    def arrival_day(self, day: date) -> None:
        """Bring one arrival day through the layers."""
        spark = self._spark
        batch = spark.read.csv(f"{self._landing}/{day}/*.csv", header=True, schema=_COLUMNS)
        batch = batch.withColumn("event_date", F.to_date("measured_at")).withColumn("arrival_date", F.lit(day))
        batch.write.format("delta").mode("append").partitionBy(*self._by_arrival).save(self._bronze)
        delivered = spark.read.format("delta").load(self._bronze).where(F.col("arrival_date") == day)
        newest = delivered.groupBy("reading_id").agg(F.max_by(F.struct(*delivered.columns), "received_at").alias("row"))
        days = sorted(row[0] for row in delivered.select("event_date").distinct().collect())
        literals = ", ".join(f"DATE'{one_day}'" for one_day in days)
        if not DeltaTable.isDeltaTable(spark, self._silver):
            delivered.limit(0).write.format("delta").partitionBy(*self._by_event).save(self._silver)
        same_row = f"t.event_date IN ({literals}) AND t.event_date = s.event_date AND t.reading_id = s.reading_id"
        (
            DeltaTable.forPath(spark, self._silver)
            .alias("t")
            .merge(newest.select("row.*").alias("s"), same_row)
            .whenMatchedUpdateAll("s.received_at > t.received_at")
            .whenNotMatchedInsertAll()
            .execute()
        )
        touched = spark.read.format("delta").load(self._silver).where(f"event_date IN ({literals})")
        writer = self.daily(touched).write.format("delta").mode("overwrite").partitionBy(*self._by_event)
        if DeltaTable.isDeltaTable(spark, self._gold):
            writer = writer.option("replaceWhere", f"event_date IN ({literals})")
        writer.save(self._gold)

    def daily(self, touched: DataFrame) -> DataFrame:
        """The numbers of some days from their rows."""
        return touched.groupBy("event_date", "region").agg(F.sum("kwh").alias("kwh"), F.count("*").alias("readings"))


def session(*, tuned: bool) -> SparkSession:
    """A session with Delta's defaults; ``tuned``: whose logs of tables are read by two tasks."""
    options = {name: value for name, value in spark_options(Lake(Settings())).items() if name in _BY_HAND}
    options |= {"spark.driver.memory": HEAP, "spark.sql.shuffle.partitions": "8", "spark.ui.showConsoleProgress": "false"}
    if tuned:
        options["spark.databricks.delta.snapshotPartitions"] = "2"  # by default 50 tasks read the log of a table
    builder = SparkSession.builder
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main() -> None:
    """Process the days, print the figures."""
    landing, root, days, *form = sys.argv[1:]
    job = Job(session(tuned="tuned" in form), Path(landing), Path(root), by_day="unpartitioned" not in form)
    print(timed(job.arrival_day, [date.fromisoformat(day) for day in days.split(",")]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
