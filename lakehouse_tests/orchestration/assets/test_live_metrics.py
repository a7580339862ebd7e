"""A run of gold that closes a day of a live metric reconciles it, and shows the check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from lakehouse.live import batches
from lakehouse.orchestration.assets.checks import check_names
from lakehouse.orchestration.build import build_definitions
from lakehouse.orchestration.run_events import tags_for
from lakehouse_tests.support.live_lake import LIVE, LiveLake
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import FIRST, TUMBLING, Event

if TYPE_CHECKING:
    from lakehouse.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.own_spark, pytest.mark.merge]
GOLD = dg.AssetKey(["gold", "hourly"])


def test_a_day_is_reconciled_by_the_run_that_closes_it(lake: Lake, spark: Any) -> None:
    sample = LiveLake(lake, spark, metrics=[metric(TUMBLING, **LIVE, reconcile={"threshold": 0.1})])
    assert "live_equals_books" in check_names(sample.catalog)[GOLD]
    for events in ([Event("a", 1, 5), Event("a", 1, 5)], [Event("c", 200, 1)], [Event("d", 201, 1)]):
        sample.land_events(*events)
        sample.update("orders")
    sample.stream()
    job = build_definitions(lake.settings, sample.catalog).resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(instance=instance, asset_selection=[GOLD], tags=tags_for([FIRST]))
        assert done.success
        (entry,) = [one for one in batches.newest_reconciliation(lake, "hourly", FIRST) if one.measure == "total" and one.gap]
        assert (entry.live, entry.books, {**entry.causes}) == ("10", "5", {"duplicate": "-5"})
        of_live = [found for found in done.get_asset_check_evaluations() if found.check_name == "live_equals_books"]
        assert [(found.passed, found.partition) for found in of_live] == [(False, f"{FIRST}")]
        assert of_live[0].description == "total at 22:00 UTC was 10 and is 5: duplicate -5"
