"""The state of the streams and of their open windows, read without Spark.

Each stream writes its state into a small file, which stays readable after the stream was killed. Whether a stream runs is
determined by a lock that ends with its process, not by the last state that it wrote.

Windows and events are counted in ``live/<metric>``; the rows and bytes of the open windows are from Spark's last report about its
state store. Whether that is too much is decided in ``operations.alerts.input_signals``.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from filelock import FileLock, Timeout

from lakehouse import locations
from lakehouse.contracts.windows import WINDOW_START
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.lake import Lake


class AlreadyLiveError(LakehouseError):
    """The stream of a metric is already running. The message says how to stop it."""


@dataclass(frozen=True)
class StreamStatus:
    """The last reported state of a stream.

    ``state_rows`` and ``state_bytes`` are the size of its open windows in Spark's state store. Rates (rows a second) and duration
    (milliseconds) are those of the last batch with rows. ``dropped`` counts the late rows since the stream was started as Spark
    does, after aggregating the rows of a window: the reconciliation counts each row. ``rows_read``, ``state_updated`` and
    ``state_removed`` are Spark's counts since the start: rows of Bronze, rows of state that were created or changed, and rows of
    state that were removed. ``problem`` is the reason if it failed.
    """

    metric: str
    pid: int
    started_at: datetime
    written_at: datetime
    state: str = "running"
    batch: int = -1
    batch_at: datetime | None = None
    watermark: datetime | None = None
    state_rows: int = 0
    state_bytes: int = 0
    input_rate: float = 0
    processing_rate: float = 0
    batch_milliseconds: int = 0
    dropped: int = 0
    rows_read: int = 0
    state_updated: int = 0
    state_removed: int = 0
    problem: str | None = None


#: The fields of a status that are sums over its batches.
SUMS = ("dropped", "rows_read", "state_updated", "state_removed")
#: A check whether a stream runs holds the lock for a moment, which must not prevent a stream from starting.
_LOOK_SECONDS = 0.5
_TIMES = ("started_at", "written_at", "batch_at", "watermark")


def write(lake: Lake, status: StreamStatus) -> None:
    """Replace the recorded state of a stream."""
    path = _folder(lake, status.metric) / "status.json"
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(asdict(status), default=lambda value: value.isoformat()), "utf-8")
    draft.replace(path)


def of(lake: Lake, metric: str) -> StreamStatus | None:
    """The recorded state of the stream of a metric; None if it never ran.

    :returns: with the state ``running``, ``stopped``, ``failed``, or ``killed`` if its process ended without writing a state.
    """
    address = locations.live_checkpoints(lake, metric)
    try:
        stored: dict[str, Any] = json.loads((Path(address) / "status.json").read_text("utf-8")) if "://" not in address else {}
    except FileNotFoundError:
        return None
    if not stored:
        return None
    times = {name: datetime.fromisoformat(stored[name]) for name in _TIMES if stored[name]}
    if stored["state"] == "running" and _has_ended(lake, metric):
        stored["state"] = "killed"
    return StreamStatus(**(stored | times))


def of_progress(progress: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a status that Spark's report about a batch contains."""
    operator = (progress["stateOperators"] or [{}])[0]
    watermark = progress["eventTime"].get("watermark", "1970")
    return {
        "batch": progress["batchId"],
        "batch_at": datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")),
        "watermark": None if watermark.startswith("1970") else datetime.fromisoformat(watermark.replace("Z", "+00:00")),
        "state_rows": operator.get("numRowsTotal", 0),
        "state_bytes": operator.get("memoryUsedBytes", 0),
    }


def rates(progress: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a status that only a batch with rows changes."""
    return {
        "input_rate": progress["inputRowsPerSecond"] or 0,
        "processing_rate": progress["processedRowsPerSecond"] or 0,
        "batch_milliseconds": progress["durationMs"].get("triggerExecution", 0),
    }


def counts(progress: Mapping[str, Any]) -> dict[str, int]:
    """The numbers of a batch that are added up, for each field of :data:`SUMS`."""
    operator = (progress["stateOperators"] or [{}])[0]
    return {
        "dropped": int(operator.get("numRowsDroppedByWatermark", 0)),
        "rows_read": int(progress["numInputRows"]),
        "state_updated": int(operator.get("numRowsUpdated", 0)),
        "state_removed": int(operator.get("numRowsRemoved", 0)),
    }


@contextmanager
def running(lake: Lake, metric: str) -> Iterator[None]:
    """Within the context, no other process of this machine runs the stream of a metric.

    :raises AlreadyLiveError: if another process runs it.
    """
    lock = _lock(lake, metric)
    try:
        lock.acquire(timeout=_LOOK_SECONDS)
    except Timeout:
        msg = f"the stream of {metric} is running; stop it with 'lakehouse live stop {metric}'"
        raise AlreadyLiveError(msg) from None
    try:
        _stop_marker(lake, metric).unlink(missing_ok=True)
        yield
    finally:
        lock.release()


def is_running(lake: Lake, metric: str) -> bool:
    """Whether a process of this machine runs the stream of a metric."""
    lock = _lock(lake, metric)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def _has_ended(lake: Lake, metric: str) -> bool:
    """Whether no process of this machine runs the stream; False where that cannot be determined, as in a read-only lake."""
    try:
        return not is_running(lake, metric)
    except OSError:
        return False


def ask_to_stop(lake: Lake, metric: str) -> None:
    """Request that the stream of a metric stop after its current batch."""
    _stop_marker(lake, metric).write_text(f"{os.getpid()}\n", "utf-8")


def is_to_stop(lake: Lake, metric: str) -> bool:
    """Whether the stream of a metric has been requested to stop."""
    return _stop_marker(lake, metric).exists()


def _folder(lake: Lake, metric: str) -> Path:
    folder = Path(locations.live_checkpoints(lake, metric))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _lock(lake: Lake, metric: str) -> FileLock:
    return FileLock(_folder(lake, metric) / "running.lock")


def _stop_marker(lake: Lake, metric: str) -> Path:
    return _folder(lake, metric) / "stop"


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


def window_state_of(lake: Lake, metric: MetricContract, known: StreamStatus) -> WindowState:
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
