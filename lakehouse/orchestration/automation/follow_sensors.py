"""The sensors that start Silver and gold: Silver after decisions, gold after changes of Silver, roll-ups after published days.

The sensors that start Bronze are in ``landing_sensor``, the schedules of due numbers in ``schedules``. All sensors read with
delta-rs; their cursors are described in ``orchestration.run_requests``. After a file Silver needs no sensor: its automation
condition follows the asset ``arrivals`` (see ``assets.source_assets``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import served_version
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import applied_inputs
from lakehouse.orchestration.assets.metric_assets import FOLLOWS_TAG, gold_key
from lakehouse.orchestration.assets.source_assets import keys
from lakehouse.orchestration.dagster_internals import SENSOR_NAME_TAG
from lakehouse.orchestration.plan_runs import BACKFILL_RUNNING, is_backfill_running
from lakehouse.orchestration.resources import LakeTables
from lakehouse.orchestration.run_events import tags_for
from lakehouse.orchestration.run_requests import ATTEMPTS, NO_RETRIES, RUNNING, Cursor, plan_run_requests, short_hash, state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import date

    from lakehouse.contracts import Catalog, MetricContract, SourceContract
    from lakehouse.lake import Lake, Table

#: Set on runs that follow decisions and redactions: the source, and a hash of these.
DECIDED_TAG = "lakehouse/decided"


@dataclass(frozen=True)
class _Waiting:
    """The next run: the first days of its partitions, and the tag that names its cause."""

    starts: Collection[date]
    tag: dict[str, str]


@dataclass(frozen=True)
class _FollowingAsset:
    """A sensor and the asset that it starts.

    :param nothing: the skip reason if nothing is pending.
    :param subject: a word for the subject of the runs.
    """

    sensor: str
    key: dg.AssetKey
    description: str
    nothing: str
    subject: str


def steward_sensor(lake: Lake, contract: SourceContract) -> dg.SensorDefinition:
    """Runs silver for exactly the days affected by a decision or a redaction."""
    source = contract.dataset

    def look(lake: Lake) -> _Waiting:
        waiting = applied_inputs.pending_manual_inputs(lake, source)
        return _Waiting(waiting, {DECIDED_TAG: f"{source}:{short_hash('|'.join(sorted(set().union(*waiting.values()))))}"})

    def read(lake: Lake) -> list[Table]:
        of_source = [locations.decisions(lake, source), locations.redactions(lake, source)]
        return [*of_source, locations.rebuild_requests(lake), locations.applied_inputs(lake)]

    *_, silver_key = keys(source)
    asset = _FollowingAsset(
        f"stewards_{source}",
        silver_key,
        f"Decisions and redactions start silver/{source} for the days that they affect.",
        nothing="no decision waits for silver",
        subject="decisions",
    )
    return _sensor_of_one_run(lake, [source], asset, look, lambda lake: state_of(lake, read(lake), [contract]))


def restatement_sensor(lake: Lake, catalog: Catalog, metric: MetricContract) -> dg.SensorDefinition:
    """Runs gold for exactly the days affected by silver's changes; scattered days share one run."""

    def look(lake: Lake) -> _Waiting:
        pending = find_pending(lake, served_version.daily(lake, catalog, metric))
        return _Waiting(pending.starts, {FOLLOWS_TAG: f"{metric.name}:{pending.cause}"})

    def read(lake: Lake) -> list[Table]:
        below = _inputs(lake, Series(metric)) if metric.is_derived else [*locations.every_silver_read(lake, metric).values()]
        below += [locations.intervals(lake, dimension) for dimension in metric.dimensions]
        return [*below, locations.gold(lake, Series(metric)), locations.restatements(lake), locations.reverts(lake)]

    upstream = ", ".join(metric.derived_from or [f"silver/{entry.silver}" for entry in metric.read])
    changes = " and ".join([f"days of {upstream}", *(f"attributes of {name}" for name in metric.dimensions)])
    asset = _FollowingAsset(
        f"restate_{metric.name}",
        gold_key(metric.name),
        f"Changed {changes} start gold/{metric.name} for the days that they affect.",
        nothing=f"{metric.name} follows its inputs" if metric.is_derived else "gold follows silver",
        subject="days",
    )
    sources, contracts = [contract.dataset for contract in catalog.sources_of(metric)], list(catalog.metrics.values())
    return _sensor_of_one_run(lake, sources, asset, look, lambda lake: state_of(lake, read(lake), contracts))


