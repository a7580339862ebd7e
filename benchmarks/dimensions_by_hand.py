"""The job of ``dimensions.py`` that one writes by hand: intervals by a window function, and a join by key and time.

    python benchmarks/dimensions_by_hand.py LANDING ROOT DAY [tuned]

A late change of a meter would not reach its numbers.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.window import Window
from volume_by_hand import Job, session
from volume_files import seconds_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHANGES = "meter_id string, tariff string, changed_at timestamp, received_at timestamp"


class JoiningJob(Job):
    """The job whose numbers are by tariff."""

    def __init__(self, spark: SparkSession, landing: Path, root: Path) -> None:
        super().__init__(spark, landing / "readings", root)
        self._spark, self._meters, self._root = spark, landing / "meters", root

    def changes(self, day: date) -> None:
        """Bring one arrival day of meters to Bronze and make all intervals again."""
        spark, bronze = self._spark, f"{self._root}/bronze_meters"
        batch = spark.read.csv(f"{self._meters}/{day}/*.csv", header=True, schema=_CHANGES).withColumn("arrival_date", F.lit(day))
        batch.write.format("delta").mode("append").partitionBy("arrival_date").save(bronze)
        of_key = Window.partitionBy("meter_id").orderBy("changed_at")
        newest = spark.read.format("delta").load(bronze).groupBy("meter_id", "changed_at")
        rows = newest.agg(F.max_by("tariff", "received_at").alias("tariff"))
        intervals = rows.withColumn("valid_from", F.col("changed_at")).withColumn("valid_to", F.lead("changed_at").over(of_key))
        intervals.write.format("delta").mode("overwrite").save(f"{self._root}/silver_meters")

    def daily(self, touched: DataFrame) -> DataFrame:
        """The numbers of some days by tariff."""
        side = self._spark.read.format("delta").load(f"{self._root}/silver_meters")
        is_valid = (touched.measured_at >= side.valid_from) & (side.valid_to.isNull() | (touched.measured_at < side.valid_to))
        joined = touched.join(side, (touched.meter == side.meter_id) & is_valid, "left")
        by_tariff = joined.groupBy("event_date", F.coalesce("tariff", F.lit("unknown")).alias("tariff"))
        return by_tariff.agg(F.sum("kwh").alias("kwh"), F.count("*").alias("readings"))


def main() -> None:
    """Process the day, print the figures."""
    landing, root, day, *tuned = sys.argv[1:]
    spark, load = session(tuned=bool(tuned)), date.fromisoformat(day)
    job = JoiningJob(spark, Path(landing), Path(root))
    seconds = {"meters": seconds_of(lambda: job.changes(load)), "readings": seconds_of(lambda: job.arrival_day(load))}
    seconds["both"] = round(sum(seconds.values()), 1)
    totals = spark.read.format("delta").load(f"{root}/gold").groupBy("tariff").agg(F.sum("readings")).collect()
    print(json.dumps(seconds | {"totals": sorted(map(list, totals))}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
