"""Building Dagster definitions from a catalog of contracts: for the code location of this project, and as a component of another.

``dg scaffold defs lakehouse.LakehouseComponent lake`` makes a folder with ``defs.yaml`` and two example contracts; the other
settings are those of the environment. Here are also the conditions for assets of a user's own that follow published numbers.
"""

from __future__ import annotations

import atexit
import gc
import time
import warnings
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster.components.scaffold.scaffold import Scaffolder, ScaffoldRequest, scaffold_with

from lakehouse.contracts import Catalog, load_catalog
from lakehouse.contracts.series import Series
from lakehouse.lake import Lake
from lakehouse.orchestration import dagster_internals
from lakehouse.orchestration.assets import checks as assets_checks
from lakehouse.orchestration.assets import metric_assets, model_assets, source_assets
from lakehouse.orchestration.assets.metric_assets import final_key, restated_key
from lakehouse.orchestration.automation import (
    alert_sensor,
    follow_sensors,
    landing_sensor,
    live_runs,
    looks,
    model_sensors,
    schedules,
)
from lakehouse.orchestration.dagster_internals import IMPLICIT_ASSET_JOB_NAME
from lakehouse.orchestration.resources import LakeSpark, LakeTables, readers
from lakehouse.orchestration.run_events import table_of
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from lakehouse.contracts import MetricContract


def build_definitions(settings: Settings, catalog: Catalog) -> dg.Definitions:
    """Every asset, check, sensor and schedule of a catalog."""
    return definitions_of(Lake(settings), catalog)


def code_location(settings: Settings, catalog: Catalog, module: str) -> dg.Definitions:
    """The definitions of a module: everything, or in the process of a run, what the run selects.

    With hundreds of contracts, Dagster needs longer to construct all assets and checks than a run needs for the numbers of a day.
    """
    atexit.register(gc.freeze)  # a process of Dagster has a million objects, and looked through them for a second at its end
    run = dagster_internals.run_of_process(module) if settings.load_selected else None
    part = part_of(catalog, _selected(run)) if run is not None and run.job_name == IMPLICIT_ASSET_JOB_NAME else None
    if part is None:
        return build_definitions(settings, catalog)
    lake = Lake(settings)
    with _pinned_features():
        assets = _assets(lake, catalog, part)
        checks = _checks(lake, catalog, part, assets)
        return dg.Definitions(assets, executor=dagster_internals.executor, resources=_resources(lake), asset_checks=checks)


def _selected(run: dg.DagsterRun) -> set[str]:
    """The tables that a run materializes or checks; empty if it does all of its job."""
    keys = {*(run.asset_selection or ()), *(check.asset_key for check in run.asset_check_selection or ())}
    return {table_of(key) for key in keys}


def part_of(catalog: Catalog, tables: Collection[str]) -> Catalog | None:
    """The contracts of some tables, such as ``gold/revenue_weekly``, and of all tables that these are made from.

    :returns: None without tables, or if one belongs to a model or a training set, or has no contract.
    """
    of_series = {
        series.name: daily.metric for daily in map(Series, catalog.metrics.values()) for series in (daily, *daily.rollups)
    }
    sources: set[str] = set()
    metrics: set[str] = set()

    def add(metric: MetricContract) -> None:
        for name in metric.derived_from:
            add(catalog.metrics[name])
        sources.update([metric.source, *metric.sources_named])
        metrics.add(metric.name)

    for table in tables:
        layer, _, name = table.partition("/")
        if layer in {"bronze", "arrivals", "silver"} and name in catalog.sources:
            sources.add(name)
        elif layer == "gold" and name in of_series:
            add(of_series[name])
        else:
            return None
    if not tables:
        return None
    return Catalog(
        {name: contract for name, contract in catalog.sources.items() if name in sources},
        {name: metric for name, metric in catalog.metrics.items() if name in metrics},
    )


