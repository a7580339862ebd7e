"""Runs the ingestion of a source again and again: until a topic has nothing more, or until somebody stops it.

The files of landing are taken the same way: those that are ready, through the ingestion of files, and then those that have
become so meanwhile.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehouse.delta.table_cache import with_table_cache
from lakehouse.streams.client import TopicReader
from lakehouse.streams.ingest import MicroBatch, StreamIngest, StreamLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from lakehouse.contracts.inputs.kafka import KafkaTopic
    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings


@dataclass(frozen=True)
class Stop:
    """Whether somebody wants the service to end; :meth:`now` may be called from a signal handler or another thread."""

    event: threading.Event = field(default_factory=threading.Event)

    def now(self) -> None:
        """End behind the micro-batch that is being taken."""
        self.event.set()

    @property
    def is_requested(self) -> bool:
        """Whether it was."""
        return self.event.is_set()

    def wait(self, seconds: float) -> None:
        """Wait, unless the service is to end."""
        self.event.wait(seconds)


def take(
    settings: Settings,
    contract: SourceContract,
    kafka: KafkaTopic,
    session: Callable[[], SparkSession],
    run_id: str,
    max_messages: int | None = None,
    seconds: float | None = None,
    batch_messages: int = 100_000,
    stop: Stop | None = None,
) -> Iterator[MicroBatch]:
    """Take what a topic holds when each micro-batch begins, until it has nothing more or a limit is reached.

    :raises StreamProblem: when the topic cannot be read.
    """
    import time  # noqa: PLC0415

    until = None if seconds is None else time.monotonic() + seconds
    left, ends = max_messages, stop or Stop()
    with TopicReader(settings, kafka) as reader:
        ingest = StreamIngest(with_table_cache(settings), contract, session, run_id, reader)
        while not ends.is_requested:
            wait = 60.0 if until is None else until - time.monotonic()
            most = batch_messages if left is None else min(batch_messages, left)
            if wait <= 0 or most <= 0:
                return
            batch = ingest.micro_batch(StreamLimits(most, wait, is_stopped=lambda: ends.is_requested))
            yield batch
            if batch.at_end:
                return
            left = None if left is None else left - batch.rows
