"""The state of the open windows of a stream: its size, and the life cycle of the windows. Read without Spark.

Windows and events are counted in ``live/<metric>``; rows and bytes are from Spark's last report about its state store. Whether
that is too much is decided in ``operations.alerts.streams``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.contracts.windows import WINDOW_START

if TYPE_CHECKING:
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.lake import Lake
    from lakehouse.live.status import StreamStatus

_END = "window_end"


@dataclass(frozen=True)
class StateCounts:
    """Numbers of windows, timers or events: created, past their end, and removed from the state."""

    created: int
    fired: int
    cleaned: int


@dataclass(frozen=True)
class WindowState:
    """The state of a stream as of the batch that it reported last.

    The counts cover the numbers that ``live/<metric>`` still has. ``windows`` counts the windows of each key separately: those
    with a number, those with an end that the watermark has passed, and those without a row of state. ``timers`` counts their
    ends, one for each; an end that has passed no longer waits. ``events`` counts the rows aggregated in them, once for each
    window.

    :param open_windows: windows that the watermark has not passed; ``keys``: values of the grain that have such a window.
    :param rows: rows in the state store, and ``bytes``: their size in memory, both from Spark's report.
    """

    open_windows: int
    keys: int
    rows: int
    bytes: int
    windows: StateCounts
    timers: StateCounts
    events: StateCounts


def of(lake: Lake, metric: MetricContract, known: StreamStatus) -> WindowState:
    """The state of a stream.

    While the stream writes a batch, the table may be one batch ahead of the report; between two batches the counts are exact.
    """
    grain = [name for name in metric.grain if name != WINDOW_START]
    created = fired = events = fired_events = 0
    ends: set[Any] = set()
    keys: set[tuple[Any, ...]] = set()
    columns = [_END, "row_count", *grain]
    for piece in locations.live(lake, metric.name).pieces(columns, None):
        is_open = _is_open(piece[_END], known)
        left = piece.filter(is_open)
        created, fired = created + len(piece), fired + len(piece) - len(left)
        events += pc.sum(piece["row_count"]).as_py() or 0
        fired_events += pc.sum(piece["row_count"].filter(pc.invert(is_open))).as_py() or 0
        ends.update(pc.unique(left[_END]).to_pylist())
        if grain:
            keys.update(tuple(row.values()) for row in left.select(grain).group_by(grain).aggregate([]).to_pylist())
    return WindowState(
        open_windows=len(ends),
        keys=len(keys) if grain else min(1, len(ends)),
        rows=known.state_rows,
        bytes=known.state_bytes,
        windows=StateCounts(created, fired, max(0, created - known.state_rows)),
        timers=StateCounts(created, fired, fired),
        events=StateCounts(events, fired_events, fired_events),
    )


def _is_open(ends: pa.ChunkedArray, known: StreamStatus) -> Any:
    """Whether the end of each window is later than the watermark in force, as Spark compares them."""
    if known.watermark is None:
        return pa.chunked_array([pa.array([True] * len(ends), pa.bool_())])
    return pc.greater(ends, pa.scalar(known.watermark, ends.type))
