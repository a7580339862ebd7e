"""The logs of live numbers: ``ops/live_batches`` and ``ops/reconciliations``.

The first has the rows of Bronze that each batch of a stream has read, and the watermark behind which it dropped rows. The rows of
a batch are the lines of each ingestion in the files that were added between two places of Bronze's log. The second has the
comparisons of live with published numbers, with the causes of each difference. One is written only if its content differs from
the previous one of its day.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse import locations
from lakehouse.lake.delta_rs_internals import file_system
from lakehouse.ledger.log_table import LogTable
from lakehouse.live.causes import Reconciled, in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from deltalake import DeltaTable
    from pyarrow import fs

    from lakehouse.lake import Lake
    from lakehouse.live.checkpoint import BronzeOffset

_ANY_TIME = datetime.min.replace(tzinfo=timezone.utc)


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


def reconciliation_log(lake: Lake) -> LogTable[Reconciled]:
    """``ops/reconciliations``. The reconciliations of a day are numbered."""
    return LogTable(Reconciled, lake, locations.reconciliations(lake), partition_by="metric")


def newest_reconciliation(lake: Lake, metric: str, day: date) -> list[Reconciled]:
    """The last reconciliation of a day, by window, grain and measure; empty if there is none."""
    entries = reconciliation_log(lake).read({"metric": [metric], "day": [day]})
    last = max((entry.number for entry in entries), default=0)
    return sorted((entry for entry in entries if entry.number == last), key=_place)


def newest_beyond_threshold(lake: Lake, metric: str, since: datetime) -> dict[date, list[Reconciled]]:
    """The numbers beyond the threshold in the last reconciliation of each day that had such numbers in a reconciliation since
    ``since``.
    """
    rows = reconciliation_log(lake).select(["day", "reconciled_at"], {"metric": [metric], "exceeds": [True]})
    recent = rows.filter(pc.greater_equal(rows["reconciled_at"], pa.scalar(since, rows["reconciled_at"].type)))
    last = {day: newest_reconciliation(lake, metric, day) for day in sorted(recent["day"].unique().to_pylist())}
    return {day: [entry for entry in entries if entry.exceeds] for day, entries in last.items()}


def record_reconciliation(lake: Lake, before: Sequence[Reconciled], entries: Sequence[Reconciled]) -> bool:
    """Append a reconciliation of a day, unless its content equals the previous one.

    :param before: the newest reconciliation, from :func:`newest_reconciliation`.
    :returns: whether it was written.
    """
    if not entries or [_content(entry) for entry in before] == [_content(entry) for entry in sorted(entries, key=_place)]:
        return False
    first, number = entries[0], (before[0].number if before else 0) + 1
    numbered = [replace(entry, number=number) for entry in entries]
    return reconciliation_log(lake).append(numbered, app_id=f"reconciliation:{first.metric}:{first.day}", app_version=number)


def _content(entry: Reconciled) -> Reconciled:
    """An entry without the fields that differ when only the stream has advanced and the numbers of the day are the same."""
    return replace(entry, number=0, batch=0, reconciled_at=_ANY_TIME, grain=dict(entry.grain), causes=dict(entry.causes))


def _place(entry: Reconciled) -> list[tuple[bool, str]]:
    return in_order(entry.cell)
