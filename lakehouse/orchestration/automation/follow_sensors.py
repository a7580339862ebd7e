"""The sensors that start Silver and gold: Silver after decisions, gold after changes of Silver, roll-ups after published days.

The sensors that start Bronze are in ``landing_sensor``, the schedules of due numbers in ``schedules``. All sensors read with
delta-rs; their cursors are described in ``automation.looks``. After a file Silver needs no sensor: its automation
condition follows the asset ``arrivals`` (see ``assets.source_assets``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse import locations
from lakehouse.contracts import derived
from lakehouse.contracts.series import Series
from lakehouse.delta import provenance
from lakehouse.gold.numbers import served_version
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import applied_inputs
from lakehouse.orchestration import plan_runs
from lakehouse.orchestration.assets.metric_assets import FOLLOWS_TAG, gold_key
from lakehouse.orchestration.assets.source_assets import keys
from lakehouse.orchestration.automation import looks
from lakehouse.orchestration.automation.ready import Ready, tables_of_metrics, tables_of_source, tag_of
from lakehouse.orchestration.run_events import table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import date

    from lakehouse.contracts import Catalog, MetricContract, SourceContract
    from lakehouse.lake import Lake, Table

#: Set on runs that follow decisions and redactions: the source, and a hash of these.
DECIDED_TAG = "lakehouse/decided"
#: Dagster evaluates so many conditions in a tenth of a second; with more sources it does so less often.
_CONDITIONS_A_SECOND = 10


@dataclass(frozen=True)
class _Waiting:
    """The next run: the first days of its partitions, and its cause with the tag for causes of this kind."""

    starts: Collection[date]
    tag: str
    cause: str


@dataclass(frozen=True)
class _FollowingAsset:
    """An asset, and the look that starts it.

    :param subject: the source, or the series.
    :param tables: it, and those that follow it, each with its contract.
    :param contract: what is paused with the look.
    :param nothing: the skip reason if nothing is pending.
    :param of: a word for what its runs are about.
    """

    look: str
    key: dg.AssetKey
    subject: str
    tables: Callable[[Lake], Mapping[dg.AssetKey, str]]
    contract: str
    nothing: str
    of: str


def kinds(lake: Lake, catalog: Catalog) -> list[looks.LookKind]:
    """The kinds ``stewards``, with a look for each source, and ``restate``, with one for each series of a metric."""

    @cache  # for the first tick, not for each command that builds definitions
    def contracts() -> str:
        return plan_runs.short_hash(
            "|".join(f"{name} {provenance.of_contract(metric)}" for name, metric in catalog.metrics.items())
        )

    restate = []
    for metric in catalog.metrics.values():
        restate.append(_of_days(catalog, metric, contracts))
        restate += [_of_periods(catalog, metric, rollup, contracts) for rollup in Series(metric).rollups]
    stewards = [_of_decisions(catalog, contract) for contract in catalog.sources.values()]
    of_decisions = "Decisions and redactions start silver for the days that they affect."
    of_changes = "Changed days start gold, and published numbers what is computed from them, for exactly these days or periods."
    seconds = lake.tick_seconds
    return [looks.LookKind("stewards", of_decisions, stewards, seconds), looks.LookKind("restate", of_changes, restate, seconds)]


def _of_decisions(catalog: Catalog, contract: SourceContract) -> looks.Look:
    """Runs silver for exactly the days affected by a decision or a redaction."""
    source = contract.dataset

    def look(lake: Lake) -> _Waiting:
        waiting = applied_inputs.pending_manual_inputs(lake, source)
        return _Waiting(
            waiting, DECIDED_TAG, f"{source}:{plan_runs.short_hash('|'.join(sorted(set().union(*waiting.values()))))}"
        )

    def read(lake: Lake) -> list[Table]:
        of_source = [locations.decisions(lake, source), locations.redactions(lake, source)]
        return [*of_source, locations.rebuild_requests(lake), locations.applied_inputs(lake)]

    bronze_key, _, silver_key = keys(source)

    def tables(lake: Lake) -> dict[dg.AssetKey, str]:
        return {key: of for key, of in tables_of_source(lake, catalog, source).items() if key != bronze_key}

    nothing = "no decision waits for silver"
    asset = _FollowingAsset(f"stewards_{source}", silver_key, source, tables, f"source/{source}", nothing, of="decisions")
    return _look_for_one_run([source], asset, look, lambda lake: looks.state_of(lake, read(lake), [contract]))


def _of_days(catalog: Catalog, metric: MetricContract, contracts: Callable[[], str]) -> looks.Look:
    """Runs gold for exactly the days affected by silver's changes; scattered days share one run."""

    def look(lake: Lake) -> _Waiting:
        pending = find_pending(lake, served_version.daily(lake, catalog, metric))
        return _Waiting(pending.starts, FOLLOWS_TAG, f"{metric.name}:{pending.cause}")

    def read(lake: Lake) -> list[Table]:
        below = _inputs(lake, Series(metric)) if metric.is_derived else [*locations.every_silver_read(lake, metric).values()]
        below += [locations.intervals(lake, dimension) for dimension in metric.dimensions]
        return [*below, locations.gold(lake, Series(metric)), locations.restatements(lake), locations.reverts(lake)]

    nothing = f"{metric.name} follows its inputs" if metric.is_derived else "gold follows silver"
    asset = _of_series(catalog, metric, Series(metric), nothing, "days")
    sources = [contract.dataset for contract in catalog.sources_of(metric)]
    return _look_for_one_run(sources, asset, look, lambda lake: looks.state_of(lake, read(lake), [], contracts()))


