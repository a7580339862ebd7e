"""The asset of a metric: gold by event day."""

from collections.abc import Iterator

import dagster as dg

from lakehouse.contracts import MetricContract, SourceContract
from lakehouse.orchestration import events
from lakehouse.orchestration.partitions import days_of_run, event_days
from lakehouse.orchestration.resources import LakeSpark
from lakehouse.settings import Settings
from lakehouse.tables import checks, gold, publish

#: Set on runs that answer changes of silver: the silver version they bring the metric up to.
FOLLOWS_TAG = "lakehouse/follows_silver"


def gold_key(metric: str) -> dg.AssetKey:
    """The asset key of a metric."""
    return dg.AssetKey(["gold", metric])


def gold_asset(settings: Settings, metric: MetricContract, contract: SourceContract) -> dg.AssetsDefinition:
    """Gold by event day; a day that comes out equal is not written."""
    key = gold_key(metric.metric)
    mapping = (
        dg.TimeWindowPartitionMapping(start_offset=1 - metric.window, end_offset=0, allow_nonexistent_upstream_partitions=True)
        if metric.window > 1
        else dg.IdentityPartitionMapping()
    )

    @dg.asset(
        key=key,
        deps=[dg.AssetDep(["silver", metric.source], partition_mapping=mapping)],
        partitions_def=event_days(contract),
        backfill_policy=dg.BackfillPolicy.single_run(),
        output_required=False,
        pool=f"gold_{metric.metric}",
        group_name=metric.source,
        kinds={"pyspark", "deltalake", "gold"},
        description=metric.description or f"{metric.metric} per event day.",
        metadata={"dagster/uri": gold.path(settings, metric.metric)},
    )
    def gold_of_metric(context: dg.AssetExecutionContext, spark: LakeSpark) -> Iterator[dg.MaterializeResult[None]]:
        days = days_of_run(context)
        follows = publish.pending(settings, metric) if FOLLOWS_TAG in context.run.tags else None
        if follows is not None:
            days = sorted({*days, *follows.days})  # silver may have moved on since the run was asked for
        written = publish.restate(settings, metric, spark.session, days, context.run.run_id, follows)
        outcomes = checks.check_gold(settings, metric, spark.session, days)
        numbers = {outcome.day: outcome.numbers for outcome in outcomes if outcome.check == "totals_equal_silver"}
        yield from events.report(context, key, {day: {"restated": day in written, **numbers[day]} for day in days}, outcomes)

    return gold_of_metric
