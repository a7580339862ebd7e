"""The schedules: checks of freshness and overdue reviews, tuning, rolling rebuilds, the daily close, and nightly maintenance.

The rolling rebuild of a source's newest days and tuning exist only if the contract requests them. The close recomputes numbers
whose next state is due, and publishes them in that state. Due numbers are read from the tables, with delta-rs, so that a tick
makes up for missed ones.

One run of the job ``maintenance`` per night maintains all tables and reports its work in its output. It may run next to runs of
assets: it changes no row of a table, and conflicts only with a writer of the same partition, which then retries its commit. The
maintenance itself belongs to ``operations.maintain``.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import dagster as dg

from lakehouse.bronze import checks as bronze_checks
from lakehouse.calendar.days import rolling
from lakehouse.contracts.series import Series
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import served_version
from lakehouse.gold.restatement.pending import find_due
from lakehouse.lateness import tuning
from lakehouse.lateness.recommendation import tunable
from lakehouse.ledger import ingestions
from lakehouse.operations import maintain
from lakehouse.orchestration import plan_runs
from lakehouse.orchestration.assets.metric_assets import gold_key
from lakehouse.orchestration.assets.source_assets import keys
from lakehouse.orchestration.automation import looks
from lakehouse.orchestration.automation.ready import LOOK_TAG
from lakehouse.orchestration.dagster_internals import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    IMPLICIT_ASSET_JOB_NAME,
    InstigatorType,
)
from lakehouse.orchestration.run_events import table_of, tags_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

    from lakehouse.contracts import Catalog, MetricContract, SourceContract
    from lakehouse.contracts.publication import RollingBackfill
    from lakehouse.lake import Lake
    from lakehouse.operations.maintain import Upkeep


def kinds(lake: Lake, catalog: Catalog) -> list[looks.LookKind]:
    """The kinds with a schedule. Rolling backfills have one for each time of the day at which contracts request them."""
    settings, sources = lake.settings, list(catalog.sources.values())
    tuned = [source for source in sources if (watermark := tunable(source)) and watermark.tuning.auto]
    times: dict[tuple[str, str], list[looks.Look]] = {}
    for source in sources:
        if terms := source.rolling_backfill:
            times.setdefault((_canonical(terms.at), source.clocks.timezone), []).append(_rolling(source, terms))
    closes: list[looks.Look] = []
    for metric in catalog.metrics.values():
        closes.append(_daily_close(catalog, metric))
        closes += [_period_close(catalog.sources[metric.source], rollup) for rollup in Series(metric).rollups]
    every = [
        looks.LookKind(
            "freshness",
            "Checks whether sources are still sending, and whether rows wait too long for a steward.",
            [_freshness(source) for source in sources],
            cron=settings.freshness_cron,
        ),
        looks.LookKind(
            "tune_watermark",
            "Lets event-time watermarks follow their rows: by at most one band a day, within bounds.",
            [_tuning(source) for source in tuned],
            cron=settings.tuning_cron,
        ),
        *(_rolling_kind(*at, of_time) for at, of_time in times.items()),
        looks.LookKind(
            "close",
            "Publishes the due numbers of gold in their next state: live, preliminary, final.",
            closes,
            cron=settings.close_cron,
        ),
    ]
    return [kind for kind in every if kind.looks]


def _canonical(at: str) -> str:
    """The cron expression without leading zeros."""
    return " ".join(f"{int(part)}" if part.isdigit() else part for part in at.split())


def _rolling_kind(at: str, timezone: str, of_time: list[looks.Look]) -> looks.LookKind:
    """The rolling backfills of a time; their schedule's name stays the same whatever other contracts request."""
    minute, hour, *other = at.split()
    is_daily = minute.isdigit() and hour.isdigit() and other == ["*", "*", "*"]
    time = f"{int(hour):02}{int(minute):02}" if is_daily else plan_runs.short_hash(at)
    zone = re.sub(r"[^a-z0-9]+", "_", timezone.lower())
    if not re.fullmatch(r"[A-Za-z0-9/_]+", timezone):  # Etc/GMT+5 and Etc/GMT-5
        zone = f"{zone}_{plan_runs.short_hash(timezone)[:6]}"
    about = "Rebuilds the newest event days of silver from Bronze."
    return looks.LookKind(f"rolling_{time}_{zone}", about, of_time, cron=at, timezone=timezone)


def _freshness(contract: SourceContract) -> looks.Look:
    """Evaluates checks whose result changes with time alone: the age of the newest arrival, and overdue reviews."""
    source = contract.dataset
    key = keys(source)[1]
    nothing = f"the contract of {source} requires no freshness, and no row has ever waited for a steward"

    def take(_: looks.LookContext, lake: Lake) -> list[looks.Answer]:
        names = bronze_checks.time_dependent_checks(lake, contract)
        if not names:
            return [dg.SkipReason(nothing)]
        return [dg.RunRequest(asset_selection=[], asset_check_keys=[dg.AssetCheckKey(key, name) for name in names])]

    return looks.Look(f"freshness_{source}", table_of(key), None, nothing, take)


