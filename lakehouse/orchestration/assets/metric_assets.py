"""The assets of a metric: gold by event day, and its roll-ups by week, month and longer."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date

import dagster as dg

from lakehouse import locations
from lakehouse.contracts import Catalog, MetricContract, SourceContract
from lakehouse.contracts.series import Series
from lakehouse.contracts.windows import WINDOW_START
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers import served_version, window_history
from lakehouse.gold.numbers.lifecycle import PublishAction, RevisionReason, State
from lakehouse.gold.numbers.window_history import WindowStanding
from lakehouse.gold.publication import late_at_close
from lakehouse.gold.publication.write_audit_publish import PublishResult, Run
from lakehouse.gold.reproduction import recompute
from lakehouse.gold.reproduction import repair as gold_repair
from lakehouse.gold.restatement import closing, derived, rollups
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import reconciliation as restatement_checks
from lakehouse.gold.restatement.closing import End
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.lake import Lake
from lakehouse.late_events.counters import LateCounts
from lakehouse.ledger import contract_archive
from lakehouse.live import reconcile as live_closing
from lakehouse.orchestration import openlineage, plan_runs, run_events
from lakehouse.orchestration.dagster_internals import BACKFILL_ID_TAG, USER_TAG
from lakehouse.orchestration.resources import Engine, LakeSpark
from lakehouse.orchestration.run_events import RequestedDays, asset_key, days_of_run, event_days, owners_of, periods, pool_of

#: Set on runs that follow changes of the layer below: the version of that layer that the numbers will include.
FOLLOWS_TAG = "lakehouse/follows_silver"
#: The fields of a publication that a partition's page shows; ``ops/publications`` has the rest.
_LINEAGE = ("publication_id", "job_name", "code_version", "input_versions", "validation", "trigger", "downstream")
#: A partition's page lists at most this number of windows, the newest ones; ``lakehouse gold history`` has all.
_WINDOWS = 100


def gold_key(name: str) -> dg.AssetKey:
    """The asset key of a series."""
    return asset_key("gold", name)


def gold_asset(deployment: Lake, catalog: Catalog, metric: MetricContract) -> dg.AssetsDefinition:
    """Gold by event day. A day with unchanged number and state gets no revision."""
    key = gold_key(metric.name)
    contract = catalog.sources[metric.source]

    @dg.asset(
        key=key,
        deps=_of_inputs(Series(metric)) if metric.is_derived else [*_of_silver(metric), *map(_dimension, metric.dimensions)],
        partitions_def=event_days(*catalog.sources_of(metric), first=catalog.first_day(metric)),
        backfill_policy=dg.BackfillPolicy.single_run(),
        output_required=False,
        owners=owners_of(metric.owner or contract.owner),
        pool=pool_of(key),
        group_name=metric.source,
        kinds={"pyspark", "deltalake", "gold"},
        description=metric.description or f"{metric.name} per event day.",
        metadata={"dagster/uri": locations.gold(deployment, Series(metric)).address},
    )
    def gold_of_metric(
        context: dg.AssetExecutionContext, config: RequestedDays, spark: LakeSpark
    ) -> Iterator[dg.MaterializeResult[None]]:
        lake, engine = deployment.for_step(), Engine(spark.session)
        lake.expect(locations.of_run(lake, catalog, metric.source))
        plan_runs.verify_pinned_versions(context.run.tags, catalog)
        days = days_of_run(context, config)
        gold_repair.restore(lake, catalog, Series(metric), engine.session, context.run.run_id)
        daily = served_version.daily(lake, catalog, metric)
        follows = find_pending(lake, daily)  # a close or a backfill may also be the first run after a change below
        if _takes_all(context.run):
            days = sorted({*days, *follows.starts})  # silver may have changed since the run was requested
        if not days:
            return
        _remember(context, lake, daily.metric, contract)
        tables = openlineage.tables_below(lake, daily), [locations.gold(lake, daily)]
        with run_events.progress(context) as requests, openlineage.reported(context, *tables, daily.metric) as step:
            if metric.is_derived:
                done = derived.restate(lake, daily, engine.session, days, _run(context), follows)
            else:
                done = restatement_days.restate(lake, contract, daily, engine.session, days, _run(context), follows)
            step.done = done
            _log_finality(context, lake, daily, done)
            outcomes = [*done.outcomes, *restatement_checks.check_published(lake, daily, days)]
            waits_for = _waits_for(lake, contract, daily, done)
            outcomes += live_closing.reconcile_due(engine.session, lake, metric, contract, days)
            late = late_metadata(lake, daily, days)
            of_windows = window_metadata(lake, contract, daily, done.days & {*days})
        about = _metadata(done, days, waits_for, engine)
        about = {day: known | late.get(day, {}) | of_windows.get(day, {}) for day, known in about.items()}
        yield from run_events.report(context, key, about, outcomes, requests)

    return gold_of_metric


def rollup_asset(deployment: Lake, catalog: Catalog, metric: MetricContract, rollup: Series) -> dg.AssetsDefinition:
    """The numbers of a longer period; partitions are named by their first day."""
    key = gold_key(rollup.name)
    contract = catalog.sources[metric.source]

    @dg.asset(
        key=key,
        # The first week or year begins before the first day.
        deps=_of_inputs(rollup) if metric.is_derived else [dg.AssetDep(gold_key(metric.name), partition_mapping=_covered_days())],
        partitions_def=periods(catalog.sources_of(metric), rollup),
        backfill_policy=dg.BackfillPolicy.single_run(),
        output_required=False,
        owners=owners_of(metric.owner or contract.owner),
        pool=pool_of(key),
        group_name=metric.source,
        kinds={"deltalake", "gold"},
        description=f"{metric.name} per {rollup.kind.value.replace('_', ' ')}, from {_origin(metric)}.",
        metadata={"dagster/uri": locations.gold(deployment, rollup).address},
    )
    def rollup_of_metric(
        context: dg.AssetExecutionContext, config: RequestedDays, spark: LakeSpark
    ) -> Iterator[dg.MaterializeResult[None]]:
        lake, engine = deployment.for_step(), Engine(spark.session)
        lake.expect(locations.of_run(lake, catalog, metric.source))
        plan_runs.verify_pinned_versions(context.run.tags, catalog)
        gold_repair.restore(lake, catalog, rollup, engine.session, context.run.run_id)
        daily = served_version.daily(lake, catalog, metric)
        series = Series(daily.metric, rollup.kind, daily.called)
        wanted = {series.period(day).start for day in days_of_run(context, config)}
        follows = find_pending(lake, series) if _takes_all(context.run) else None
        if follows is not None:
            wanted |= follows.starts
        if not wanted:
            return
        _remember(context, lake, series.metric, contract)
        tables = openlineage.tables_below(lake, series), [locations.gold(lake, series)]
        with run_events.progress(context) as requests, openlineage.reported(context, *tables) as step:
            if metric.is_derived:
                done = derived.restate(lake, series, engine.session, wanted, _run(context), follows)
            else:
                done = rollups.restate(lake, contract, series, engine.session, wanted, _run(context), follows)
            step.done = done
            _log_finality(context, lake, series, done)
            waits_for = _waits_for(lake, contract, series, done)
        about = _metadata(done, wanted, waits_for, engine)
        yield from run_events.report(context, key, about, done.outcomes, requests)

    return rollup_of_metric


def _takes_all(run: dg.DagsterRun) -> bool:
    """Whether a run takes all periods that are pending when it begins, not only those that were requested."""
    return run_events.is_shared(run) or FOLLOWS_TAG in run.tags


def final_key(series: str) -> dg.AssetKey:
    """The external asset of the periods of a series that became final, such as ``final/revenue``."""
    return asset_key("final", series)


def restated_key(series: str) -> dg.AssetKey:
    """The external asset of the periods of a series whose published number was replaced, such as ``restated/revenue``."""
    return asset_key("restated", series)


def finality_specs(gold: dg.AssetsDefinition, series: Series) -> list[dg.AssetSpec]:
    """The external assets on which gold logs a materialization for each period that became final, or was restated.

    What is computed from final numbers depends on them, with ``lakehouse.when_final``; see ``Settings.finality_assets``.
    """
    about = {
        final_key(series.name): f"The periods of {series.name} that became final.",
        restated_key(series.name): f"The periods of {series.name} whose published number was replaced.",
    }
    (of_gold,) = gold.specs
    days, group, owners = of_gold.partitions_def, of_gold.group_name, of_gold.owners
    return [
        dg.AssetSpec(key, deps=[gold], partitions_def=days, group_name=group, owners=owners, description=text)
        for key, text in about.items()
    ]


def _log_finality(context: dg.AssetExecutionContext, lake: Lake, series: Series, done: PublishResult) -> None:
    """Log the periods that became final and those that were restated, where Dagster has assets of them."""
    if lake.settings.finality_assets:
        final = {one.start for one in done.revisions if one.state is State.FINAL}
        restated = {one.start for one in done.revisions if one.restates}
        for key, periods_of in ((final_key(series.name), final), (restated_key(series.name), restated)):
            run_events.materialized(context, key, {start: {} for start in periods_of})


def _of_silver(metric: MetricContract) -> list[dg.AssetDep]:
    """The silver days of each source from which a metric's days are computed."""
    if metric.counts_rows_of_its_day and not metric.sources:
        return [dg.AssetDep(asset_key("silver", metric.source), partition_mapping=dg.IdentityPartitionMapping())]
    begin, end = -metric.days_before, metric.days_behind
    # One of several sources may begin later than the others.
    mapping = dg.TimeWindowPartitionMapping(start_offset=begin, end_offset=end, allow_nonexistent_upstream_partitions=True)
    return [dg.AssetDep(asset_key("silver", entry.source), partition_mapping=mapping) for entry in metric.read]


