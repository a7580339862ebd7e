"""The as-of join in Spark: adds to each event the last row of a history that had begun by the event.

A DataFrame in, a DataFrame out.

The rows of a training set: events with their features and, optionally, their labels. With Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.contracts import sql_expressions
from lakehouse.contracts.training_set import KEY_PREFIX
from lakehouse.ledger import ingestions
from lakehouse.spark import zones
from lakehouse.spark.session import sized_for
from lakehouse.training_sets import histories, labels, records
from lakehouse.training_sets.histories import BEGINS, ENDS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date, datetime

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.training_set import Label, Reading, TrainingSetContract
    from lakehouse.lake import Lake
    from lakehouse.training_sets.records import Knowledge


def with_last(events: DataFrame, history: DataFrame, on: Mapping[str, str], at: str, begins: str) -> DataFrame:
    """The events, each once, with the columns of the last history row that began at or before the event.

    Events and history are sorted together, so the cost is one sort, however many history rows an event has. Without an earlier
    row the columns are NULL. NULL in a column of ``on`` equals NULL.

    :param on: for each key column of the history, the event column with the same value; the history's other columns are added.
    :param at: the event column with the time; ``begins`` is the history's column.
    """
    brought = [name for name in history.columns if name not in {*on, begins}]
    keys = [f"_key_{number}" for number in range(len(on))]
    row, value = F.struct(*events.columns), F.struct(*brought)
    ours = events.select(
        *(F.col(column).alias(key) for key, column in zip(keys, on.values())),
        F.col(at).alias("_time"),
        F.lit(1).alias("_is_event"),
        row.alias("_event"),
    )
    theirs = history.select(
        *(F.col(column).alias(key) for key, column in zip(keys, on)),
        F.col(begins).alias("_time"),
        F.lit(0).alias("_is_event"),
        value.alias("_value"),
    )
    so_far = Window.partitionBy(*keys).orderBy("_time", "_is_event").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    last = F.last("_value", ignorenulls=True).over(so_far)
    joined = ours.unionByName(theirs, allowMissingColumns=True).withColumn("_value", last).where(F.col("_is_event") == 1)
    return joined.select("_event.*", *(F.col(f"_value.{name}").alias(name) for name in brought))


DAY = timedelta(days=1)


@dataclass(frozen=True)
class Span:
    """A range of event days: from ``first`` until before ``until``."""

    first: date
    until: date


def events(
    spark: SparkSession,
    lake: Lake,
    catalog: Catalog,
    contract: TrainingSetContract,
    known: Knowledge,
    span: Span,
    reading: Reading,
    keys: pa.Array | None = None,
) -> DataFrame:
    """The events of ``span`` with their features: record_key, event_ts, event_date, the features, and the join columns.

    An event without a time of day counts as the first moment of its day in UTC.

    :param keys: include only the events of these keys.
    """
    rows = _by_themselves(spark, lake, catalog, contract, known, span, reading, keys)
    for join in contract.features.joins:
        dimension = catalog.sources[join.dimension]
        history = histories.of_dimension(spark, lake, dimension, join, known, reading)
        on = {f"_of_{name}": f"{KEY_PREFIX}{column}" for name, column in zip(dimension.primary_key, join.on)}
        rows = with_last(rows, history, on, "event_ts", BEGINS)
        has_ended = F.col(ENDS) <= F.col("event_ts")
        rows = _emptied_where(rows, has_ended, join.names).drop(ENDS)
    for entry in contract.features.metrics:
        history = histories.of_metric(spark, lake, catalog, entry, known, reading)
        on = {f"_of_{name}": f"{KEY_PREFIX}{column}" for name, column in entry.on.items()}
        rows = with_last(rows, history, on, "event_ts", BEGINS)
        if entry.max_age is not None:
            age = F.expr(f"interval {int(entry.max_age.total_seconds())} seconds")
            rows = _emptied_where(rows, F.col(ENDS) < F.col("event_ts") - age, [name for _, name in entry.measures])
        rows = rows.drop(ENDS)
    return rows.select(
        "record_key",
        "event_ts",
        "event_date",
        *contract.features.names,
        *(f"{KEY_PREFIX}{name}" for name in contract.key_columns),
    )


def _by_themselves(
    spark: SparkSession,
    lake: Lake,
    catalog: Catalog,
    contract: TrainingSetContract,
    known: Knowledge,
    span: Span,
    reading: Reading,
    keys: pa.Array | None = None,
) -> DataFrame:
    """The events with the features from their own columns, and the columns for joins."""
    source = catalog.sources[contract.entity.source]
    inputs = known.sources[source.dataset]
    rows = records.events(spark, lake, source, inputs, span.first, span.until, reading, keys)
    if contract.entity.where:
        rows = rows.where(F.expr(contract.entity.where))
    at = F.coalesce(F.col("event_ts"), zones.start_of_day(F.col("event_date"), ZoneInfo(source.clocks.timezone)))
    of_event = [
        F.col(column).alias(column)
        if isinstance(column, str)
        else F.expr(sql_expressions.cast(column.sql, column.type)).alias(column.name)
        for column in contract.features.columns
    ]
    joined_by = [F.col(name).alias(f"{KEY_PREFIX}{name}") for name in contract.key_columns]
    return rows.select("record_key", at.alias("event_ts"), "event_date", *of_event, *joined_by)


def with_labels(
    spark: SparkSession,
    lake: Lake,
    catalog: Catalog,
    contract: TrainingSetContract,
    rows: DataFrame,
    known: Knowledge,
    mature_by: datetime,
) -> DataFrame:
    """The events with a mature label, with ``label`` and ``label_known_at``.

    :param mature_by: events whose label is not mature by this time are left out.
    """
    label = contract.label
    of_events = labels.of_events(spark, lake, catalog.sources[label.source], label, known.sources[label.source])
    is_mature = F.col("event_ts") + F.expr(f"interval {int(label.maturity.total_seconds())} seconds") <= F.lit(mature_by)
    key = F.col(f"{KEY_PREFIX}{label.event_key}")
    joined = rows.where(is_mature).join(of_events, key == of_events["key"], "left").drop("key")
    if label.default is None:
        return joined.where(F.col("label").isNotNull())
    return joined.withColumn("label", F.coalesce("label", _default(label)))


def labelled(
    spark: SparkSession,
    lake: Lake,
    catalog: Catalog,
    contract: TrainingSetContract,
    first: date,
    until: date,
    reading: Reading,
    known_at: datetime | None = None,
) -> pa.Table:
    """The labelled rows of the event days from ``first`` until before ``until``, for the evaluation of a model.

    The rows are sorted by event time and key. They have the knowledge of now, or of ``known_at``.
    """
    known = records.now(lake, contract.sources, known_at)
    with sized_for(spark, lake, many=is_large(lake, contract)):
        rows = events(spark, lake, catalog, contract, known, Span(first, until), reading)
        mature = with_labels(spark, lake, catalog, contract, rows, known, known.published_until)
        return mature.orderBy("event_ts", "record_key").toArrow()


def keys_with_label(
    spark: SparkSession,
    lake: Lake,
    catalog: Catalog,
    contract: TrainingSetContract,
    first: date,
    until: date,
) -> pa.Table:
    """The keys (record_key) of events from ``first`` until before ``until`` whose label is mature now; computes no feature."""
    known = records.now(lake, contract.sources)
    with sized_for(spark, lake, many=is_large(lake, contract)):
        rows = _by_themselves(spark, lake, catalog, contract, known, Span(first, until), contract.reading)
        return with_labels(spark, lake, catalog, contract, rows, known, known.published_until).select("record_key").toArrow()


def unlabelled(
    spark: SparkSession,
    lake: Lake,
    catalog: Catalog,
    contract: TrainingSetContract,
    days: Collection[date],
    known_at: datetime | None = None,
) -> pa.Table:
    """The events of ``days`` with their features as known then, for scoring; sorted by event time and key."""
    known = records.now(lake, contract.sources, known_at)
    span = Span(min(days), max(days) + DAY)
    with sized_for(spark, lake, many=is_large(lake, contract)):
        rows = events(spark, lake, catalog, contract, known, span, "as_known")
        return rows.where(F.col("event_date").isin(sorted(days))).orderBy("event_ts", "record_key").toArrow()


def is_large(lake: Lake, contract: TrainingSetContract) -> bool:
    """Whether the number of events is large enough for Spark to plan for many rows."""
    return ingestions.row_count(lake, contract.entity.source) > lake.settings.local_rows


def _emptied_where(rows: DataFrame, condition: Column, names: Collection[str]) -> DataFrame:
    kept = ~F.coalesce(condition, F.lit(False))
    return rows.withColumns({name: F.when(kept, F.col(name)) for name in names})


def _default(label: Label) -> Column:
    return F.lit(label.default).cast(label.type)
