"""A change of silver restates the days with windows that cover it, also one that lies before the source's first event day."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from lakehouse.orchestration.build import build_definitions
from lakehouse_tests.support.sensor_ticks import SensorTicks, days_of
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import FIRST, SESSIONS, SLIDING, TUMBLING, Event, WindowedLake, source

if TYPE_CHECKING:
    from lakehouse.lake import Lake

SILVER = dg.AssetKey(["silver", "orders"])


def from_the_first_day(lake: Lake, spark: Any) -> WindowedLake:
    """A lake whose first event day is that of the events."""
    clocks = source().clocks.model_copy(update={"start_date": FIRST})
    metrics = [metric(definition) for definition in (TUMBLING, SLIDING, SESSIONS)]
    return WindowedLake(lake, spark, metrics, sources={"orders": source().model_copy(update={"clocks": clocks})})


def test_windows_that_overlap_begin_a_day_earlier_and_read_the_next_day(lake: Lake) -> None:
    sample = from_the_first_day(lake, None)
    derived = metric(
        {"metric": "doubled", "from": ["sliding"], "measures": [{"name": "d", "sql": "sliding.total", "type": "bigint"}]}
    )
    catalog = sample.catalog
    assert catalog.first_day(sample.metrics[0]) == FIRST
    assert catalog.first_day(sample.metrics[1]) == FIRST - timedelta(days=1)
    assert catalog.first_day(sample.metrics[2]) == FIRST - timedelta(days=1)
    catalog.metrics["doubled"] = derived
    assert catalog.first_day(derived) == FIRST - timedelta(days=1)
    graph = build_definitions(lake.settings, sample.catalog).resolve_asset_graph()
    silver = graph.get(SILVER).partitions_def
    reads = {}
    for name in ("hourly", "sliding", "sessions"):
        key = dg.AssetKey(["gold", name])
        days = graph.get(key).partitions_def
        mapping = graph.get_partition_mapping(key, SILVER)
        wanted = days.subset_with_partition_keys([f"{FIRST + timedelta(days=2)}"])
        upstream = mapping.get_upstream_mapped_partitions_result_for_partitions(wanted, days, silver)
        reads[name] = sorted(upstream.partitions_subset.get_partition_keys())
    assert reads == {
        "hourly": [f"{FIRST + timedelta(days=2)}"],
        "sliding": [f"{FIRST + timedelta(days=number)}" for number in (2, 3)],
        "sessions": [f"{FIRST + timedelta(days=number)}" for number in (0, 1, 2, 3)],
    }


@pytest.mark.merge
@pytest.mark.spark
def test_an_event_after_the_first_midnight_is_published_by_a_run_of_the_sensor(lake: Lake, spark: Any) -> None:
    sample = from_the_first_day(lake, spark)
    sample.send(Event("a", 12 * 60))
    sample.land_events(Event("early", 10))
    sample.update("orders")
    with dg.DagsterInstance.ephemeral() as instance:
        sensor = SensorTicks(lake, sample.catalog, f"restate_{SLIDING['metric']}", instance)
        (request,) = sensor.run_requests()
        assert days_of(request) == [f"{FIRST - timedelta(days=1)}", f"{FIRST}"]
        days = (
            build_definitions(lake.settings, sample.catalog)
            .resolve_asset_graph()
            .get(dg.AssetKey(["gold", "sliding"]))
            .partitions_def
        )
        assert days is not None
        assert days.has_partition_key(days_of(request)[0])