def _of_inputs(series: Series) -> list[dg.AssetDep]:
    """The same periods of a derived metric's inputs."""
    names = [f"{one.metric}{series.kind.suffix}" for one in series.metric.inputs]
    return [dg.AssetDep(gold_key(name), partition_mapping=_covered_days()) for name in names]


def _origin(metric: MetricContract) -> str:
    return f"those of {', '.join(metric.derived_from)}" if metric.is_derived else "its published days"


def _dimension(name: str) -> dg.AssetDep:
    """The dependency on a dimension, any of whose days may hold the attributes of a fact."""
    return dg.AssetDep(asset_key("silver", name), partition_mapping=dg.AllPartitionMapping())


def _covered_days() -> dg.TimeWindowPartitionMapping:
    return dg.TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True)


def _remember(context: dg.AssetExecutionContext, lake: Lake, metric: MetricContract, contract: SourceContract) -> None:
    """Record the contracts under which numbers are published.

    Runs of a stage or a planned backfill are not checked for changed meaning, because people have seen their effect.

    :raises ChangedMeaningError: if the metric was changed in place.
    """
    if not plan_runs.is_planned_run(context.run.tags):
        contract_archive.check_meaning(lake, metric)
    recompute.remember_contract(lake, metric, contract)


def _run(context: dg.AssetExecutionContext) -> Run:
    tags = context.run.tags
    planned = tags.get(plan_runs.PLAN_TAG)
    reason = RevisionReason.BACKFILL if planned or BACKFILL_ID_TAG in tags else None
    why = f"{RevisionReason.BACKFILL.value}: {tags.get(plan_runs.REASON_TAG)} ({planned})" if planned else None
    by = tags.get(USER_TAG) or tags.get("dagster/user") or (plan_runs.runner(tags) if plan_runs.is_of_stage(tags) else None)
    return Run(context.run.run_id, context.job_name, reason, by, why, planned, plan_runs.sign_off(tags))


