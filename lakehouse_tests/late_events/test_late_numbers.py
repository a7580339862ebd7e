"""Numbers of metrics with late events against a plain model, in a real lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakehouse_tests.support.late_lake import LateLake, late
from lakehouse_tests.support.windowed_lake import TUMBLING, Event

if TYPE_CHECKING:
    from lakehouse.settings import Settings

pytestmark = pytest.mark.spark

DAILY = {key: value for key, value in TUMBLING.items() if key != "window"} | {"metric": "daily"}


def test_a_row_beyond_the_allowed_lateness_does_not_count_and_can_be_read(settings: Settings, spark: Any) -> None:
    lake = LateLake(settings, spark, [late(TUMBLING, "recompute", 5), late(DAILY, "recompute", 5)])
    lake.deliver_at(0, Event("a", 5), Event("b", 74))  # the watermark is at 64
    lake.deliver_at(1, Event("within", 20, 10), Event("hour", 61, 100))
    lake.deliver_at(2, Event("next", 81))  # the watermark is at 71
    lake.deliver_at(3, Event("beyond", 30, 1000))
    assert lake.left_out(lake.metrics[0]) == [("beyond", "late_dropped"), ("within", "late_accepted")]
    assert lake.seen() == lake.by_model()
    assert lake.unlike_published() == []
