"""``ops/live_batches``: the rows of Bronze that each batch of a stream has read, and the watermark behind which it dropped rows.

The rows of a batch are the lines of each ingestion in the files that were added between two places of Bronze's log.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 (columns of the log)
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse import locations
from lakehouse.lake.delta_rs_internals import file_system
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from deltalake import DeltaTable
    from pyarrow import fs

    from lakehouse.lake import Lake
    from lakehouse.live.checkpoint import BronzeOffset


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


def log(lake: Lake) -> LogTable[LiveBatch]:
    """The table."""
    return LogTable(LiveBatch, lake, locations.live_batches(lake), partition_by="metric")


def record(lake: Lake, entries: Sequence[LiveBatch]) -> None:
    """Append the entries of one batch, once."""
    if entries:
        newest = entries[0]
        log(lake).append(entries, app_id=f"live:{newest.query}", app_version=newest.batch + 1)


def newest(lake: Lake, metric: str) -> LiveBatch | None:
    """An entry of the newest recorded batch of a metric; None if no stream has read anything."""
    rows = log(lake).select(None, {"metric": [metric]})
    if not len(rows):
        return None
    last = pc.select_k_unstable(rows, 1, [("recorded_at", "descending"), ("batch", "descending")])
    return next(iter(log(lake).entries(rows.take(last))), None)


_ID = "ingestion_id"


class LinesRead(NamedTuple):
    """The lines of an ingestion from ``first`` through ``last``."""

    ingestion_id: str
    first: int
    last: int


def lines_between(bronze: DeltaTable, since: BronzeOffset, until: BronzeOffset) -> list[LinesRead]:
    """The lines of each ingestion that Delta's source reads after ``since`` and up to ``until``.

    A file has a contiguous range of lines of each of its ingestions. Only two columns of the new files are read.
    """
    system = file_system(bronze)
    parts = [_lines(system, path) for path in _added(system, since, until)]
    if not parts:
        return []
    lines = pa.concat_tables(parts).group_by(_ID).aggregate([("first", "min"), ("last", "max")]).sort_by(_ID)
    return [LinesRead(row[_ID], row["first_min"], row["last_max"]) for row in lines.to_pylist()]


def _lines(system: fs.FileSystem, path: str) -> pa.Table:
    """The first and last line of each ingestion of a file."""
    batches = pq.ParquetFile(system.open_input_file(path)).iter_batches(columns=[_ID, "line_number"], use_threads=False)
    parts = [
        pa.table({_ID: batch[_ID], "line": batch["line_number"]}).group_by(_ID).aggregate([("line", "min"), ("line", "max")])
        for batch in batches
    ]
    found = pa.concat_tables(parts).group_by(_ID).aggregate([("line_min", "min"), ("line_max", "max")])
    return found.rename_columns({"line_min_min": "first", "line_max_max": "last"})


def _added(system: fs.FileSystem, since: BronzeOffset, until: BronzeOffset) -> Iterator[str]:
    """The files between two places. Delta's source numbers the files of a commit in their order."""
    for version in range(since.version, until.version + 1):
        first = since.index + 1 if version == since.version else 0
        for index, path in enumerate(_files(system, version) if version < until.version or until.index >= 0 else []):
            if index >= max(first, 0) and (version < until.version or index <= until.index):
                yield path


def _files(system: fs.FileSystem, version: int) -> list[str]:
    """The files with new rows of a commit."""
    with system.open_input_stream(f"_delta_log/{version:020d}.json") as stream:
        actions = [json.loads(line) for line in stream.read().splitlines()]
    return [unquote(action["add"]["path"]) for action in actions if "add" in action and action["add"]["dataChange"]]