def _tuning(contract: SourceContract) -> looks.Look:
    """Takes the daily tuning step in the tick itself, without a run, because it writes only one decision."""
    source = contract.dataset

    def take(_: looks.LookContext, lake: Lake) -> list[looks.Answer]:
        return [dg.SkipReason(tuning.apply_daily(lake, contract))]

    return looks.Look(f"tune_watermark_{source}", table_of(keys(source)[0]), f"source/{source}", "", take)


def _rolling(contract: SourceContract, terms: RollingBackfill) -> looks.Look:
    """Materializes the days of the window in one run: pending inputs are applied, the other days are rebuilt from Bronze.

    New files are left to the landing sensor. Unchanged days are not written and start nothing downstream.
    """
    source = contract.dataset
    key = keys(source)[2]

    def take(context: looks.LookContext, lake: Lake) -> list[looks.Answer]:
        now = lake.settings.now or context.at or lake.now()
        days = rolling(now.astimezone(ZoneInfo(contract.clocks.timezone)).date(), terms.days, terms.delay)
        window = f"{days[0]} to {days[-1]}"
        days = [day for day in days if day >= contract.first_event_day]
        known = ingestions.ingested(ingestions.all_of(lake, source)).values()
        if {day for entry in known for day in entry.touched_days}.isdisjoint(days):
            return [dg.SkipReason(f"nothing of {source} has arrived for {window}")]
        tags = {ASSET_PARTITION_RANGE_START_TAG: f"{days[0]}", ASSET_PARTITION_RANGE_END_TAG: f"{days[-1]}"}
        # The daemon starts one run per tick and key, however often it evaluates the tick.
        return [dg.RunRequest(run_key=f"{source}:{days[0]}:{days[-1]}", asset_selection=[key], tags=tags)]

    return looks.Look(f"rolling_{source}", table_of(key), f"source/{source}", "", take)


def _daily_close(catalog: Catalog, metric: MetricContract) -> looks.Look:
    """Publishes days as preliminary and as final on the dates that the contract determines."""

    def due(lake: Lake) -> list[date]:
        return find_due(lake, catalog.sources[metric.source], served_version.daily(lake, catalog, metric))

    return _close(metric.name, metric.name, due)


def _period_close(contract: SourceContract, rollup: Series) -> looks.Look:
    """Publishes longer periods as preliminary and as final on the dates that the contract determines."""

    def due(lake: Lake) -> list[date]:
        return find_due(lake, contract, rollup)

    return _close(rollup.metric.name, rollup.name, due)


def _close(metric: str, name: str, due: Callable[[Lake], list[date]]) -> looks.Look:
    key, nothing = gold_key(name), f"no number of {name} is due to change its state"

    def take(_: looks.LookContext, lake: Lake) -> list[looks.Answer]:
        starts = due(lake)
        return [dg.RunRequest(asset_selection=[key], tags=tags_for(starts)) if starts else dg.SkipReason(nothing)]

    return looks.Look(f"close_{name}", table_of(key), f"metric/{metric}", nothing, take)


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
        if context.instance.get_runs_count(dg.RunsFilter(job_name=NAME, statuses=plan_runs.RUNNING)):
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


def schedule_of(lake: Lake, kind: looks.LookKind) -> dg.ScheduleDefinition:
    """The schedule of all looks of a kind."""

    @dg.schedule(
        name=kind.name,
        job_name=IMPLICIT_ASSET_JOB_NAME,
        cron_schedule=kind.cron or "",
        execution_timezone=kind.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=kind.description,
    )
    def look(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        reading = lake.cached()
        with suppress(dg.DagsterInvariantViolationError):  # a context without an instance has no earlier schedules
            looks.take_over_pauses(context.instance, reading, looks.contracts_of(kind.looks), InstigatorType.SCHEDULE)
        return _requests_of(kind, context, reading)

    return look


def _requests_of(
    kind: looks.LookKind, context: dg.ScheduleEvaluationContext, reading: Lake
) -> list[dg.RunRequest] | dg.SkipReason:
    """The runs that looks request at a tick of a schedule, which has no cursor; or the reason why there are none.

    :raises LooksFailedError: if looks failed, and none requests a run.
    """
    tick = looks.Tick(context, looks.LooksCursor())
    tick.take(reading, kind.looks)
    if tick.requests:
        return _together(kind, tick.requests)
    if tick.failed:
        raise LooksFailedError(tick.reason(kind.looks))
    return dg.SkipReason(tick.reason(kind.looks))


def _together(kind: looks.LookKind, requests: Sequence[dg.RunRequest]) -> list[dg.RunRequest]:
    """The same requests, each with a key, which is compared within a tick. Those that only evaluate checks are one run."""
    checks = [key for request in requests if request.asset_selection == [] for key in request.asset_check_keys or ()]
    others = [request for request in requests if request.asset_selection != []]
    keyed = [request.with_replaced_attrs(run_key=request.run_key or request.tags[LOOK_TAG]) for request in others]
    return [*keyed, *([dg.RunRequest(kind.name, asset_selection=[], asset_check_keys=checks)] if checks else [])]


class LooksFailedError(LakehouseError):
    """Looks of a schedule failed. The message names each with its error."""
