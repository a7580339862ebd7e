"""Versions that were made on the command line become partitions, once, with what is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import pytest

from lakehouse.contracts import load_catalog
from lakehouse.orchestration.assets.model_assets import model_key, set_key
from lakehouse_tests.support import trained_lake
from lakehouse_tests.support.sensor_ticks import SensorTicks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(name="sensor")
def _sensor(tmp_path: Path) -> Iterator[SensorTicks]:
    """The sensor of a deployment with a training set in two versions, one of which is a partition already."""
    with trained_lake.own_modules(), dg.DagsterInstance.ephemeral() as instance:
        sample = trained_lake.settings_of(tmp_path)
        trained_lake.fill(sample)
        instance.add_dynamic_partitions("set_versions_training_data", ["v5.1"])
        yield SensorTicks(sample, load_catalog(sample.settings.contracts, bundled=False), "released_versions", instance)


def _added(sensor: SensorTicks) -> dict[str, tuple[str, dg.AssetMaterialization]]:
    """By full name of a version, the partitions that it is added to and its materialization; the daemon's part is done here."""
    data = sensor.tick()
    requests = [(request.partitions_def_name, *request.partition_keys) for request in data.dynamic_partitions_requests or []]
    for name, version in requests:
        sensor.instance.add_dynamic_partitions(name, [version])
    events = {f"{event.asset_key.path[-1]} {event.partition}": event for event in data.asset_events}
    return dict(zip(events, zip([name for name, _ in requests], events.values()), strict=True))


@pytest.mark.merge
def test_each_released_version_is_shown_once(sensor: SensorTicks) -> None:
    added = _added(sensor)
    [(name, (partitions, event))] = added.items()
    assert (name, partitions, event.asset_key) == ("training_data v5.0", "set_versions_training_data", set_key("training_data"))
    assert event.metadata["dagster/row_count"].value == trained_lake.ROWS
    assert sensor.skip_message() == "every released version is a partition"

    trained_lake.train(sensor.lake, "v2.3")
    added = _added(sensor)
    [(name, (partitions, event))] = added.items()
    assert (name, partitions, event.asset_key) == ("fraud v2.3", "model_versions_fraud", model_key("fraud"))
    assert event.metadata["training_set"].value == "training_data_v5.0"
    for _ in range(2):
        assert _added(sensor) == {}
