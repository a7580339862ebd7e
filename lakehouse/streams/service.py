"""Repeats the ingestion of a source until all data is ingested, or until it is stopped.

The messages of a topic are ingested in micro-batches. The files of landing are ingested in a similar way: stable files first,
through the ingestion of files, and then those that have become stable meanwhile.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from lakehouse.bronze import landing, pending_files
from lakehouse.bronze.file_completeness import Observations
from lakehouse.bronze.ingest import Ingest
from lakehouse.streams.client import StreamProblem, TopicReader
from lakehouse.streams.ingest import MicroBatch, StreamIngest, StreamLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from lakehouse.contracts.inputs import KafkaTopic
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

#: Seconds between two attempts to reach brokers that do not answer: the first, and the longest.
_RETRY_SECONDS, _LONGEST_SECONDS = 1.0, 60.0


@dataclass(frozen=True)
class Stop:
    """A request to end the service; :meth:`now` may be called from a signal handler or another thread."""

    event: threading.Event = field(default_factory=threading.Event)

    def now(self) -> None:
        """End after the current micro-batch."""
        self.event.set()

    @property
    def is_requested(self) -> bool:
        """Whether the service is to end."""
        return self.event.is_set()

    def wait(self, seconds: float) -> None:
        """Wait for ``seconds``, or until the service is to end."""
        self.event.wait(max(0.0, seconds))


@dataclass(frozen=True)
class Pace:
    """The limits of the service.

    :param batch_messages: the greatest number of messages of a micro-batch.
    :param every: seconds between the beginnings of two micro-batches, if the first takes less.
    :param max_messages: stop after about this number of messages.
    :param max_seconds: stop after this time.
    """

    batch_messages: int = 100_000
    every: float = 1.0
    max_messages: int | None = None
    max_seconds: float | None = None


def take(
    lake: Lake,
    contract: SourceContract,
    kafka: KafkaTopic,
    session: Callable[[], SparkSession],
    run_id: str,
    pace: Pace | None = None,
    stop: Stop | None = None,
) -> Iterator[MicroBatch]:
    """Ingest the messages that a topic has when each micro-batch begins, until none is left or a limit of ``pace`` is reached.

    :raises StreamProblem: when the topic cannot be read.
    """
    pace, stop = pace or Pace(), stop or Stop()
    until = None if pace.max_seconds is None else time.monotonic() + pace.max_seconds
    left = pace.max_messages
    with TopicReader(lake, kafka) as reader:
        ingest = StreamIngest(lake.cached(), contract, session, run_id, reader)
        while not stop.is_requested:
            seconds = 60.0 if until is None else until - time.monotonic()
            most = pace.batch_messages if left is None else min(pace.batch_messages, left)
            if seconds <= 0 or most <= 0:
                return
            batch = ingest.micro_batch(StreamLimits(most, seconds, is_stopped=lambda: stop.is_requested))
            yield batch
            if batch.at_end:
                return
            left = None if left is None else left - batch.rows


def follow(
    lake: Lake,
    contract: SourceContract,
    kafka: KafkaTopic,
    session: Callable[[], SparkSession],
    run_id: str,
    pace: Pace,
    stop: Stop,
) -> Iterator[MicroBatch | StreamProblem]:
    """Ingest messages as they arrive, until it is stopped; a problem with the brokers is yielded, and the attempt repeated later.

    Micro-batches without news are not yielded.
    """
    retry = _RETRY_SECONDS
    seen: tuple[str, ...] = ()
    while not stop.is_requested:
        begun = time.monotonic()
        try:
            with TopicReader(lake, kafka) as reader:
                ingest = StreamIngest(lake.cached(), contract, session, run_id, reader)
                while not stop.is_requested:
                    begun = time.monotonic()
                    batch = ingest.micro_batch(StreamLimits(pace.batch_messages, 60.0, is_stopped=lambda: stop.is_requested))
                    news = (*(entry.text for entry in batch.gaps), *batch.remarks)
                    if batch.recorded or news != seen:
                        yield batch
                    seen, retry = news, _RETRY_SECONDS
                    if batch.at_end:
                        stop.wait(pace.every - (time.monotonic() - begun))
        except StreamProblem as problem:
            yield problem
            stop.wait(retry)
            retry = min(2 * retry, _LONGEST_SECONDS)


def follow_files(
    lake: Lake,
    contract: SourceContract,
    session: Callable[[], SparkSession],
    run_id: str,
    pace: Pace,
    stop: Stop,
) -> Iterator[MicroBatch]:
    """Ingest the files of landing as they arrive and become stable, until it is stopped; held files are reported once.

    A file counts as stable when it has not changed for the deployment's ``settle_seconds``, as for the landing sensor.
    """
    observations, reading = Observations(), lake.cached()
    tried: set[str] = set()
    while not stop.is_requested:
        begun = time.monotonic()
        listed = landing.listing(lake, contract)
        scan = pending_files.scan_landing(reading, contract, listed, observations, datetime.now(timezone.utc), [contract])
        observations = scan.observations
        requests = {day: request for day, request in scan.requests.items() if not request.known or request.cause not in tried}
        tried |= {request.cause for request in requests.values()}
        for day, request in requests.items():
            report = Ingest(reading, contract, session, run_id).day(day, request.files)
            remarks = [f"held: {entry.message}" for entry in report.held] + report.waiting
            if report.ingested or report.redelivered or remarks:
                yield MicroBatch([*report.ingested, *report.redelivered], remarks=remarks)
        stop.wait(pace.every - (time.monotonic() - begun))
