"""Streams of live numbers as runs of Dagster: a job per managed metric, and the sensor that keeps it running.

A run lasts until it is terminated, or until ``lakehouse live stop``. The computation belongs to ``lakehouse.live``.
"""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import dagster as dg

from lakehouse.live import status, stream
from lakehouse.orchestration import plan_runs
from lakehouse.orchestration.automation import looks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakehouse.contracts import Catalog, MetricContract, SourceContract
    from lakehouse.lake import Lake

#: Set on the runs of streams: the metric. The alert ``live_stopped`` reports their failures and ends with the next start.
LIVE_TAG = "lakehouse/live"
#: The interval of the sensor, in seconds.
_LOOK_SECONDS = 30
#: The pause after a run that failed soon, in seconds; it doubles with each further failure, up to the longest pause.
_PAUSE_SECONDS, _LONGEST_SECONDS = 30, 3600
#: A failure after this many seconds of work does not count as a failed attempt.
_SOON_SECONDS = 600
#: The number of runs examined: after that many failures the pause is the longest.
_RUNS = 8
_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


def job(lake: Lake, metric: MetricContract, contract: SourceContract) -> dg.JobDefinition:
    """Runs the stream of a metric until it is stopped."""
    name = _name(metric)

    @dg.op(name=f"run_{name}", pool=name, required_resource_keys={"spark"}, description="Runs the stream until it is stopped.")
    def run_stream() -> None:
        context = dg.OpExecutionContext.get()
        with _interrupts() as interrupts:

            def session() -> SparkSession:
                if lake.settings.spark_remote is not None:
                    msg = "the stream runs in a Spark of its own, not in the Connect server of LAKEHOUSE_SPARK_REMOTE; unset it"
                    raise dg.Failure(msg)
                started: SparkSession = context.resources.spark.spark_session
                interrupts.take_over()  # PySpark installs its own handler
                return started

            last = stream.run(session, lake, metric, contract, is_stopped=interrupts.received.is_set)
        context.add_output_metadata({"batch": last.batch, "watermark": f"{last.watermark}", "late_rows": last.dropped})
        if interrupts.received.is_set():
            msg = "the run was terminated; the stream has stopped behind a batch"
            raise dg.DagsterExecutionInterruptedError(msg)

    about = f"The stream of live numbers of {metric.name}."

    @dg.job(name=name, executor_def=dg.in_process_executor, tags={LIVE_TAG: metric.name}, description=about)
    def stream_job() -> None:
        run_stream()

    return stream_job


def kinds(lake: Lake, catalog: Catalog) -> list[looks.LookKind]:
    """The kind ``live``, if there are managed metrics: it starts streams that are not running and that nobody has stopped."""
    managed = [metric for metric in catalog.metrics.values() if metric.live is not None and metric.live.managed]
    jobs = [job(lake, metric, catalog.sources[metric.source]) for metric in managed]
    of_each = [_look(metric) for metric in managed]
    return [looks.LookKind("live", "Keeps the streams of live numbers running.", of_each, _LOOK_SECONDS, jobs)] if of_each else []


def _look(metric: MetricContract) -> looks.Look:
    name, nothing = _name(metric), "a run of the stream is in progress"

    def take(context: looks.LookContext, lake: Lake) -> list[looks.Answer]:
        if "://" in lake.root:
            return [dg.SkipReason("the speed layer needs a lake in a folder")]
        if context.instance.get_runs_count(dg.RunsFilter(job_name=name, statuses=plan_runs.RUNNING)):
            return [dg.SkipReason(nothing)]
        if status.is_running(lake, metric.name):
            return [dg.SkipReason("a process outside Dagster runs the stream")]
        if status.is_to_stop(lake, metric.name):
            return [dg.SkipReason(f"somebody has stopped it; start the job {name}, or 'lakehouse live start {metric.name}'")]
        pause = _pause(context.instance, name)
        if pause > 0:
            return [dg.SkipReason(f"its last run failed soon; another one starts in {pause:.0f} seconds")]
        return [dg.RunRequest(job_name=name, tags=plan_runs.NO_RETRIES)]

    return looks.Look(name, f"gold/{metric.name}", f"metric/{metric.name}", nothing, take)


class _Interrupts:
    """Collects signals that ask the process to end instead of raising them, because Python in a batch must not be interrupted."""

    def __init__(self) -> None:
        self.received = threading.Event()
        self._before: dict[signal.Signals, Any] = {}

    def take_over(self) -> None:
        """Handle the signals, if this is the main thread, which alone can."""
        if threading.current_thread() is threading.main_thread():
            for name in (signal.SIGINT, signal.SIGTERM):
                self._before.setdefault(name, signal.getsignal(name))
                signal.signal(name, lambda *_: self.received.set())

    def give_back(self) -> None:
        """Restore the previous signal handlers."""
        for name, handler in self._before.items():
            signal.signal(name, handler)


@contextmanager
def _interrupts() -> Iterator[_Interrupts]:
    interrupts = _Interrupts()
    try:
        yield interrupts
    finally:
        interrupts.give_back()


def _name(metric: MetricContract) -> str:
    return f"live_{metric.name}"


def _pause(instance: dg.DagsterInstance, name: str) -> float:
    """The seconds left before another run may start, after runs that failed soon after their start."""
    ended = instance.get_run_records(dg.RunsFilter(job_name=name, statuses=_ENDED), limit=_RUNS)
    failures = list(takewhile(_failed_soon, ended))
    if not failures:
        return 0
    pause: float = min(_PAUSE_SECONDS << (len(failures) - 1), _LONGEST_SECONDS)
    return _ended_at(failures[0]) + pause - time.time()


def _failed_soon(record: dg.RunRecord) -> bool:
    began = record.start_time if record.start_time is not None else _ended_at(record)
    return record.dagster_run.is_failure and _ended_at(record) - began < _SOON_SECONDS


def _ended_at(record: dg.RunRecord) -> float:
    return record.end_time if record.end_time is not None else record.create_timestamp.timestamp()