def _waits_for(lake: Lake, contract: SourceContract, series: Series, done: PublishResult) -> dict[date, list[str]]:
    """The conditions that published numbers still wait for before they become final."""
    unfinished = [series.period(revision.start) for revision in done.revisions if revision.state is not State.FINAL]
    return {start: list(limit.waits_for) for start, limit in closing.limits(lake, contract, series, unfinished).items()}


def late_metadata(lake: Lake, daily: Series, days: Collection[date]) -> dict[date, dict[str, object]]:
    """The metadata about late rows that Dagster shows for each day of a metric: the day's counts, and the metric's rates."""
    metric = daily.metric
    if metric.late_events is None:
        return {}
    rates = {f"{name}_rate": rate for name, rate in late_at_close.counts(lake, daily, metric).rates.items()}
    of_days, nothing = late_at_close.counts_of_days(lake, daily, days), LateCounts(metric.name)
    names = ("late_accepted", "late_dropped", "late_counted_at_close", "late_not_counted")
    return {day: {name: getattr(of_days.get(day, nothing), name) for name in names} | rates for day in days}


def window_metadata(lake: Lake, contract: SourceContract, daily: Series, days: Collection[date]) -> dict[date, dict[str, object]]:
    """The metadata about the windows of each day of a metric: what each was restated by, not what its day was.

    :param days: days that have just been published.
    """
    metric = daily.metric
    if metric.event_window is None or not days:
        return {}
    watermarks, metadata = closing.watermarks(lake, contract, daily), dict[date, dict[str, object]]()
    for day, versions in numbers_history.history(lake, daily, days).items():
        standings, period = window_history.standings(versions), daily.period(day)
        ends = {each.start: closing.end_of(daily, contract, period, each.start, watermarks) for each in standings}
        metadata[day] = {
            "windows": len(standings),
            "windows_by_state": dict(Counter(each.version.state.value for each in standings)),
            "windows_by_reason": dict(Counter(each.version.reason.value for each in standings)),
            "windows_restated": sum(bool(each.restated) for each in standings),
            "windows_passed_by_watermark": sum(bool(end.passed) for end in ends.values()),
            "newest_windows": [_window(each, metric, ends[each.start]) for each in standings[-_WINDOWS:]],
        }
    return metadata


