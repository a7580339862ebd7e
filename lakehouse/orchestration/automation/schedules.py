"""The schedules: checks of freshness and overdue reviews, tuning, rolling rebuilds, the daily close, and nightly maintenance.

The rolling rebuild of a source's newest days and tuning exist only if the contract requests them. The close recomputes numbers
whose next state is due, and publishes them in that state. Due numbers are read from the tables, with delta-rs, so that a tick
makes up for missed ones.

One run of the job ``maintenance`` per night maintains all tables and reports its work in its output. It may run next to runs of
assets: it changes no row of a table, and conflicts only with a writer of the same partition, which then retries its commit. The
maintenance itself belongs to ``operations.maintain``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import dagster as dg

from lakehouse.bronze import checks as bronze_checks
from lakehouse.calendar.days import rolling
from lakehouse.gold.numbers import served_version
from lakehouse.gold.restatement.pending import find_due
from lakehouse.lateness import tuning
from lakehouse.lateness.recommendation import tunable
from lakehouse.ledger import ingestions
from lakehouse.operations import maintain
from lakehouse.orchestration.assets.metric_assets import gold_key
from lakehouse.orchestration.assets.source_assets import keys
from lakehouse.orchestration.dagster_internals import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG
from lakehouse.orchestration.run_events import tags_for
from lakehouse.orchestration.run_requests import RUNNING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from lakehouse.contracts import Catalog, MetricContract, SourceContract
    from lakehouse.contracts.publication import RollingBackfill
    from lakehouse.contracts.series import Series
    from lakehouse.lake import Lake
    from lakehouse.operations.maintain import Upkeep


def of_source(lake: Lake, contract: SourceContract) -> list[dg.ScheduleDefinition]:
    """The schedules of a source: the rolling backfill and tuning only if the contract requests them."""
    terms, watermark = contract.rolling_backfill, tunable(contract)
    schedules = [_freshness(lake, contract), *([_rolling(lake, contract, terms)] if terms else [])]
    return [*schedules, *([_tuning(lake, contract)] if watermark and watermark.tuning.auto else [])]


def _freshness(lake: Lake, contract: SourceContract) -> dg.ScheduleDefinition:
    """Evaluates checks whose result changes with time alone: the age of the newest arrival, and overdue reviews."""
    source = contract.dataset
    key = keys(source)[1]
    checks = {name: dg.AssetCheckKey(key, name) for name in bronze_checks.source_check_names(contract)}

    @dg.schedule(
        name=f"freshness_{source}",
        cron_schedule=lake.settings.freshness_cron,
        execution_timezone="UTC",
        target=dg.AssetSelection.checks(*checks.values()),
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Checks whether {source} is still sending, and whether rows wait too long for a steward.",
    )
    def look() -> dg.RunRequest | dg.SkipReason:
        names = bronze_checks.time_dependent_checks(lake, contract)
        if not names:
            return dg.SkipReason(f"the contract of {source} requires no freshness, and no row has ever waited for a steward")
        return dg.RunRequest(asset_selection=[], asset_check_keys=[checks[name] for name in names])

    return look


def _tuning(lake: Lake, contract: SourceContract) -> dg.ScheduleDefinition:
    """Takes the daily tuning step in the tick itself, without a run, because it writes only one decision."""
    source = contract.dataset

    @dg.schedule(
        name=f"tune_watermark_{source}",
        cron_schedule=lake.settings.tuning_cron,
        execution_timezone="UTC",
        target=dg.AssetSelection.assets(keys(source)[0]),
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Lets the event-time watermark of {source} follow its rows: by at most one band a day, within bounds.",
    )
    def tune_watermark() -> dg.SkipReason:
        return dg.SkipReason(tuning.apply_daily(lake, contract))

    return tune_watermark


def _rolling(lake: Lake, contract: SourceContract, terms: RollingBackfill) -> dg.ScheduleDefinition:
    """Materializes the days of the window in one run: pending inputs are applied, the other days are rebuilt from Bronze.

    New files are left to the landing sensor. Unchanged days are not written and start nothing downstream.
    """
    source = contract.dataset
    key = keys(source)[2]

    @dg.schedule(
        name=f"rolling_{source}",
        cron_schedule=terms.at,
        execution_timezone=contract.clocks.timezone,
        target=dg.AssetSelection.assets(key),
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Rebuilds {terms.days} event days of silver/{source} from Bronze, the last one {terms.delay} days ago.",
    )
    def roll(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        now = lake.settings.now or context.scheduled_execution_time
        days = rolling(now.astimezone(ZoneInfo(contract.clocks.timezone)).date(), terms.days, terms.delay)
        window = f"{days[0]} to {days[-1]}"
        days = [day for day in days if day >= contract.first_event_day]
        known = ingestions.ingested(ingestions.all_of(lake, source)).values()
        if {day for entry in known for day in entry.touched_days}.isdisjoint(days):
            return dg.SkipReason(f"nothing of {source} has arrived for {window}")
        tags = {ASSET_PARTITION_RANGE_START_TAG: f"{days[0]}", ASSET_PARTITION_RANGE_END_TAG: f"{days[-1]}"}
        # The daemon starts one run per tick and key, however often it evaluates the tick.
        return dg.RunRequest(run_key=f"{source}:{days[0]}:{days[-1]}", asset_selection=[key], tags=tags)

    return roll


def daily_close(lake: Lake, catalog: Catalog, metric: MetricContract) -> dg.ScheduleDefinition:
    """Publishes days as preliminary and as final on the dates that the contract determines."""

    def due(lake: Lake) -> list[date]:
        return find_due(lake, catalog.sources[metric.source], served_version.daily(lake, catalog, metric))

    return _close(lake, metric.name, due)


def period_close(lake: Lake, contract: SourceContract, rollup: Series) -> dg.ScheduleDefinition:
    """Publishes longer periods as preliminary and as final on the dates that the contract determines."""

    def due(lake: Lake) -> list[date]:
        return find_due(lake, contract, rollup)

    return _close(lake, rollup.name, due)


def _close(lake: Lake, name: str, due: Callable[[Lake], list[date]]) -> dg.ScheduleDefinition:
    key = gold_key(name)

    @dg.schedule(
        name=f"close_{name}",
        cron_schedule=lake.settings.close_cron,
        execution_timezone="UTC",
        target=dg.AssetSelection.assets(key),
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Publishes the due numbers of gold/{name} in their next state: live, preliminary, final.",
    )
    def close() -> dg.RunRequest | dg.SkipReason:
        starts = due(lake.cached())
        if not starts:
            return dg.SkipReason(f"no number of {name} is due to change its state")
        return dg.RunRequest(asset_selection=[key], tags=tags_for(starts))

    return close


NAME = "maintenance"


def maintenance_schedule(lake: Lake, catalog: Catalog) -> dg.ScheduleDefinition:
    """Starts the job ``maintenance``, unless a run of it is in progress."""

    @dg.schedule(
        name=NAME,
        job=job(lake, catalog),
        cron_schedule=lake.settings.maintenance_cron,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Compacts tables, and deletes files and log entries that are no longer needed.",
    )
    def look(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if context.instance.get_runs_count(dg.RunsFilter(job_name=NAME, statuses=RUNNING)):
            return dg.SkipReason("a run of maintenance is in progress")
        return dg.RunRequest()

    return look


def job(lake: Lake, catalog: Catalog) -> dg.JobDefinition:
    """Maintains every table."""

    @dg.op(name="maintain_tables", pool=NAME, description="Compacts every table, and deletes what is no longer needed.")
    def maintain_tables() -> None:
        context = dg.OpExecutionContext.get()
        done = []
        for upkeep in maintain.maintain(lake, catalog):
            done.append(upkeep)
            for sentence in upkeep.kept:
                context.log.info("%s: %s", upkeep.table, sentence)
        context.add_output_metadata(_metadata(done))
        problems = [f"{upkeep.table}: {upkeep.problem}" for upkeep in done if upkeep.problem]
        if problems:
            raise dg.Failure("; ".join(problems), metadata=_metadata(done), allow_retries=False)

    @dg.job(name=NAME, executor_def=dg.in_process_executor, description="Maintains the tables.")
    def maintenance_job() -> None:
        maintain_tables()

    return maintenance_job


def _metadata(done: list[Upkeep]) -> dict[str, Any]:
    """The completed work as a table; tables that needed no work are only counted."""
    lines = ["| table | files | log deleted | deleted | bytes freed | left |", "| --- | --- | --- | --- | --- | --- |"]
    for upkeep in done:
        if (
            upkeep.kept
            or upkeep.problem
            or upkeep.checkpointed
            or upkeep.bytes_freed
            or upkeep.files_after != upkeep.files_before
        ):
            files = f"{upkeep.files_before} → {upkeep.files_after}"
            left = "; ".join([*upkeep.kept, *([upkeep.problem] if upkeep.problem else [])])
            lines.append(
                f"| {upkeep.table} | {files} | {upkeep.log_files_deleted} | {upkeep.files_deleted} | {upkeep.bytes_freed} |"
                f" {left} |"
            )
    return {
        "tables": dg.MetadataValue.int(len(done)),
        "bytes_freed": dg.MetadataValue.int(sum(upkeep.bytes_freed for upkeep in done)),
        "partitions_compacted": dg.MetadataValue.int(sum(upkeep.partitions_compacted for upkeep in done)),
        "done": dg.MetadataValue.md("\n".join(lines)),
    }
