"""The rows that the stream of a live metric has dropped as late, read from Bronze without Spark.

The stream counts well-formed inserts with an event time, and drops a row in those windows that had ended at the watermark of the
previous batch (``stream``). ``batches`` records the rows and the watermark of each batch.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.calendar import windows
from lakehouse.calendar.days import end_of_day
from lakehouse.contracts.windows import EventWindow
from lakehouse.dispositions.winners import cases, groups
from lakehouse.lateness.measurement import lags
from lakehouse.ledger import ingestions
from lakehouse.live import batches as live_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.dispositions.winners import Numbers
    from lakehouse.lake import Lake, table_io

_TIME = pa.timestamp("us", "UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND, _MINUTE = timedelta(microseconds=1), 60_000_000
#: An ingestion has fewer lines than this.
_LINES = 2**40
_READ = ["ingestion_id", "line_number", "arrival_date", "record_key", "event_ts", "event_date", "arrival_ts"]
#: ``watermark`` is the watermark behind which the row was dropped, ``windows`` are the windows in which it is not counted.
SCHEMA = pa.schema(
    [
        ("ingestion_id", pa.string()),
        ("line_number", pa.int64()),
        ("arrival_date", pa.date32()),
        ("record_key", pa.string()),
        ("event_ts", _TIME),
        ("event_date", pa.date32()),
        ("arrival_ts", _TIME),
        ("lateness_seconds", pa.float64()),
        ("watermark", _TIME),
        ("windows", pa.list_(pa.string())),
    ]
)


class DroppedRows(NamedTuple):
    """The rows that a stream has dropped, and the number of rows read that it counts unless they are late."""

    read: int
    rows: pa.Table

    @property
    def share(self) -> float:
        """The share of dropped rows; 0 if nothing was read."""
        return len(self.rows) / self.read if self.read else 0.0


def newest_arrival(lake: Lake, metric: MetricContract) -> date | None:
    """The newest arrival day of which the present stream of a metric has read rows."""
    newest = live_batches.newest(lake, metric.name)
    if newest is None:
        return None
    where = {"metric": [metric.name], "query": [newest.query]}
    read = set(live_batches.log(lake).select(["ingestion_id"], where)["ingestion_id"].unique().to_pylist())
    entries = ingestions.all_of(lake, metric.source)
    return max((entry.arrival_date for entry in entries if entry.ingestion_id in read), default=None)


def dropped(
    lake: Lake, metric: MetricContract, contract: SourceContract, day: date | None = None, arrival: date | None = None
) -> DroppedRows:
    """The rows that the present stream of a metric has dropped in one of their windows, in the order of their arrival.

    :param day: only rows of this event day; ``arrival`` restricts to this arrival day.
    """
    newest = live_batches.newest(lake, metric.name)
    if newest is None:
        return DroppedRows(0, SCHEMA.empty_table())
    batches = live_batches.log(lake).select(None, {"metric": [metric.name]})
    batches = batches.filter(pc.equal(batches["query"], newest.query))
    ids = pc.unique(batches["ingestion_id"])
    where: table_io.Where = {"ingestion_id": ids} | ({"event_date": [day]} if day else {})
    where = {**where, "arrival_date": [arrival]} if arrival else where
    columns = [*_READ, "change_op", "malformed_reason"]
    read, parts = 0, [SCHEMA.empty_table()]
    for piece in locations.bronze(lake, contract.dataset).pieces(columns, where):
        counted = pc.and_(pc.equal(piece["change_op"], "insert"), pc.is_null(piece["malformed_reason"]))
        counted = pc.and_(counted, pc.and_(pc.is_valid(piece["event_ts"]), pc.is_valid(piece["event_date"])))
        rows, watermarks = _with_batch(piece.filter(counted), batches, ids)
        read += len(rows)
        parts.append(_dropped(rows, watermarks, metric, contract))
    by = [(name, "ascending") for name in ("arrival_ts", "ingestion_id", "line_number")]
    return DroppedRows(read, pa.concat_tables(parts).sort_by(by))


def _with_batch(rows: pa.Table, batches: pa.Table, ids: pa.Array) -> tuple[pa.Table, pa.Array]:
    """The rows that ``batches`` have read, and the watermark before the batch of each, in microseconds; NULL in the first
    batch.
    """

    def places(of: pa.Table, line: str) -> Numbers:
        files: Numbers = pc.index_in(of["ingestion_id"], value_set=ids).combine_chunks().to_numpy(zero_copy_only=False)
        lines: Numbers = of[line].to_numpy()
        return files.astype(np.int64) * _LINES + lines

    firsts = places(batches, "first_line")
    order = np.argsort(firsts)
    at = places(rows, "line_number")
    found = np.searchsorted(firsts[order], at, side="right") - 1
    batch = order[np.maximum(found, 0)]
    is_read = pa.array((found >= 0) & (at <= places(batches, "last_line")[batch]))
    watermarks = batches["watermark_before"].cast(_TIME).cast(pa.int64()).combine_chunks().take(pa.array(batch))
    return rows.filter(is_read), watermarks.filter(is_read)


def _dropped(rows: pa.Table, watermarks: pa.Array, metric: MetricContract, contract: SourceContract) -> pa.Table:
    """Those ``rows`` that were dropped in a window, as rows of the result."""
    minutes = pc.divide(rows["event_ts"].cast(_TIME).cast(pa.int64()).combine_chunks(), _MINUTE)
    group = groups(rows["event_date"], minutes)
    known = [_windows(day, minute, metric, contract) for day, minute in cases(group, rows["event_date"], minutes)]
    first = pa.array([min(end for end, _ in of_case) for of_case in known], pa.int64()).take(pa.array(group))
    is_dropped = pc.fill_null(pc.less_equal(first, watermarks), False)
    late, met = rows.filter(is_dropped), watermarks.filter(is_dropped)
    which = group[is_dropped.to_numpy(zero_copy_only=False)]
    names = [[name for end, name in known[case] if end <= behind] for case, behind in zip(which, met.to_pylist())]
    columns = {
        **{name: late[name] for name in _READ},
        "lateness_seconds": pc.divide(lags(late, contract).cast(pa.float64()), 1e6),
        "watermark": met.cast(_TIME),
        "windows": pa.array(names, pa.list_(pa.string())),
    }
    return pa.table({name: columns[name] for name in SCHEMA.names}).cast(SCHEMA)


def _windows(day: date, minute: int, metric: MetricContract, contract: SourceContract) -> Sequence[tuple[int, str]]:
    """The windows in which the stream counts an event in a minute of an event day, each with its end in microseconds
    since 1970.
    """
    window = metric.event_window
    if not isinstance(window, EventWindow):
        return [(_micros(end_of_day(day, ZoneInfo(contract.clocks.timezone))), f"{day}")]
    moment = _EPOCH + minute * timedelta(minutes=1)
    of_minute = []
    for each in [day - timedelta(days=1), day] if window.overlaps else [day]:
        midnight = end_of_day(each, window.zone)
        for start in windows.starts(each, window.step, window.zone):
            if start <= moment < start + window.size:
                end = start + window.size if window.overlaps else min(start + window.step, midnight)
                of_minute.append((_micros(end), windows.name(start, window.zone)))
    return of_minute


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND
