"""The progress of Spark's jobs: how many tasks of the running stages are done, told to whoever listens (``lakehouse.pieces``).

A Connect client does not see the server's stages, and tells nothing.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakehouse import pieces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

_SECONDS = 1


@contextmanager
def watched(spark: SparkSession, work: str) -> Iterator[None]:
    """Within the context, the listeners are told every second how far the stages of the session's jobs are."""
    listeners = pieces.listeners()
    if not listeners or not hasattr(spark, "_jsc"):
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(spark.sparkContext.statusTracker(), work, ended, listeners), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _watch(tracker: StatusTracker, work: str, ended: threading.Event, listeners: tuple[pieces.Listener, ...]) -> None:
    while not ended.wait(_SECONDS):
        stages = [stage for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()) if stage is not None]
        if stages:
            done, total = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
            for listener in listeners:
                listener(f"{work}, tasks of Spark", done, total)
