"""Promotes a stage: readers of each table see it in one step, first in silver, then in the days, then in longer periods.

Sensors request no runs of the source in the meantime. Every step is computed from the current Bronze, so the result includes
arrivals since the stage was computed. A stopped promotion is continued by the same command. The conditions for a promotion belong
to ``stages.staging``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakehouse import object_store
from lakehouse.gold.numbers import published_table, served_version
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import applied_inputs
from lakehouse.orchestration import plan_runs
from lakehouse.orchestration.assets.metric_assets import FOLLOWS_TAG, gold_key
from lakehouse.orchestration.execution.in_process import InProcess, RunFailedError, together
from lakehouse.orchestration.plan_runs import backfill_lock
from lakehouse.orchestration.run_events import asset_key
from lakehouse.reparse import apply as reading
from lakehouse.stages import stage_log, staging, validation
from lakehouse.stages.stage_log import StageEventKind, StageKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import date

    import dagster as dg
    from pyspark.sql import SparkSession

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.series import Series
    from lakehouse.lake import Lake
    from lakehouse.stages.stage_log import Stage


@dataclass(frozen=True)
class PromotedStage:
    """The changes by a promotion: the event days of silver that it updated, and the restated periods by series.

    ``failed_checks`` describes the checks that fail, and the numbers that they hold: readers do not see these.
    """

    stage: Stage
    silver_days: list[date] = field(default_factory=list)
    restated: dict[str, list[date]] = field(default_factory=dict)
    failed_checks: Sequence[str] = ()


class StagePromotion:
    """Promotes stages of one deployment.

    :param instance: the Dagster instance that stores the runs.
    :param session: returns a Spark session; called only if the stage must be recomputed.
    """

    def __init__(self, lake: Lake, catalog: Catalog, instance: dg.DagsterInstance, session: Callable[[], SparkSession]) -> None:
        self._lake, self._catalog, self._instance, self._session = lake, catalog, instance, session

    def promote(self, name: str, by: str, reason: str, sign_off: str | None = None) -> PromotedStage:
        """Make a stage visible to readers.

        :param sign_off: the reason for accepting exceeded thresholds and failed checks.
        :raises StageError: if a condition forbids it; nothing has changed.
        :raises BackfillRunningError: if another promotion or a backfill of the source is running.
        :raises RunFailedError: if a run fails; the same command continues.
        """
        lake, catalog = self._lake, self._catalog
        source = stage_log.find(lake, name).source
        with backfill_lock(lake, source):
            stage = stage_log.find(lake, name)
            if stage.state is StageEventKind.CREATED and staging.is_outdated(lake, stage):
                stage = staging.refresh(lake, catalog, self._session, name, by, f"stage:{name}")
            staging.check_promotion(catalog, stage, by, sign_off)
            if stage.state is StageEventKind.CREATED:
                begin = staging.next_event(lake, stage, StageEventKind.PROMOTING, by, reason, sign_off=sign_off)
                stage_log.record(lake, begin)
                stage = stage_log.find(lake, name)
            begun = stage.events[-1]
            tags = plan_runs.tags_of_stage(name, stage.run_name, begun.by, begun.reason, begun.sign_off)
            self._take_input(stage, tags)
            done = self._through_the_layers(stage, tags)
            end = staging.next_event(lake, stage, StageEventKind.PROMOTED, begun.by, begun.reason, sign_off=begun.sign_off)
            stage_log.record(lake, end)
            for layer in staging.TABLES:  # the stage's files stay
                object_store.remove_folder(lake.storage_options, f"{lake.stage(name).root}/{layer}")
            return replace(done, stage=stage_log.find(lake, name))

    def _take_input(self, stage: Stage, tags: dict[str, str]) -> None:
        """Apply the staged input to the tables that readers see."""
        if stage.created.kind is StageKind.FILES:
            lake, contract = self._lake.stage(stage.name), self._catalog.sources[stage.source]
            days = validation.staged_arrival_days(lake, contract)
            with_its_files = self._lake.with_settings(landing=lake.landing_of(stage.source))
            InProcess(with_its_files, self._catalog, self._instance).run(asset_key("bronze", stage.source), days, tags)
        elif stage.changed_metric is None:
            begun, contract = stage.events[-1], self._catalog.sources[stage.source]
            lake = self._lake.stage(stage.name)
            is_whole = {stage.created.about.get(bound) for bound in ("first", "last")} == {None}
            reading.apply(self._lake, contract, self._session, lake, by=begun.by, reason=begun.reason, whole=is_whole)

    def _through_the_layers(self, stage: Stage, tags: dict[str, str]) -> PromotedStage:
        lake, catalog, source = self._lake, self._catalog, stage.source
        layers = InProcess(lake, catalog, self._instance)
        silver_days = sorted(applied_inputs.pending(lake, source))
        if silver_days:
            layers.run(asset_key("silver", source), silver_days, tags)
        dailies = [(metric.name, served_version.daily(lake, catalog, metric)) for metric in catalog.metrics_of(source)]
        # The days of all metrics come before any longer period.
        every = [*dailies, *((rollup.name, rollup) for _, daily in dailies for rollup in daily.rollups)]
        restated, failed = {}, []
        for asset, series in every:
            anew = published_table.known_days(lake, series) if asset == stage.changed_metric else set()
            try:
                restated[asset] = self._follow(layers, gold_key(asset), series, anew, tags)
            except RunFailedError as problem:
                failed.append(problem)  # the other series are still published
        if failed:
            raise together(failed)
        layers.note_failures(source)
        return PromotedStage(stage, silver_days, restated, [*layers.failed_checks.values()])

    def _follow(
        self, layers: InProcess, key: dg.AssetKey, series: Series, anew: Collection[date], tags: dict[str, str]
    ) -> list[date]:
        """Publish the pending periods of a series and the periods ``anew``, which are recomputed, if there are any."""
        pending = find_pending(self._lake, series)
        starts = sorted({*pending.starts, *anew})
        return layers.run(key, starts, {**tags, FOLLOWS_TAG: f"{series.name}:{pending.cause}"}) if starts else []
