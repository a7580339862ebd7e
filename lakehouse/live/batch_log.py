"""``ops/live_batches``: the rows of Bronze that each batch of a stream has read, and the watermark behind which it dropped rows.

From it, the rows that the stream has counted can be computed again after Spark has removed the offsets of a batch from its
checkpoint, and after Bronze was compacted. An entry is written before the live numbers of its batch; the live table shows whether
these have been written (see ``table.written_up_to``).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 (columns of the log)
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.settings import Settings


@dataclass(frozen=True)
class LiveBatch:
    """The rows of one ingestion that a batch has read: those from ``first_line`` through ``last_line``.

    ``query`` identifies the checkpoint. ``watermark_before`` is the watermark of the previous batch, behind which rows were
    dropped; None in the first batch. ``numbers`` counts the live numbers that the batch changed.
    """

    metric: str
    query: str
    batch: int
    ingestion_id: str
    first_line: int
    last_line: int
    watermark_before: datetime | None
    watermark: datetime | None
    numbers: int
    recorded_at: datetime


def log(settings: Settings) -> LogTable[LiveBatch]:
    """The table."""
    return LogTable(LiveBatch, settings, locations.live_batches(settings), partition_by="metric")


def record(settings: Settings, entries: Sequence[LiveBatch]) -> None:
    """Append the entries of one batch, once."""
    if entries:
        newest = entries[0]
        log(settings).append(entries, app_id=f"live:{newest.query}", app_version=newest.batch + 1)


def newest(settings: Settings, metric: str) -> LiveBatch | None:
    """An entry of the newest recorded batch of a metric; None if no stream has read anything."""
    rows = log(settings).select(None, {"metric": [metric]})
    if not len(rows):
        return None
    last = pc.select_k_unstable(rows, 1, [("recorded_at", "descending"), ("batch", "descending")])
    return next(iter(log(settings).entries(rows.take(last))), None)