def _of_periods(catalog: Catalog, metric: MetricContract, rollup: Series, contracts: Callable[[], str]) -> looks.Look:
    """Runs a roll-up for exactly the periods whose days have been restated."""

    def look(lake: Lake) -> _Waiting:
        pending = find_pending(lake, rollup)
        return _Waiting(pending.starts, FOLLOWS_TAG, f"{rollup.name}:{pending.cause}")

    def read(lake: Lake) -> list[Table]:
        return [*_inputs(lake, rollup), locations.gold(lake, Series(metric)), locations.restatements(lake)]

    nothing = f"{rollup.name} follows its days"
    asset = _of_series(catalog, metric, rollup, nothing, "periods")
    sources = [contract.dataset for contract in catalog.sources_of(metric)]
    return _look_for_one_run(sources, asset, look, lambda lake: looks.state_of(lake, read(lake), [], contracts()))


def _of_series(catalog: Catalog, metric: MetricContract, series: Series, nothing: str, of: str) -> _FollowingAsset:
    """A series of a metric; after days its roll-ups follow, and the metrics derived from it."""
    following = [metric, *derived.downstream(catalog.metrics, [metric.name])]

    def tables(lake: Lake) -> dict[dg.AssetKey, str]:
        return tables_of_metrics(lake, catalog, following) if series == Series(metric) else {}

    name = series.name
    return _FollowingAsset(f"restate_{name}", gold_key(name), name, tables, f"metric/{metric.name}", nothing, of)


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
        minimum_interval_seconds=lake.tick_seconds + len(targets) // _CONDITIONS_A_SECOND,
    )


def _look_for_one_run(
    sources: Sequence[str], asset: _FollowingAsset, pending: Callable[[Lake], _Waiting], state: Callable[[Lake], str]
) -> looks.Look:
    """A look for everything pending for an asset and what follows from it. Later changes are for the next run.

    :param state: the fingerprint of everything that ``pending`` reads; while it equals an idle tick's, nothing is pending.
    """

    def take(context: looks.LookContext, lake: Lake) -> list[looks.Answer]:
        now, is_idle = context.newest(lambda: state(lake))
        waiting = None if is_idle else pending(lake)
        if waiting is None or not waiting.starts:
            context.keep(looks.Cursor(now))
            return [dg.SkipReason(asset.nothing)]
        planned = plan_runs.plan_run_requests(
            context.instance, tag_of(waiting.tag, asset.subject), [waiting.cause], asset=asset.key
        )
        if planned.on_their_way:
            return [dg.SkipReason(f"a run for {waiting.cause} is in progress")]
        if planned.given_up:
            return [
                dg.SkipReason(
                    f"{plan_runs.ATTEMPTS} runs have failed for these {asset.of}; see the newest one and start it again"
                )
            ]
        attempt, tables = planned.attempts[waiting.cause], asset.tables(lake)
        return [Ready(waiting.tag, asset.subject, waiting.cause, attempt, asset.key, waiting.starts, tables)]

    return looks.Look(asset.look, table_of(asset.key), asset.contract, asset.nothing, take, sources)
