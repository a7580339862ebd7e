"""The log of batches, also before there is one."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from lakehouse.live import batch_log
from lakehouse.live.batch_log import LiveBatch

if TYPE_CHECKING:
    from lakehouse.settings import Settings


def test_the_newest_batch_is_the_one_that_was_recorded_last(settings: Settings) -> None:
    assert batch_log.newest(settings, "hourly") is None
    fields = dict.fromkeys(LiveBatch.__dataclass_fields__)
    times = [datetime(2024, 2, 1, hour, tzinfo=timezone.utc) for hour in (1, 3, 2)]
    for batch, recorded_at in enumerate(times):
        entry = LiveBatch(**{**fields, "metric": "hourly", "query": "q", "batch": batch, "recorded_at": recorded_at})
        batch_log.record(settings, [entry])
    newest = batch_log.newest(settings, "hourly")
    assert newest is not None
    assert newest.batch == 1
    assert batch_log.newest(settings, "daily") is None
