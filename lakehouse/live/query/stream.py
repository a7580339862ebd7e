"""The streaming query of a metric: Bronze as a stream, aggregated behind a watermark, each batch written once.

The counted rows are defined in ``counted_rows``, the dropped rows in ``late_rule``. Starting and stopping belongs to ``run``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.errors import LakehouseError
from lakehouse.live import batch_log, table
from lakehouse.live.batch_log import LiveBatch
from lakehouse.live.query import counted_rows, late_rule, rows_of_batch
from lakehouse.spark import dataframes
from lakehouse.spark.session import in_zone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from lakehouse.contracts.live.speed_layer import SpeedLayer
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.live.query.checkpoint import LiveQuery
    from lakehouse.settings import Settings


class NotLiveError(LakehouseError):
    """A metric has no speed layer. The message says what to add to its contract."""


def started(
    spark: SparkSession, settings: Settings, metric: MetricContract, contract: SourceContract, query: LiveQuery, *, ends: bool
) -> StreamingQuery:
    """Start the stream of a metric where its checkpoint ends.

    :param ends: whether the stream ends when it has read all rows now in Bronze.
    """
    terms = _terms(metric)
    bronze = (
        spark.readStream.format("delta")
        .option("startingVersion", query.starts_at)
        .option("maxFilesPerTrigger", terms.max_files_per_trigger)
        .load(locations.bronze(settings, contract.dataset))
    )

    def write_batch(numbers: DataFrame, batch: int) -> None:
        _write(settings, metric, contract, query, numbers.toArrow(), batch)

    every = f"{round(terms.trigger.total_seconds() * 1000)} milliseconds"
    with in_zone(spark, metric.zone):  # the query keeps the options of its start
        writer = numbers_of(bronze.select(*counted_rows.columns_read(metric, contract)), metric, contract).writeStream
        writer = writer.outputMode("update").foreachBatch(write_batch).option("checkpointLocation", str(query.of_spark))
        return (writer.trigger(availableNow=True) if ends else writer.trigger(processingTime=every)).start()


def numbers_of(bronze: DataFrame, metric: MetricContract, contract: SourceContract) -> DataFrame:
    """The numbers of a stream of Bronze: event_date, the grain, ``window_end``, the measures and row_count."""
    rows = counted_rows.in_windows(counted_rows.counted(bronze, contract), metric)
    ends = counted_rows.window_end(metric, contract)
    rows = late_rule.behind_watermark(rows, counted_rows.EVENT_TIME, ends, counted_rows.WINDOW_END, _terms(metric).watermark)
    # The state of a running stream holds these aggregates: sums of doubles are rounded here, and exact in the published number.
    measures = [F.expr(measure.computed_sql).alias(measure.name) for measure in metric.measures]
    count = F.count(F.lit(1)).alias("row_count")
    return rows.groupBy("event_date", *metric.grain, counted_rows.WINDOW_END).agg(*measures, count)


def _terms(metric: MetricContract) -> SpeedLayer:
    """The terms on which the stream of a metric runs.

    :raises NotLiveError: for a metric without a speed layer.
    """
    if metric.live is None:
        msg = f"{metric.name} has no speed layer; add 'live: true' to its contract"
        raise NotLiveError(msg)
    return metric.live


def _write(
    settings: Settings, metric: MetricContract, contract: SourceContract, query: LiveQuery, numbers: pa.Table, batch: int
) -> None:
    """Record the rows that a batch has read, then write its numbers; each once, however often the batch is repeated."""
    of_batch, before, now = query.offsets(batch), query.before(batch), settings.clock()
    bronze = table_io.open_table(locations.bronze(settings, contract.dataset), settings.storage_options)
    lines = [] if bronze is None else rows_of_batch.lines_between(bronze, before.until, of_batch.until)
    read = [
        LiveBatch(metric.name, query.query, batch, *own, before.watermark, of_batch.watermark, len(numbers), now) for own in lines
    ]
    batch_log.record(settings, read)
    about = {"updated_at": now, "batch": batch, "watermark": of_batch.watermark, "query": query.query}
    table.write(settings, metric, query.query, batch, _with_columns(numbers, about))


def _with_columns(numbers: pa.Table, about: Mapping[str, Any]) -> pa.Table:
    """The numbers of a batch in the columns of the live table, which are the same for each batch."""
    for name, value in about.items():
        numbers = numbers.append_column(name, pa.repeat(pa.scalar(value, table.OF_LIVE.field(name).type), len(numbers)))
    return dataframes.in_utc(numbers)
