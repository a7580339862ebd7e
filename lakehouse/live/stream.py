"""The stream of a metric: Bronze as a stream, aggregated behind a watermark; each batch is written once.

The stream runs in this process: from its checkpoint until it is stopped, or until it has read all of Bronze. The rows that it
counts are chosen by Spark expressions that work for a stream and for a table. The rule by which the stream drops a row as late is
Spark's rule for aggregations behind a watermark, as measured for Spark 4.2. The state of a stream belongs to ``status``.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.contracts.windows import EventWindow
from lakehouse.delta import commit_log, layout
from lakehouse.delta.columns import bronze_columns, silver_columns
from lakehouse.errors import LakehouseError
from lakehouse.gold.restatement import silver_rows
from lakehouse.live import batches, checkpoint, status, table
from lakehouse.live.batches import LiveBatch
from lakehouse.live.status import StreamStatus
from lakehouse.spark import commits as spark_commits
from lakehouse.spark import dataframes
from lakehouse.spark.session import in_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from deltalake import DeltaTable
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from lakehouse.contracts.metric import MetricContract, SpeedLayer
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.live.checkpoint import LiveQuery


#: The mark by which Spark recognizes the grouping column that its watermark applies to. Spark gives it to the column that
#: ``withWatermark`` names and to ``window`` structs; the ends of windows that are aligned at local midnights need it as well.
_MARK = "spark.watermarkDelayMs"


def behind_watermark(rows: DataFrame, event_time: str, ends: Column, window_end: str, delay: timedelta) -> DataFrame:
    """Rows with the end of their window as the column that the watermark applies to.

    :param event_time: the column that advances the watermark.
    :param ends: the end of a row's window; the column gets the name ``window_end``.
    """
    milliseconds = round(delay.total_seconds() * 1000)
    marked = rows.withWatermark(event_time, f"{milliseconds} milliseconds")
    return marked.withColumn(window_end, ends.alias(window_end, metadata={_MARK: milliseconds}))


def is_dropped(window_end: Column, watermark_before: Column) -> Column:
    """Whether a batch drops the rows of a window; never NULL.

    :param watermark_before: the watermark of the previous batch; NULL in the first batch.
    """
    return F.coalesce(window_end <= watermark_before, F.lit(False))


#: The moment at which the window of a row has ended.
WINDOW_END = "window_end"
#: The event time that advances the watermark. A sender's clock that is ahead must not close the windows of all other senders.
EVENT_TIME = "event_time"


def columns_read(metric: MetricContract, contract: SourceContract) -> list[str]:
    """The columns of Bronze that the stream reads."""
    names = metric.columns_read([name for name, _ in silver_columns(contract)])
    of_marker = [contract.marker_field.name] if contract.marker_field else []
    return list(dict.fromkeys([*names, "event_ts", "arrival_ts", "change_op", "malformed_reason", *of_marker]))


def inserts(bronze: DataFrame, contract: SourceContract) -> DataFrame:
    """The records of the kind that the stream counts: well-formed inserts that are not marker records."""
    rows = bronze.where("change_op = 'insert' AND malformed_reason IS NULL")
    if contract.marker is None or contract.marker_field is None:
        return rows
    return rows.where(~F.col(contract.marker_field.name).cast("string").eqNullSafe(contract.marker.value))


def counted(bronze: DataFrame, contract: SourceContract) -> DataFrame:
    """The rows that the stream counts unless they are late, with :data:`EVENT_TIME`."""
    rows = inserts(bronze, contract).where("event_ts IS NOT NULL AND event_date IS NOT NULL")
    return rows.withColumn(EVENT_TIME, F.least("event_ts", "arrival_ts"))


def in_windows(rows: DataFrame, metric: MetricContract) -> DataFrame:
    """Rows in each of their windows, or on their event day; see ``gold.restatement.silver_rows``."""
    return silver_rows.with_windows(rows, metric.event_window) if metric.event_window else rows


def window_end(metric: MetricContract, contract: SourceContract) -> Column:
    """When the window of a row of :func:`in_windows` has ended; for a metric without windows, when its event day has."""
    if isinstance(metric.event_window, EventWindow):
        return silver_rows.window_ends(metric.event_window)
    return silver_rows.next_midnight(ZoneInfo(contract.clocks.timezone))


class NotLiveError(LakehouseError):
    """A metric has no speed layer. The message says what to add to its contract."""


def started(
    spark: SparkSession, lake: Lake, metric: MetricContract, contract: SourceContract, query: LiveQuery, *, ends: bool
) -> StreamingQuery:
    """Start the stream of a metric where its checkpoint ends.

    :param ends: whether the stream ends when it has read all rows now in Bronze.
    """
    terms = _terms(metric)
    bronze = (
        spark.readStream.format("delta")
        .option("startingVersion", query.starts_at)
        .option("maxFilesPerTrigger", terms.max_files_per_trigger)
        .load(locations.bronze(lake, contract.dataset).address)
    )

    def write_batch(numbers: DataFrame, batch: int) -> None:
        _write(lake, metric, contract, query, numbers.toArrow(), batch)

    every = f"{round(terms.trigger.total_seconds() * 1000)} milliseconds"
    # Where the days of Bronze share files since a version, it has other partition columns, of which the stream reads none.
    spark.conf.set("spark.databricks.delta.streaming.unsafeReadOnPartitionColumnChanges.enabled", "true")
    with in_zone(spark, metric.zone):  # the query keeps the options of its start
        writer = numbers_of(bronze.select(*columns_read(metric, contract)), metric, contract).writeStream
        writer = writer.outputMode("update").foreachBatch(write_batch).option("checkpointLocation", str(query.of_spark))
        return (writer.trigger(availableNow=True) if ends else writer.trigger(processingTime=every)).start()


def numbers_of(bronze: DataFrame, metric: MetricContract, contract: SourceContract) -> DataFrame:
    """The numbers of a stream of Bronze: event_date, the grain, ``window_end``, the measures and row_count."""
    rows = in_windows(counted(bronze, contract), metric)
    ends = window_end(metric, contract)
    rows = behind_watermark(rows, EVENT_TIME, ends, WINDOW_END, _terms(metric).watermark)
    # The state of a running stream holds these aggregates: sums of doubles are rounded here, and exact in the published number.
    measures = [F.expr(measure.computed_sql).alias(measure.name) for measure in metric.measures]
    count = F.count(F.lit(1)).alias("row_count")
    return rows.groupBy("event_date", *metric.grain, WINDOW_END).agg(*measures, count)


def _terms(metric: MetricContract) -> SpeedLayer:
    """The terms on which the stream of a metric runs.

    :raises NotLiveError: for a metric without a speed layer.
    """
    if metric.live is None:
        msg = f"{metric.name} has no speed layer; add 'live: true' to its contract"
        raise NotLiveError(msg)
    return metric.live


def _write(lake: Lake, metric: MetricContract, contract: SourceContract, query: LiveQuery, numbers: pa.Table, batch: int) -> None:
    """Record the rows that a batch has read, then write its numbers; each once, however often the batch is repeated."""
    checkpoint.require_commits_read(lake, metric, contract, query)
    of_batch, before, now = query.offsets(batch), query.before(batch), lake.now()
    bronze = locations.bronze(lake, contract.dataset).open()
    lines = [] if bronze is None else batches.lines_between(bronze, before.until, of_batch.until)
    read = [
        LiveBatch(metric.name, query.query, batch, *own, before.watermark, of_batch.watermark, len(numbers), now) for own in lines
    ]
    batches.record(lake, read)
    about = {"updated_at": now, "batch": batch, "watermark": of_batch.watermark, "query": query.query}
    table.write(lake, metric, query.query, batch, _with_columns(numbers, about))
    if bronze is not None:
        query.record_read(of_batch.until, bronze)


def _with_columns(numbers: pa.Table, about: Mapping[str, Any]) -> pa.Table:
    """The numbers of a batch in the columns of the live table, which are the same for each batch."""
    for name, value in about.items():
        numbers = numbers.append_column(name, pa.repeat(pa.scalar(value, table.OF_LIVE.field(name).type), len(numbers)))
    return dataframes.in_utc(numbers)


#: The interval, in seconds, at which a running stream is checked.
_LOOK_SECONDS = 0.5
_SHORT_SECONDS = 0.02
#: The number of commits of Bronze that are read at first; then more are read.
_FEW_COMMITS = 64


class StreamFailedError(LakehouseError):
    """The stream of a metric has failed. The message has Spark's reason."""


