"""The progress of Spark jobs: the completed tasks of the running stages, reported to the listeners of ``lakehouse.pieces``.

A Connect client does not see the server's stages and reports nothing.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING

from lakehouse import pieces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

_SECONDS = 1


@contextmanager
def watched(spark: SparkSession, work: str) -> Iterator[None]:
    """Within the context, report the progress of the session's running stages to the listeners every second."""
    if not pieces.is_listened_to() or not hasattr(spark, "_jsc"):
        yield
        return
    ended = threading.Event()
    watch = partial(_watch, spark.sparkContext.statusTracker(), f"{work}, tasks of Spark", ended)
    thread = threading.Thread(target=copy_context().run, args=(watch,), daemon=True)  # the listeners belong to the context
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _watch(tracker: StatusTracker, work: str, ended: threading.Event) -> None:
    while not ended.wait(_SECONDS):
        stages = [stage for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()) if stage is not None]
        if stages:
            done, total = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
            pieces.report(work, done, total)
