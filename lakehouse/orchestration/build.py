"""Building Dagster definitions from a catalog of contracts."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.contracts.series import Series
from lakehouse.lake import Lake
from lakehouse.orchestration.assets import checks as assets_checks
from lakehouse.orchestration.assets import metric_assets, model_assets, source_assets
from lakehouse.orchestration.automation import alert_sensor, follow_sensors, landing_sensor, live_runs, model_sensors, schedules
from lakehouse.orchestration.resources import LakeSpark, LakeTables, readers

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.settings import Settings


def build_definitions(settings: Settings, catalog: Catalog) -> dg.Definitions:
    """Every asset, check, sensor and schedule of a catalog."""
    return definitions_of(Lake(settings), catalog)


def definitions_of(lake: Lake, catalog: Catalog, *, automated: bool = True) -> dg.Definitions:
    """The same for a lake, which may have a clock of its own.

    :param automated: whether a daemon uses them. A command runs the assets itself, without check steps.
    """
    assets: list[dg.AssetsDefinition | dg.AssetSpec] = []
    all_checks: list[dg.AssetChecksDefinition] = []
    all_sensors: list[dg.SensorDefinition] = []
    all_schedules: list[dg.ScheduleDefinition] = []
    with warnings.catch_warnings():
        # Backfill policies (beta) and partitioned checks (preview) are pinned with Dagster's version.
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        for contract in catalog.sources.values():
            bronze = source_assets.bronze_asset(lake, catalog, contract)
            silver = source_assets.silver_asset(lake, catalog, contract)
            assets += [bronze, source_assets.arrivals_spec(contract), silver]
            all_checks += assets_checks.source_checks(lake, contract, bronze, silver)
            kafka = contract.source.kafka
            all_sensors += [
                landing_sensor.stream_sensor(lake, contract, kafka)
                if kafka
                else landing_sensor.landing_sensor(lake, contract, catalog.sources.values()),
                landing_sensor.reconciling_sensor(lake, contract),
            ]
            all_sensors.append(follow_sensors.steward_sensor(lake, contract))
            all_schedules += schedules.of_source(lake, contract)
        for metric in catalog.metrics.values():
            gold = metric_assets.gold_asset(lake, catalog, metric)
            assets.append(gold)
            all_checks.append(assets_checks.metric_checks(lake, catalog, metric, gold))
            all_sensors.append(follow_sensors.restatement_sensor(lake, catalog, metric))
            all_schedules.append(schedules.daily_close(lake, catalog, metric))
            if metric.live is not None and metric.live.managed:
                all_sensors.append(live_runs.sensor(lake, metric, catalog.sources[metric.source]))
            for rollup in Series(metric).rollups:
                longer = metric_assets.rollup_asset(lake, catalog, metric, rollup)
                assets.append(longer)
                all_checks.append(assets_checks.rollup_checks(lake, catalog, metric, rollup, longer))
                all_sensors.append(follow_sensors.rollup_sensor(lake, catalog, metric, rollup))
                all_schedules.append(schedules.period_close(lake, catalog.sources[metric.source], rollup))
        all_sensors += [
            model_sensors.retraining_sensor(lake, catalog, model) for model in catalog.models.values() if model.retrain_when
        ]
        if catalog.training_sets:
            all_sensors.append(model_sensors.release_sensor(lake, catalog))
        assets += [model_assets.set_asset(lake, catalog, contract) for contract in catalog.training_sets.values()]
        for model in catalog.models.values():
            scores = model_assets.scores_asset(lake, catalog, model)
            assets += [model_assets.model_asset(lake, catalog, model), scores]
            all_checks.append(assets_checks.checks_of_scores(lake, catalog, model, scores))
        if catalog.sources:
            all_sensors += [follow_sensors.automation(lake, catalog), alert_sensor.notices_sensor(lake, catalog)]
        all_sensors.append(alert_sensor.alerts_sensor(lake, catalog))
        all_schedules.append(schedules.maintenance_schedule(lake, catalog))
        tables = [(layer, name) for name in catalog.sources for layer in ("bronze", "silver")]
        tables += [("gold", one.name) for metric in catalog.metrics.values() for one in (Series(metric), *Series(metric).rollups)]
        resources = {"spark": LakeSpark(long_lived=lake.settings.spark_long_lived), "tables": LakeTables()}
        # In process: a step in a separate process would continue when its run is killed.
        executor = dg.in_process_executor
        if not automated:
            return dg.Definitions(assets=assets, executor=executor, resources=resources)
        definitions = dg.Definitions(
            assets=assets,
            asset_checks=all_checks,
            sensors=all_sensors,
            schedules=all_schedules,
            executor=executor,
            resources={**resources, **readers(lake, tables)},
        )
        definitions.get_repository_def()  # copies sensors, which warns as well; it is kept for the next caller
        return definitions
