"""Checks as Dagster shows and re-runs them. The layer's own runs evaluate the same functions (see ``events``)."""

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date

import dagster as dg

from lakehouse.contracts import Catalog, MetricContract, SourceContract
from lakehouse.orchestration import events
from lakehouse.orchestration.resources import LakeSpark
from lakehouse.settings import Settings
from lakehouse.tables import checks, gold_checks, served
from lakehouse.tables.outcome import Outcome
from lakehouse.tables.series import Series

Judge = Callable[[Collection[date], LakeSpark], list[Outcome]]

_NEWEST_WITHOUT_PARTITION = 31


def source_checks(
    settings: Settings, contract: SourceContract, bronze: dg.AssetsDefinition, silver: dg.AssetsDefinition
) -> list[dg.AssetChecksDefinition]:
    """The checks of a source's bronze and silver."""

    def judge_bronze(days: Collection[date], _: LakeSpark) -> list[Outcome]:
        return checks.check_bronze(settings, contract, days)

    def judge_silver(days: Collection[date], _: LakeSpark) -> list[Outcome]:
        return checks.check_silver(settings, contract, days)

    return [_checks_of(bronze, checks.bronze_checks(contract), judge_bronze), _checks_of(silver, checks.SILVER, judge_silver)]


def metric_checks(
    settings: Settings, catalog: Catalog, metric: MetricContract, gold: dg.AssetsDefinition
) -> dg.AssetChecksDefinition:
    """The checks of a metric's days: of what would be published now, and whether that is what readers see."""

    def judge(days: Collection[date], spark: LakeSpark) -> list[Outcome]:
        return checks.check_gold(settings, served.daily(settings, catalog, metric), spark.session, days)

    return _checks_of(gold, gold_checks.names(metric.checks), judge)


def rollup_checks(
    settings: Settings, catalog: Catalog, metric: MetricContract, rollup: Series, gold: dg.AssetsDefinition
) -> dg.AssetChecksDefinition:
    """The checks of a longer period's numbers."""

    def judge(starts: Collection[date], spark: LakeSpark) -> list[Outcome]:
        daily = served.daily(settings, catalog, metric)
        one = Series(daily.metric, rollup.kind, daily.called)
        return checks.check_rollup(settings, catalog.sources[metric.source], daily, one, spark.session, starts)

    return _checks_of(gold, gold_checks.names(rollup.checks), judge)


def _checks_of(asset: dg.AssetsDefinition, names: Mapping[str, str], judge: Judge) -> dg.AssetChecksDefinition:
    key = asset.key
    specs = [
        dg.AssetCheckSpec(name, asset=key, description=description, partitions_def=asset.partitions_def)
        for name, description in names.items()
    ]

    @dg.multi_asset_check(name=f"{'_'.join(key.path)}_checks", specs=specs, can_subset=True)
    def check(context: dg.AssetCheckExecutionContext, spark: LakeSpark) -> Iterator[dg.AssetCheckResult]:
        op_context = context.op_execution_context
        if op_context.has_partition_key or op_context.has_partition_key_range:
            days = [date.fromisoformat(partition) for partition in op_context.partition_keys]
        else:
            known = sorted(context.instance.get_materialized_partitions(key))
            days = [date.fromisoformat(partition) for partition in known[-_NEWEST_WITHOUT_PARTITION:]]
        wanted = {check_key.name for check_key in context.selected_asset_check_keys}
        outcomes = [outcome for outcome in judge(days, spark) if outcome.check in wanted]
        if len(days) > 1:
            events.checked(context, key, outcomes)
        for name in sorted(wanted):
            own = [outcome for outcome in outcomes if outcome.check == name]
            failed = [outcome for outcome in own if not outcome.passed]
            metadata = dict(own[0].numbers) if len(own) == 1 else {"days": len(own), "days_failed": len(failed)}
            what = "; ".join(f"{outcome.day}: {outcome.explanation or 'failed'}" for outcome in failed[:10])
            warns = all(outcome.warns for outcome in failed or own)
            yield dg.AssetCheckResult(
                passed=not failed,
                asset_key=key,
                check_name=name,
                metadata=metadata,
                description=what or None,
                severity=events.severity(warns=warns),
            )

    return check
