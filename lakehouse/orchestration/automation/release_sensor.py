"""The sensor ``released_versions``: versions of training sets and models made outside Dagster become partitions.

Making versions belongs to ``training_sets`` and ``models``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.orchestration.assets import model_assets
from lakehouse.orchestration.common.cursors import Cursor, state_of
from lakehouse.orchestration.common.resources import LakeTables  # noqa: TC001 (Dagster reads the annotations)
from lakehouse.training_sets import addresses, releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.settings import Settings
    from lakehouse.training_sets.releases import Release


_NOTHING_MISSING = "every released version is a partition"


def sensor(settings: Settings, catalog: Catalog) -> dg.SensorDefinition:
    """Adds missing partitions, each with the materialization that represents its release."""

    @dg.sensor(
        name="released_versions",
        minimum_interval_seconds=settings.sensor_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Versions that were made on the command line become partitions of datasets/* and models/*.",
    )
    def sense(context: dg.SensorEvaluationContext, tables: LakeTables) -> dg.SensorResult:
        reading = tables.reading(settings)
        names = sorted([*catalog.training_sets, *catalog.models])
        now = state_of(reading, [addresses.releases(reading)], [], *names)  # before the look: a later release is seen next time
        if Cursor.read(context.cursor).idle_state == now:
            return dg.SensorResult(skip_reason=_NOTHING_MISSING)
        missing = [
            release
            for release in _released(reading, catalog)
            if not context.instance.has_dynamic_partition(f"{partitions_of(release).name}", release.version)
        ]
        return dg.SensorResult(
            skip_reason=None if missing else _NOTHING_MISSING,
            dynamic_partitions_requests=[partitions_of(release).build_add_request([release.version]) for release in missing],
            asset_events=[materialization(reading, release) for release in missing],
            cursor=f"{Cursor(now)}",
        )

    return sense


def partitions_of(release: Release) -> dg.DynamicPartitionsDefinition:
    """The partitions definition to which a release belongs."""
    of_set = release.kind is ReleaseKind.TRAINING_SET
    return model_assets.set_versions(release.name) if of_set else model_assets.model_versions(release.name)


def materialization(settings: Settings, release: Release) -> dg.AssetMaterialization:
    """The materialization that represents a release in Dagster."""
    if release.kind is ReleaseKind.TRAINING_SET:
        key, metadata = model_assets.set_key(release.name), model_assets.set_metadata(settings, release)
    else:
        key, metadata = model_assets.model_key(release.name), model_assets.model_metadata(release)
    return dg.AssetMaterialization(key, partition=release.version, metadata=metadata)


def _released(settings: Settings, catalog: Catalog) -> list[Release]:
    """The versions of the sets and models that have a contract."""
    of_sets = [release for name in catalog.training_sets for release in releases.all_of(settings, ReleaseKind.TRAINING_SET, name)]
    return of_sets + [release for name in catalog.models for release in releases.all_of(settings, ReleaseKind.MODEL, name)]
