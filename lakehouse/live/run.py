"""Runs the stream of a metric in this process: from its checkpoint until it is stopped, or until it has read all of Bronze."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

from lakehouse import locations
from lakehouse.delta import commit_log, partition_writer
from lakehouse.delta.columns import bronze_columns
from lakehouse.errors import LakehouseError
from lakehouse.live import checkpoint, status, stream, table
from lakehouse.live.status import StreamStatus
from lakehouse.spark import commits as spark_commits

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from deltalake import DeltaTable
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


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
            running = stream.started(session(), lake, metric, contract, query, ends=ends)
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
    bronze = spark_commits.table_of(stored, bronze_columns(contract), "arrival_date", partition_writer.APPEND_ONLY)
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
