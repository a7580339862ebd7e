"""The as-of join in Spark: adds to each event the last row of a history that had begun by the event.

A DataFrame in, a DataFrame out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame


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
        F.lit(None).cast(history.select(value.alias("_")).schema[0].dataType).alias("_value"),
    )
    theirs = history.select(
        *(F.col(column).alias(key) for key, column in zip(keys, on)),
        F.col(begins).alias("_time"),
        F.lit(0).alias("_is_event"),
        F.lit(None).cast(events.select(row.alias("_")).schema[0].dataType).alias("_event"),
        value.alias("_value"),
    )
    so_far = Window.partitionBy(*keys).orderBy("_time", "_is_event").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    last = F.last("_value", ignorenulls=True).over(so_far)
    joined = ours.unionByName(theirs).withColumn("_value", last).where(F.col("_is_event") == 1)
    return joined.select("_event.*", *(F.col(f"_value.{name}").alias(name) for name in brought))