def definitions_of(
    lake: Lake, catalog: Catalog, executor: dg.ExecutorDefinition | None = dagster_internals.executor
) -> dg.Definitions:
    """The same for a lake, which may have a clock of its own.

    :param executor: the executor of the code location; None leaves it to other definitions.
    """
    with _pinned_features():
        assets, of_each = _assets(lake, catalog, catalog), kinds(lake, catalog)
        every_daily = [Series(metric) for metric in catalog.metrics.values()]
        tables = [(layer, name) for name in catalog.sources for layer in ("bronze", "silver")]
        tables += [("gold", series.name) for daily in every_daily for series in (daily, *daily.rollups)]
        definitions = dg.Definitions(
            assets=assets,
            asset_checks=_checks(lake, catalog, catalog, assets),
            sensors=_sensors(lake, catalog, of_each),
            schedules=[
                *(schedules.schedule_of(lake, kind) for kind in of_each if kind.cron is not None),
                schedules.maintenance_schedule(lake, catalog),
            ],
            executor=executor,
            resources=_resources(lake) | readers(lake, tables),
        )
        definitions.get_repository_def()  # copies sensors, which warns as well; it is kept for the next caller
        return definitions


def assets_of(lake: Lake, catalog: Catalog) -> dg.Definitions:
    """The assets alone, for a command that runs them itself: it needs no check steps, and no sensors and schedules."""
    with _pinned_features():
        return dg.Definitions(
            assets=_assets(lake, catalog, catalog), executor=dagster_internals.executor, resources=_resources(lake)
        )


