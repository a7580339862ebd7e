"""``ops/live_batches``: which rows of Bronze each batch of a stream has read, and behind which watermark.

With it, what the stream has counted can be computed again after Spark has removed the offsets of a batch from its checkpoint,
and after Bronze was compacted. An entry is written before the live numbers of its batch: whether these have followed is known
from the live table (see ``table.written_up_to``).
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
    """The rows of one ingestion that a batch has read: those between two lines, themselves included.

    ``query`` identifies the checkpoint. ``watermark_before`` is the watermark of the batch before, behind which rows were
    dropped; None in the first one. ``numbers`` counts the live numbers that the batch changed.
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
    """An entry of the batch of a metric that was recorded last; None if no stream has read anything."""
    rows = log(settings).select(None, {"metric": [metric]})
    if not len(rows):
        return None
    last = pc.select_k_unstable(rows, 1, [("recorded_at", "descending"), ("batch", "descending")])
    return next(iter(log(settings).entries(rows.take(last))), None)
