"""Gold: a metric's number per event day and grain, computed from silver; days that come out equal are not written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.domain.days import reach_back
from lakehouse.ledger import store
from lakehouse.tables import changes, delta, frames, silver
from lakehouse.tables.session import sized_for

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.settings import Settings


def path(settings: Settings, metric: str) -> str:
    """The address of the metric's gold table."""
    return settings.table("gold", metric)


def compute(rows: DataFrame, metric: MetricContract, days: Collection[date], grain: list[str] | None = None) -> DataFrame:
    """The metric on ``days``: columns event_date, the grain, the measures, and row_count (the silver rows behind them).

    :param rows: silver rows, at least of the days that the window covers.
    :param grain: another grain than the contract's.
    """
    if metric.window > 1:
        covered = F.explode(F.sequence("event_date", F.date_add("event_date", metric.window - 1)))
        rows = rows.withColumn("_day", covered).drop("event_date").withColumnRenamed("_day", "event_date")
    measures = [F.expr(f"cast(({measure.sql}) as {measure.type})").alias(measure.name) for measure in metric.measures]
    by = ["event_date", *(metric.grain if grain is None else grain)]
    wanted = rows.where(f"event_date IN ({delta.day_literals(days)})")
    return wanted.groupBy(*by).agg(*measures, F.count(F.lit(1)).alias("row_count"))


def restate(
    spark: SparkSession, settings: Settings, metric: MetricContract, days: Collection[date], why: dict[str, Any]
) -> set[date]:
    """Compute days from silver and write those whose content differs from what gold holds, in one commit.

    The numbers pass through this process: a day of gold is what people look at, and fits into memory.

    :returns: the days written.
    """
    with sized_for(spark, settings, many=_rows_at_most(settings, metric, days) > settings.local_rows):
        return _restate(spark, settings, metric, days, why)


def _restate(
    spark: SparkSession, settings: Settings, metric: MetricContract, days: Collection[date], why: dict[str, Any]
) -> set[date]:
    target = path(settings, metric.metric)
    wanted = compute(silver_rows(spark, settings, metric, days), metric, days).toArrow()
    if delta.version(settings, target) < 0:
        delta.create(spark, target, frames.local(spark, wanted.slice(0, 0)).schema, "event_date", change_feed=True)
    current = store.read(target, wanted.column_names, {"event_date": days}, settings.storage_options)
    different = changes.differing_days(current, wanted)
    if different:
        rows = wanted.filter(pc.is_in(wanted["event_date"], pa.array(sorted(different), pa.date32())))
        delta.replace_days(frames.local(spark, rows).coalesce(1), target, different, why)
    return different


def _rows_at_most(settings: Settings, metric: MetricContract, days: Collection[date]) -> int:
    table = store.open_table(silver.path(settings, metric.source), settings.storage_options)
    return 0 if table is None else store.rows_at_most(table, {"event_date": source_days(metric, days)})


def silver_rows(spark: SparkSession, settings: Settings, metric: MetricContract, days: Collection[date]) -> DataFrame:
    """The silver rows that the numbers of ``days`` are made from; files of other days are not read."""
    target = silver.path(settings, metric.source)
    table = store.open_table(target, settings.storage_options)
    columns = [] if table is None else [field.name for field in table.schema().fields]
    return frames.scan(spark, settings, target, columns, {"event_date": source_days(metric, days)})


def source_days(metric: MetricContract, days: Collection[date]) -> list[date]:
    """The silver days behind the numbers of ``days``."""
    return sorted(reach_back(days, metric.window))
