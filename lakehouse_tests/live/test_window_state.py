"""The state of open windows on real Spark: what is cleaned behind the watermark, and what must not be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.live import status
from lakehouse.live.status import StateCounts
from lakehouse_tests.support.live_lake import DELAY, LIVE, LiveLake
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import TUMBLING, Event

if TYPE_CHECKING:
    from lakehouse.lake import Lake
    from lakehouse.live.status import WindowState

pytestmark = [pytest.mark.spark, pytest.mark.own_spark, pytest.mark.merge]


def read(sample: LiveLake, *events: Event) -> WindowState:
    """The state when the stream has read some events and has run the batch behind them, which applies their watermark."""
    sample.land_events(*events)
    sample.update("orders")
    sample.stream()
    known = status.of(sample.lake, "hourly")
    assert known is not None
    return status.window_state_of(sample.lake, sample.hourly, known)


def test_a_window_keeps_its_state_until_the_watermark_reaches_its_end(lake: Lake, spark: Any) -> None:
    per_user = metric({**TUMBLING, "grain": ["user"]}, **LIVE)
    sample = LiveLake(lake, spark, metrics=[per_user])

    def numbers() -> dict[tuple[str, int], int]:
        rows = status.locations.live(lake, "hourly").read()
        assert rows is not None
        first = min(row["window_start"] for row in rows.to_pylist())
        return {(row["user"], (row["window_start"] - first).seconds // 3600): row["total"] for row in rows.to_pylist()}

    state = read(sample, Event("a", 1, 5, user="u"), Event("b", 59, 7, user="v"), Event("c", 61, 1, user="u"))
    assert (state.open_windows, state.keys, state.rows) == (2, 2, 3)
    assert (state.windows, state.timers, state.events) == (StateCounts(3, 0, 0),) * 3
    assert state.bytes > 0

    state = read(sample, Event("d", 59 + DELAY, 2, user="u"))  # the watermark is a minute before the end of the first hour
    assert (state.open_windows, state.keys, state.rows, state.windows) == (2, 2, 3, StateCounts(3, 0, 0))
    state = read(sample, Event("e", 2, 11, user="u"))
    assert numbers() == {("u", 0): 5 + 11, ("v", 0): 7, ("u", 1): 1 + 2}, "the state of an open window was kept"

    state = read(sample, Event("f", 60 + DELAY, 3, user="u"))  # the watermark is the end of the first hour
    assert (state.open_windows, state.keys, state.rows) == (1, 1, 1)
    assert (state.windows, state.timers, state.events) == (StateCounts(3, 2, 2), StateCounts(3, 2, 2), StateCounts(6, 3, 3))
    known = status.of(lake, "hourly")
    assert known is not None
    assert (known.rows_read, known.state_removed) == (1, 2)
    before = numbers()
    assert before == {("u", 0): 16, ("v", 0): 7, ("u", 1): 6}

    state = read(sample, Event("g", 3, 13, user="u"), Event("h", 90, 4, user="u"))
    assert numbers() == {**before, ("u", 1): 6 + 4}, "a closed window loses its state and keeps its number"
    assert (state.rows, state.windows, state.events) == (1, StateCounts(3, 2, 2), StateCounts(7, 3, 3))


def test_a_status_without_the_newer_fields_is_read(lake: Lake) -> None:
    with status.running(lake, "hourly"):
        now = lake.now()
        status.write(lake, status.StreamStatus("hourly", 1, now, now))
        path = next(path for path in status._folder(lake, "hourly").glob("status.json"))
        stored = json.loads(path.read_text())
        path.write_text(json.dumps({name: value for name, value in stored.items() if name not in status.SUMS}))
        known = status.of(lake, "hourly")
    assert known is not None
    assert (known.state, known.rows_read) == ("running", 0)


def test_where_no_lock_can_be_taken_a_stream_counts_as_running(lake: Lake) -> None:
    now = lake.now()
    status.write(lake, status.StreamStatus("hourly", 1, now, now))
    killed = status.of(lake, "hourly")
    folder = status._folder(lake, "hourly")
    (folder / "running.lock").unlink()
    (folder / "running.lock").mkdir()  # as in a lake that is read-only, also for a user who may write everywhere
    unknown = status.of(lake, "hourly")
    assert killed is not None
    assert unknown is not None
    assert (killed.state, unknown.state) == ("killed", "running")
