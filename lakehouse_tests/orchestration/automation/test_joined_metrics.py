"""A change of a dimension starts the metrics that join it, for the days that it concerns; the asset graph shows the joins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from lakehouse.orchestration.build import build_definitions
from lakehouse_tests.support.joined_lake import joined_lake, metric
from lakehouse_tests.support.sensor_ticks import SensorTicks, days_of

if TYPE_CHECKING:
    from lakehouse.lake import Lake


def test_gold_depends_on_every_day_of_the_dimensions_that_it_joins(lake: Lake) -> None:
    catalog = joined_lake(lake, None, metric(), metric("plain", joins=[], grain=[])).catalog
    graph = build_definitions(lake.settings, catalog).resolve_asset_graph()
    silver = {name: dg.AssetKey(["silver", name]) for name in ("events", "customers")}
    assert graph.get(dg.AssetKey(["gold", "spend"])).parent_keys == {silver["events"], silver["customers"]}
    assert graph.get(dg.AssetKey(["gold", "plain"])).parent_keys == {silver["events"]}


@pytest.mark.merge
@pytest.mark.spark
def test_a_changed_attribute_starts_the_days_of_its_facts(lake: Lake, spark: Any) -> None:
    sample = joined_lake(lake, spark)
    sample.customer("ann", (1, ("basic", None, None)))
    sample.deliver(6, "a,1,1.5,ann", "b,1,2.5,ann", "c,1,4.5,ann", "d,1,4.5,bob")
    sample.publish()
    with dg.DagsterInstance.ephemeral() as instance:
        sensor = SensorTicks(lake, sample.catalog, "restate_spend", instance)
        assert sensor.skip_message() == "gold follows silver"
        sample.customer("ann", (1, ("basic", None, None)), (2, ("gold", None, None)))
        (request,) = sensor.run_requests()
        assert days_of(request) == ["2024-02-02", "2024-02-04"]
        sample.publish()
        assert sensor.skip_message() == "gold follows silver"