@contextmanager
def _pinned_features() -> Iterator[None]:
    """Without warnings of backfill policies (beta) and partitioned checks (preview): they are pinned with Dagster's version."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        yield


def _resources(lake: Lake) -> dict[str, Any]:
    return {"spark": LakeSpark(long_lived=lake.settings.spark_long_lived), "tables": LakeTables()}


def _assets(lake: Lake, catalog: Catalog, part: Catalog) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """The assets of a part of a catalog."""
    assets: list[dg.AssetsDefinition | dg.AssetSpec] = []
    for contract in part.sources.values():
        bronze, silver = (make(lake, catalog, contract) for make in (source_assets.bronze_asset, source_assets.silver_asset))
        assets += [bronze, source_assets.arrivals_spec(contract), silver]
    for metric in part.metrics.values():
        series = [Series(metric), *Series(metric).rollups]
        made = [metric_assets.gold_asset(lake, catalog, metric)]
        made += [metric_assets.rollup_asset(lake, catalog, metric, rollup) for rollup in series[1:]]
        assets += made
        if lake.settings.finality_assets:
            assets += [spec for gold, of in zip(made, series) for spec in metric_assets.finality_specs(gold, of)]
    assets += [model_assets.set_asset(lake, catalog, contract) for contract in part.training_sets.values()]
    for model in part.models.values():
        assets += [model_assets.model_asset(lake, catalog, model), model_assets.scores_asset(lake, catalog, model)]
    return assets


def _checks(
    lake: Lake, catalog: Catalog, part: Catalog, of_part: Sequence[dg.AssetsDefinition | dg.AssetSpec]
) -> list[dg.AssetChecksDefinition]:
    assets = {asset.key: asset for asset in of_part if isinstance(asset, dg.AssetsDefinition)}
    checks: list[dg.AssetChecksDefinition] = []
    for source, contract in part.sources.items():
        bronze, _, silver = source_assets.keys(source)
        checks += assets_checks.source_checks(lake, contract, assets[bronze], assets[silver])
    for metric in part.metrics.values():
        checks.append(assets_checks.metric_checks(lake, catalog, metric, assets[metric_assets.gold_key(metric.name)]))
        for rollup in Series(metric).rollups:
            longer = assets[metric_assets.gold_key(rollup.name)]
            checks.append(assets_checks.rollup_checks(lake, catalog, metric, rollup, longer))
    for model in part.models.values():
        checks.append(assets_checks.checks_of_scores(lake, catalog, model, assets[model_assets.scores_key(model.name)]))
    return checks


def kinds(lake: Lake, catalog: Catalog) -> list[looks.LookKind]:
    """All that looks at contracts one by one, each kind with a sensor or a schedule."""
    modules = (landing_sensor, follow_sensors, live_runs, model_sensors, schedules)
    return [kind for module in modules for kind in module.kinds(lake, catalog) if kind.looks]


def _sensors(lake: Lake, catalog: Catalog, of_each: list[looks.LookKind]) -> list[dg.SensorDefinition]:
    sensors: list[dg.SensorDefinition] = [looks.sensor_of(lake, kind) for kind in of_each if kind.cron is None]
    if catalog.training_sets:
        sensors.append(model_sensors.release_sensor(lake, catalog))
    if catalog.sources:
        sensors += [follow_sensors.automation(lake, catalog), alert_sensor.notices_sensor(lake, catalog)]
    return [*sensors, alert_sensor.alerts_sensor(lake, catalog, of_each)]


def sensor_ages(lake: Lake, catalog: Catalog, instance: dg.DagsterInstance) -> Callable[[], dict[str, float]]:
    """Reads how many seconds ago each sensor began its last tick, by name, without those that a person has stopped."""
    with _pinned_features():
        names = {sensor.name for sensor in _sensors(lake, catalog, kinds(lake, catalog))}

    def read() -> dict[str, float]:
        now, running = time.time(), looks.running_sensors(instance, names)
        ticks = {name: getattr(data, "last_tick_timestamp", None) for name, data in running.items()}
        return {name: max(now - at, 0.0) for name, at in ticks.items() if at is not None}

    return read


_EXAMPLES = ("orders.yaml", "orders_daily.yaml")


class LakehouseScaffolder(Scaffolder):
    """Writes ``defs.yaml`` and a folder of contracts with an example."""

    def scaffold(self, request: ScaffoldRequest) -> None:
        """Write the files of a new component."""
        folder = request.target_path / "contracts"
        folder.mkdir(parents=True, exist_ok=True)
        templates = resources.files("lakehouse.project") / "templates"
        for name in _EXAMPLES:
            (folder / name).write_text((templates / name).read_text(encoding="utf-8"), encoding="utf-8")
        defs = f"type: {request.type_name}\n\nattributes:\n  contracts: contracts\n"
        (request.target_path / "defs.yaml").write_text(defs, encoding="utf-8")


@scaffold_with(LakehouseScaffolder)
class LakehouseComponent(dg.Component, dg.Resolvable, dg.Model):
    """Bronze, Silver and gold of the sources and metrics in a folder of contracts, with checks, sensors and schedules.

    :param contracts: the folder, relative to that of ``defs.yaml``.
    :param executor: whether the code location gets the executor of this project, which shared runs need. If the project has one
        of its own, set it to false: each table then has runs of its own, as with ``LAKEHOUSE_SHARED_RUNS=false``.
    :param finality: whether there are assets of the periods that became final and of those that were restated, for
        :func:`when_final` and :func:`when_restated`.
    """

    contracts: str = "contracts"
    executor: bool = True
    finality: bool = True

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions.

        :raises ContractError: with one line per mistake.
        """
        folder = Path(context.path) / self.contracts
        without_executor = {} if self.executor else {"shared_runs": False}
        settings = Settings(contracts=folder, bundled_contracts=False, finality_assets=self.finality, **without_executor)
        executor = dagster_internals.executor if self.executor else None
        return definitions_of(Lake(settings), load_catalog(folder, bundled=False), executor)


def when_final(series: str) -> dg.AutomationCondition[dg.AssetKey]:
    """Materialize partitions whose period of a series became final.

    The asset has to depend on :func:`lakehouse.final_key` of the series, whose partitions are those of the series.

    :param series: a metric, or one of its roll-ups, such as ``revenue`` or ``revenue_monthly``.
    """
    updated = dg.AutomationCondition.any_deps_updated().allow(dg.AssetSelection.assets(final_key(series)))
    return source_assets.following(updated, f"{series} is final")


def when_restated(series: str) -> dg.AutomationCondition[dg.AssetKey]:
    """Materialize partitions whose period of a series has a new number in place of a published one.

    The asset has to depend on :func:`lakehouse.restated_key` of the series.
    """
    updated = dg.AutomationCondition.any_deps_updated().allow(dg.AssetSelection.assets(restated_key(series)))
    return source_assets.following(updated, f"{series} was restated")
