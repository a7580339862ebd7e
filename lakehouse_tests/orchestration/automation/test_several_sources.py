"""A change of any source starts the metrics that read it, and the asset graph shows all of them; so do pages and maintenance."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from deltalake import DeltaTable

from lakehouse.locations import every_table
from lakehouse.operations import retention
from lakehouse.orchestration.build import build_definitions
from lakehouse.orchestration.plan_runs import BACKFILL_RUNNING, backfill_lock
from lakehouse.serving import pending_changes
from lakehouse_tests.support.sensor_ticks import SensorTicks, days_of
from lakehouse_tests.support.united_lake import FIRST, Order, UnitedLake, metric, source

if TYPE_CHECKING:
    from lakehouse.lake import Lake

GOLD = dg.AssetKey(["gold", "revenue"])


def test_gold_depends_on_every_source_and_begins_with_the_earliest(lake: Lake) -> None:
    early = source("mobile", source={"landing": "mobile.arrival_date={arrival_date}*", "start_date": "2023-06-01"})
    sample = UnitedLake(lake, None, sources={"web": source("web"), "mobile": early, "partner": source("partner")})
    graph = build_definitions(lake.settings, sample.catalog).resolve_asset_graph()
    assert graph.get(GOLD).parent_keys == {dg.AssetKey(["silver", name]) for name in ("web", "mobile", "partner")}
    assert graph.get(GOLD).group_name == "web"
    days, weeks = (graph.get(dg.AssetKey(["gold", name])).partitions_def for name in ("revenue", "revenue_weekly"))
    assert days is not None
    assert weeks is not None
    assert (days.get_first_partition_key(), weeks.get_first_partition_key()) == ("2023-06-01", "2023-05-29")


def test_the_sensor_waits_while_a_backfill_of_one_source_is_running(lake: Lake) -> None:
    sample = UnitedLake(lake, None)
    with dg.DagsterInstance.ephemeral() as instance, backfill_lock(lake, "mobile"):
        assert SensorTicks(lake, sample.catalog, "restate_revenue", instance).skip_message() == BACKFILL_RUNNING


@pytest.mark.merge
@pytest.mark.spark
def test_a_change_of_a_further_source_is_pending_everywhere_until_it_is_published(lake: Lake, spark: Any) -> None:
    sample = UnitedLake(lake, spark, [metric()])
    sample.deliver(Order("web", "a", "1", 1, "north", 0))
    sample.deliver(Order("mobile", "a", "2", 1, "north", 0))
    changed = FIRST + timedelta(days=3)
    with dg.DagsterInstance.ephemeral() as instance:
        sensor = SensorTicks(lake, sample.catalog, "restate_revenue", instance)
        assert sensor.skip_message() == "gold follows silver"
        before = shown(sample, "mobile")
        assert before == shown(sample, "web") == set()
        sample.update(sample.land([Order("mobile", "b", "3", 1, "north", 3)]))
        (request,) = sensor.run_requests()
        assert days_of(request) == [f"{changed}"]
        assert shown(sample, "mobile") == shown(sample, "web") == {changed}
        assert read_of(sample, "silver/mobile") == ["gold/revenue"]
        assert read_of(sample, "silver/web") == []
        sample.publish()
        assert sensor.skip_message() == "gold follows silver"
        assert shown(sample, "mobile") == set()
        assert read_of(sample, "silver/mobile") == []


def shown(sample: UnitedLake, name: str) -> set[date]:
    """The days of the metric that the server shows as pending for a source."""
    return set(pending_changes.read(sample.lake, sample.catalog, name).periods["revenue"].starts)


def read_of(sample: UnitedLake, name: str) -> list[str]:
    """Who has yet to read a silver table, as maintenance sees it."""
    [table] = [one for one in every_table(sample.catalog) if f"{one}" == name]
    delta = DeltaTable(table.of(sample.lake).address)
    return sorted({need.who for need in retention.needs(sample.lake, sample.catalog, table, delta).files})
