"""What Dagster shows of late rows with a day of a metric."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from lakehouse.contracts.series import Series
from lakehouse.orchestration.assets.metric_assets import late_metadata
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.late_lake import LateLake, late
from lakehouse_tests.support.numbers_without_spark import without_spark
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import FIRST, TUMBLING, Event

if TYPE_CHECKING:
    from pathlib import Path


def test_each_day_has_its_late_rows_and_the_rates_of_the_metric(tmp_path: Path) -> None:
    with without_spark():
        sample = LateLake(lake_in(tmp_path), None, [late(TUMBLING, "recompute")])
        sample.classify_at(0, Event("on time", 30), Event("next", 73))
        sample.classify_at(1, Event("within", 40), Event("later", 80))
        sample.classify_at(2, Event("beyond", 45))
        rates = {"on_time_rate": 0.6, "late_accepted_rate": 0.2, "late_dropped_rate": 0.2}
        rates |= {"late_counted_at_close_rate": 0.0, "late_not_counted_rate": 0.2}
        next_day = FIRST + timedelta(days=1)
        assert late_metadata(sample.lake, Series(sample.metrics[0]), [FIRST, next_day]) == {
            FIRST: {"late_accepted": 1, "late_dropped": 1, "late_counted_at_close": 0, "late_not_counted": 1, **rates},
            next_day: {"late_accepted": 0, "late_dropped": 0, "late_counted_at_close": 0, "late_not_counted": 0, **rates},
        }
        assert late_metadata(sample.lake, Series(metric(TUMBLING)), [FIRST]) == {}
