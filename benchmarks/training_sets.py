"""A training set of many events: built from its contract, against an as-of join written by hand over the same tables.

python benchmarks/training_sets.py [--rows 1000000] [--days 200] [--customers 20000]

The set has ten features: three of the event, three attributes of a dimension, and four published numbers of two metrics, all as
known at the event. The job by hand reads the same Bronze and gold tables, takes the first record of each payment, and joins by
one sort for each history; it records neither manifest nor distributions. Both write a Delta table.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.bronze.ingest import Ingest
from lakehouse.contracts import Catalog, MetricContract, SourceContract, TrainingSetContract
from lakehouse.contracts.loader import completed
from lakehouse.contracts.series import Series
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.reproduction import recompute
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.lake import Lake
from lakehouse.ledger import applied_inputs
from lakehouse.settings import Settings
from lakehouse.silver import update as silver_update
from lakehouse.spark.session import sized_for, spark_options
from lakehouse.training_sets import build, labels, tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

START = datetime(2024, 1, 1, tzinfo=timezone.utc)
DELIVERED_DAYS = 20
COUNTRIES = [f"C{number:02}" for number in range(40)]


def source(name: str, fields: dict[str, str], **more: Any) -> SourceContract:
    """A source whose files are Parquet, with the times of event and arrival in columns."""
    keys = {
        "dataset": name,
        "primary_key": [next(iter(fields))],
        "model": {"fields": [{"name": column, "type": kind} for column, kind in fields.items()]},
        "source": {"landing": f"{name}.arrival_date={{arrival_date}}*", "start_date": "2023-12-01", "format": "parquet"},
        "clocks": {"event": "at", "arrival": "arrived_at", "max_ahead": "P999D"},
    }
    return SourceContract.model_validate(keys | more)


SOURCES = {
    "payments": source(
        "payments",
        {
            "payment_id": "string",
            "customer_id": "string",
            "country": "string",
            "shop": "string",
            "amount": "double",
            "items": "int",
        },
    ),
    "customers": source(
        "customers", {"customer_id": "string", "tier": "string", "region": "string", "limit": "int"}, kind="dimension"
    ),
    "labels": source("labels", {"payment_id": "string", "is_fraud": "int"}),
}


def metric(name: str, grain: str) -> MetricContract:
    measures = [
        {"name": "total", "sql": "sum(amount)", "type": "double"},
        {"name": "payments", "sql": "count(*)", "type": "bigint", "additive": True},
    ]
    found = MetricContract.model_validate({"metric": name, "source": "payments", "grain": [grain], "measures": measures})
    return completed(found, SOURCES)


METRICS = {name: metric(name, grain) for name, grain in (("by_country", "country"), ("by_shop", "shop"))}
SET = TrainingSetContract.model_validate(
    {
        "training_set": "training_data",
        "entity": {"source": "payments"},
        "features": {
            "columns": ["amount", "items", {"name": "at_night", "sql": "hour(event_ts) < 6", "type": "boolean"}],
            "joins": [{"dimension": "customers", "on": "customer_id", "columns": ["tier", "region", "limit"]}],
            "metrics": [
                {
                    "metric": "by_country",
                    "on": {"country": "country"},
                    "columns": [{"total": "c_total"}, {"payments": "c_count"}],
                },
                {"metric": "by_shop", "on": {"shop": "shop"}, "columns": [{"total": "s_total"}, {"payments": "s_count"}]},
            ],
        },
        "label": {"source": "labels", "on": "payment_id", "sql": "max(is_fraud)", "default": 0, "maturity": "P1D"},
        "split": {"all": "2024-01-01"},
    }
)


def fill(spark: SparkSession, lake: Lake, rows: int, days: int, customers: int) -> None:
    """Deliver the history in pieces of twenty days, and publish the numbers after each, at the time of then."""
    chance = np.random.default_rng(7)
    at = np.sort(chance.integers(0, days * 86_400, rows))
    columns = {
        "payment_id": pa.array([f"p{number:08}" for number in range(rows)]),
        "customer_id": pa.array([f"k{number}" for number in chance.integers(0, customers, rows)]),
        "country": pa.array(COUNTRIES).take(pa.array(chance.integers(0, len(COUNTRIES), rows))),
        "shop": pa.array([f"s{number}" for number in range(500)]).take(pa.array(chance.integers(0, 500, rows))),
        "amount": pa.array(np.round(chance.gamma(2, 20, rows), 2)),
        "items": pa.array(chance.integers(1, 9, rows).astype(np.int32)),
        "at": _times(at),
        "arrived_at": _times(at + chance.integers(0, 3_600, rows)),
    }
    payments = pa.table(columns)
    changed = np.sort(chance.integers(-20 * 86_400, days * 86_400, customers * 3))
    keys = [f"k{number % customers}" for number in range(customers * 3)]
    of_customers = pa.table(
        {
            "customer_id": pa.array(keys),
            "tier": pa.array(["gold", "silver", "bronze"]).take(pa.array(chance.integers(0, 3, customers * 3))),
            "region": pa.array(["north", "south"]).take(pa.array(chance.integers(0, 2, customers * 3))),
            "limit": pa.array(chance.integers(100, 900, customers * 3).astype(np.int32)),
            "at": _times(changed),
            "arrived_at": _times(changed + chance.integers(0, 5 * 86_400, customers * 3)),
        }
    )
    deliver(spark, lake, "customers", of_customers, START + timedelta(days=days + 5))
    step = DELIVERED_DAYS * 86_400
    for first in range(0, days * 86_400, step):
        within = np.flatnonzero((at >= first) & (at < first + step))
        now = START + timedelta(seconds=first + step + 7_200)
        deliver(spark, lake, "payments", payments.take(pa.array(within)), now)
        for one in METRICS.values():
            publish(spark, lake, one)
    fraud = np.flatnonzero(chance.random(rows) < 0.02)  # noqa: PLR2004 (two in a hundred)
    of_labels = pa.table(
        {
            "payment_id": columns["payment_id"].take(pa.array(fraud)),
            "is_fraud": pa.array(np.ones(len(fraud), np.int32)),
            "at": _times(at[fraud] + 86_400),
            "arrived_at": _times(at[fraud] + 10 * 86_400),
        }
    )
    deliver(spark, lake, "labels", of_labels, START + timedelta(days=days + 20))


def deliver(spark: SparkSession, lake: Lake, name: str, rows: pa.Table, now: datetime) -> None:
    """A file into Bronze and silver."""
    lake.settings.now = now
    path = Path(str(lake.settings.landing), f"{name}.arrival_date={now.date()}.parquet")
    pq.write_table(rows, path)
    Ingest(lake, SOURCES[name], lambda: spark, "run").day(now.date())
    waiting = applied_inputs.pending(lake, name)
    silver_update.update(lake, SOURCES[name], lambda: spark, waiting, "run", [])


def publish(spark: SparkSession, lake: Lake, one: MetricContract) -> None:
    """The numbers that are pending."""
    recompute.remember_contract(lake, one, SOURCES["payments"])
    daily = Series(one)
    pending = find_pending(lake, daily)
    restatement_days.restate(lake, SOURCES["payments"], daily, lambda: spark, pending.starts, Run("run"), pending)


def by_hand(spark: SparkSession, lake: Lake, path: str) -> None:
    """The same rows as a job of its own."""
    bronze = spark.read.format("delta").load(locations.bronze(lake, "payments").address)
    first = Window.partitionBy("record_key").orderBy("arrival_ts", "ingestion_id", "line_number")
    rows = bronze.withColumn("_place", F.row_number().over(first)).where("_place = 1")
    rows = rows.select(
        *("record_key", "event_ts", "customer_id", "country", "shop", "amount", "items"),
        (F.hour("event_ts") < 6).alias("at_night"),  # noqa: PLR2004 (six o'clock)
    )
    customers = spark.read.format("delta").load(locations.bronze(lake, "customers").address)
    usable = Window.partitionBy("customer_id").orderBy("_begins").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    newest = F.max(F.struct("event_ts", "arrival_ts", "tier", "region", "limit")).over(usable)
    history = customers.withColumn("_begins", F.greatest("event_ts", "arrival_ts")).withColumn("_newest", newest)
    history = history.select("customer_id", "_begins", "_newest.tier", "_newest.region", "_newest.limit")
    rows = last(rows, history, "customer_id", ["tier", "region", "limit"])
    for one, prefix in zip(METRICS.values(), "cs"):
        grain = one.grain[0]
        gold = spark.read.format("delta").load(locations.gold(lake, Series(one)).address)
        begins = F.greatest(F.date_add("event_date", 1).cast("timestamp"), F.col("published_at"))
        so_far = Window.partitionBy(grain).orderBy("_begins").rangeBetween(Window.unboundedPreceding, Window.currentRow)
        newest = F.max(F.struct("event_date", "revision", "total", "payments")).over(so_far)
        found = gold.withColumn("_begins", begins).withColumn("_newest", newest)
        names = [f"{prefix}_total", f"{prefix}_count"]
        found = found.select(grain, "_begins", F.col("_newest.total").alias(names[0]), F.col("_newest.payments").alias(names[1]))
        rows = last(rows, found, grain, names)
    of_labels = spark.read.format("delta").load(locations.silver(lake, "labels").address)
    of_labels = of_labels.groupBy(F.col("payment_id").alias("record_key")).agg(F.max("is_fraud").alias("label"))
    rows = rows.join(of_labels, "record_key", "left").withColumn("label", F.coalesce("label", F.lit(0)))
    rows.write.format("delta").save(path)


def last(rows: DataFrame, history: DataFrame, key: str, names: list[str]) -> DataFrame:
    """The as-of join of the job by hand."""
    ours = rows.withColumn("_time", F.col("event_ts")).withColumn("_is_event", F.lit(1))
    theirs = history.withColumnRenamed("_begins", "_time").withColumn("_is_event", F.lit(0))
    both = ours.unionByName(theirs, allowMissingColumns=True)
    so_far = Window.partitionBy(key).orderBy("_time", "_is_event").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    filled = both.withColumns({name: F.last(name, ignorenulls=True).over(so_far) for name in names})
    return filled.where("_is_event = 1").drop("_time", "_is_event")


def _times(seconds: Any) -> pa.Array:
    begin = int(START.timestamp())
    return pa.array((np.asarray(seconds, np.int64) + begin) * 1_000_000, pa.int64()).cast(pa.timestamp("us", "UTC"))


def main() -> None:
    """Print the seconds of both and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=200)
    parser.add_argument("--customers", type=int, default=20_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        landing = Path(folder, "landing")
        landing.mkdir()
        lake = Lake(Settings(root=f"{folder}/lake", landing=f"{landing}"))
        builder = SparkSession.builder.appName("training sets")
        for name, value in spark_options(lake).items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        begun = time.monotonic()
        fill(spark, lake, options.rows, options.days, options.customers)
        print(f"history of {options.rows:,} payments on {options.days} days delivered in {time.monotonic() - begun:.0f} s")
        catalog = Catalog(SOURCES, METRICS, {SET.name: SET})
        lake.settings.now = START + timedelta(days=options.days + 30)
        labels.release(lake, SOURCES["labels"], "v1.0", by="benchmark", notes="all")
        times = {"by hand": list[float](), "by contract": list[float]()}
        for number in range(2):  # in turn, the first time also warms the JVM
            begun = time.monotonic()
            with sized_for(spark, lake, many=True):
                by_hand(spark, lake, f"{folder}/by_hand_{number}")
            times["by hand"].append(time.monotonic() - begun)
            begun = time.monotonic()
            made = build.build(spark, lake, catalog, SET, build.SetRequest(f"v1.{number}", by="benchmark", notes="all"))
            times["by contract"].append(time.monotonic() - begun)
        for name, seconds in times.items():
            print(f"{name}: {', '.join(f'{second:.1f}' for second in seconds)} s")
        print(f"ratio {times['by contract'][-1] / times['by hand'][-1]:.2f}")
        ours = tables.read_set(lake, made, ["record_key", *SET.features.names, "label"])
        theirs = spark.read.format("delta").load(f"{folder}/by_hand_1").select(*ours.column_names).toArrow()
        order = [("record_key", "ascending")]
        same = ours.sort_by(order).cast(theirs.schema).equals(theirs.sort_by(order).cast(theirs.schema))
        print(f"{made.about['rows']:,} rows, the same by hand: {same}")
        spark.stop()


if __name__ == "__main__":
    main()