def rollup_sensor(lake: Lake, catalog: Catalog, metric: MetricContract, rollup: Series) -> dg.SensorDefinition:
    """Runs a roll-up for exactly the periods whose days have been restated."""

    def look(lake: Lake) -> _Waiting:
        pending = find_pending(lake, rollup)
        return _Waiting(pending.starts, {FOLLOWS_TAG: f"{rollup.name}:{pending.cause}"})

    def read(lake: Lake) -> list[Table]:
        return [*_inputs(lake, rollup), locations.gold(lake, Series(metric)), locations.restatements(lake)]

    upstream = ", ".join(f"{one.metric}{rollup.kind.suffix}" for one in metric.inputs) or metric.name
    asset = _FollowingAsset(
        f"restate_{rollup.name}",
        gold_key(rollup.name),
        f"Published numbers of gold/{upstream} start gold/{rollup.name} for their periods.",
        nothing=f"{rollup.name} follows its days",
        subject="periods",
    )
    sources, contracts = [contract.dataset for contract in catalog.sources_of(metric)], list(catalog.metrics.values())
    return _sensor_of_one_run(lake, sources, asset, look, lambda lake: state_of(lake, read(lake), contracts))


def _inputs(lake: Lake, series: Series) -> list[Table]:
    """The input tables of a derived series."""
    return [locations.gold_of(lake, one.metric, series.kind) for one in series.metric.inputs]


def automation(lake: Lake, catalog: Catalog) -> dg.AutomationConditionSensorDefinition:
    """Evaluates the automation conditions of silver, which follow arrivals."""
    targets = [keys(source)[-1] for source in catalog.sources]
    return dg.AutomationConditionSensorDefinition(
        "late_partitions",
        target=dg.AssetSelection.assets(*targets),
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=lake.settings.sensor_seconds,
    )


def _sensor_of_one_run(
    lake: Lake,
    sources: Collection[str],
    asset: _FollowingAsset,
    look: Callable[[Lake], _Waiting],
    state: Callable[[Lake], str],
) -> dg.SensorDefinition:
    """A sensor that requests one run of an asset for everything pending, and the next run after that one has ended.

    Work that becomes pending in the meantime is left to the next run: a concurrent second run would recompute the days of the
    first, because their completion is not recorded yet.

    :param state: the fingerprint of everything that ``look`` reads; while it equals an idle tick's, nothing is pending.
    """

    @dg.sensor(
        name=asset.sensor,
        target=dg.AssetSelection.assets(asset.key),
        minimum_interval_seconds=lake.settings.sensor_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=asset.description,
    )
    def sense(context: dg.SensorEvaluationContext, tables: LakeTables) -> dg.RunRequest | dg.SkipReason:
        if any(is_backfill_running(lake, source) for source in sources):
            return dg.SkipReason(BACKFILL_RUNNING)
        reading = tables.reading(lake)
        now = state(reading)  # before the look: a write in between changes the state, so that the next tick looks again
        waiting = None if Cursor.read(context.cursor).idle_state == now else look(reading)
        if waiting is None or not waiting.starts:
            context.update_cursor(f"{Cursor(now)}")
            return dg.SkipReason(asset.nothing)
        if context.instance.get_runs_count(dg.RunsFilter(tags={SENSOR_NAME_TAG: asset.sensor}, statuses=RUNNING)):
            return dg.SkipReason(f"a run for {asset.subject} is in progress; the next one is requested when it has ended")
        (cause,) = waiting.tag.values()
        planned = plan_run_requests(context.instance, next(iter(waiting.tag)), [cause])
        if planned.on_their_way:
            return dg.SkipReason(f"a run for {cause} is in progress")
        if planned.given_up:
            return dg.SkipReason(f"{ATTEMPTS} runs have failed for these {asset.subject}; see the newest one and start it again")
        tags = {**tags_for(waiting.starts), **waiting.tag, **NO_RETRIES}
        return dg.RunRequest(run_key=planned.run_keys[cause], asset_selection=[asset.key], asset_check_keys=[], tags=tags)

    return sense