def run(
    session: Callable[[], SparkSession],
    lake: Lake,
    metric: MetricContract,
    contract: SourceContract,
    *,
    ends: bool = False,
    is_stopped: Callable[[], bool] = lambda: False,
) -> StreamStatus:
    """Run the stream until it is stopped; returns its last status.

    :param ends: whether it ends when it has read what Bronze holds now.
    :param is_stopped: is called about twice a second, in addition to ``status.is_to_stop``.
    :raises LiveCheckpointError: when the live numbers come from another checkpoint than the contract's.
    :raises AlreadyLiveError: when another process runs it.
    :raises StreamFailedError: when it fails.
    """
    with status.running(lake, metric.name):
        now = lake.now()
        known = StreamStatus(metric.name, os.getpid(), now, now)
        try:
            query = checkpoint.opened(lake, metric, contract, _starts_at(lake, metric, contract))
            status.write(lake, known)
            running = started(session(), lake, metric, contract, query, ends=ends)
        except Exception as problem:
            status.write(lake, replace(known, state="failed", problem=f"{problem}".partition("\n")[0]))
            raise
        try:
            while not (running.awaitTermination(_LOOK_SECONDS) or is_stopped() or status.is_to_stop(lake, metric.name)):
                known = _written(lake, known, running)
            _stop(running)
        except StreamingQueryException as failure:
            reason = f"{failure}".splitlines()[0]
            status.write(lake, replace(known, state="failed", problem=reason, written_at=lake.now()))
            msg = f"the stream of {metric.name} has failed: {reason}"
            raise StreamFailedError(msg) from failure
        known = replace(_written(lake, known, running), state="stopped", written_at=lake.now())
        status.write(lake, known)
        return known


