"""The log of batches, also before there is one."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from lakehouse.live import batches
from lakehouse.live.batches import LiveBatch

if TYPE_CHECKING:
    from lakehouse.lake import Lake


def test_the_newest_batch_is_the_one_that_was_recorded_last(lake: Lake) -> None:
    assert batches.newest(lake, "hourly") is None
    fields = dict.fromkeys(LiveBatch.__dataclass_fields__)
    times = [datetime(2024, 2, 1, hour, tzinfo=timezone.utc) for hour in (1, 3, 2)]
    for batch, recorded_at in enumerate(times):
        entry = LiveBatch(**{**fields, "metric": "hourly", "query": "q", "batch": batch, "recorded_at": recorded_at})
        batches.record(lake, [entry])
    newest = batches.newest(lake, "hourly")
    assert newest is not None
    assert newest.batch == 1
    assert batches.newest(lake, "daily") is None