def _window(standing: WindowStanding, metric: MetricContract, end: End) -> dict[str, object]:
    version = standing.version
    return {
        "window": window_history.text(WINDOW_START, standing.start, metric),
        "version": version.label,
        "state": version.state.value,
        "reason": version.reason.value,
        "restated": standing.restated,
        "restatement_reason": version.restatement_reason,
        "published_at": version.published_at.isoformat(),
        "watermark_passed": end.passed,
    }


def _metadata(
    done: PublishResult, starts: Iterable[date], waits_for: Mapping[date, list[str]], engine: Engine
) -> dict[date, dict[str, object]]:
    """The metadata that Dagster shows for each period: its revision, what it waits for, its lineage, and what computed it.

    ``content_changed`` is set for any new number, ``restated`` only if it replaces one that readers had.
    """
    held = {*done.held}
    metadata: dict[date, dict[str, object]] = {
        start: {"content_changed": False, "restated": False, "held": start in held, "engine": engine.name} for start in starts
    }
    held_by: dict[date, list[str]] = defaultdict(list)
    for one in done.outcomes:
        if not one.passed and not one.warns:
            held_by[one.day].append(one.explanation or "")
    for start, about in metadata.items():
        if start in held_by:
            about["held_because"] = "; ".join(text for text in held_by[start] if text)
        if start in waits_for:
            about["waiting_for"] = "; ".join(waits_for[start])
    lineage = {name: done.lineage[name] for name in _LINEAGE if done.lineage.get(name)}
    for revision in done.revisions:
        if revision.start in metadata:
            about = metadata[revision.start]
            about |= {"content_changed": revision.action is not PublishAction.STATE_CHANGE, "restated": revision.restates}
            about |= {"version": f"{revision.name}", "state": revision.state.value, "reason": revision.reason.value, **lineage}
    return metadata