def rebuild(session: Callable[[], SparkSession], lake: Lake, metric: MetricContract, contract: SourceContract) -> StreamStatus:
    """Compute the live numbers from Bronze again, with a new checkpoint; ends when all rows now in Bronze are read.

    Bronze is read as far back as live numbers are kept (``live.keep``). If it stops at any point, repeat it.
    """
    with status.running(lake, metric.name):
        checkpoint.remove(lake, metric)
        table.clear(lake, metric)
        checkpoint.created(checkpoint.folder_of(lake, metric, contract), _starts_at(lake, metric, contract))
    return run(session, lake, metric, contract, ends=True)


def _written(lake: Lake, known: StreamStatus, running: StreamingQuery) -> StreamStatus:
    """The status updated with Spark's later reports about batches, and written if there are any."""
    reports = [report for report in running.recentProgress if report["batchId"] > known.batch]
    if not reports:
        return known
    sums = {name: getattr(known, name) + sum(each[name] for each in map(status.counts, reports)) for name in status.SUMS}
    with_rows = next((report for report in reversed(reports) if report["numInputRows"]), None)
    rates = {} if with_rows is None else status.rates(with_rows)
    changed = replace(known, **status.of_progress(reports[-1]), **rates, **sums, written_at=lake.now())
    status.write(lake, changed)
    return changed


def _stop(running: StreamingQuery) -> None:
    """Stop between two batches: interrupting Python during a batch ends in a stack overflow in Spark."""
    while running.isActive and running.status["isTriggerActive"]:
        time.sleep(_SHORT_SECONDS)
    running.stop()


def _starts_at(lake: Lake, metric: MetricContract, contract: SourceContract) -> int:
    """The first version of Bronze that a new stream reads: live numbers of older commits would have expired."""
    stored = locations.bronze(lake, contract.dataset)
    bronze = spark_commits.table_of(stored, bronze_columns(contract), *layout.of_bronze(lake))
    kept = metric.live.keep if metric.live else timedelta(0)
    return _first_since(bronze, lake.now() - kept)


def _first_since(table_read: DeltaTable, moment: datetime) -> int:
    """The first version that was committed after ``moment``; the newest version if none was."""
    milliseconds, looked_at = moment.timestamp() * 1000, _FEW_COMMITS
    while True:
        after = max(table_read.version() - looked_at, -1)
        commits = commit_log.history(table_read, after)
        recent: list[int] = [commit["version"] for commit in commits if commit["timestamp"] > milliseconds]
        if after < 0 or len(recent) < len(commits) or len(commits) < looked_at:
            return min(recent, default=table_read.version())
        looked_at *= 4
