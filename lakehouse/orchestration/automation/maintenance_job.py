"""The job ``maintenance`` and its schedule: one run per night maintains all tables and reports its work in its output.

The job may run next to runs of assets. It changes no row of a table, and conflicts only with a writer of the same partition,
which then retries its commit. The maintenance itself belongs to ``operations.maintenance``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

from lakehouse.operations.maintenance import maintain
from lakehouse.orchestration.common.run_requests import RUNNING

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake
    from lakehouse.operations.maintenance.maintain import Upkeep

NAME = "maintenance"


def schedule(lake: Lake, catalog: Catalog) -> dg.ScheduleDefinition:
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
