"""The assets of a source: Bronze by arrival day, the event days that arrivals touched, and Silver by event day.

A run of Bronze for a source of Kafka ingests all available messages, whatever their arrival days: it materializes the day of its
partition, and logs a materialization of every other arrival day of its messages.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from datetime import date
from typing import Any

import dagster as dg
from pydantic import Field
from pyspark.sql import SparkSession

from lakehouse import locations
from lakehouse.bronze import checks as bronze_checks
from lakehouse.bronze.ingest import DayReport, Ingest
from lakehouse.contracts import Catalog, SourceContract
from lakehouse.contracts.inputs import KafkaTopic
from lakehouse.lake import Lake
from lakehouse.ledger import applied_inputs, failures, ingestions
from lakehouse.orchestration import openlineage, plan_runs, run_events
from lakehouse.orchestration.dagster_internals import SHARED_TAG
from lakehouse.orchestration.resources import Engine, LakeSpark
from lakehouse.orchestration.run_events import RequestedDays, arrival_days, asset_key, days_of_run, event_days, owners_of, pool_of
from lakehouse.quality.check_rules import CheckResult
from lakehouse.silver import checks as silver_checks
from lakehouse.silver import replaced_days
from lakehouse.silver.update import SilverUpdate, UpdatePlan, update
from lakehouse.streams import service
from lakehouse.text import join_limited

_SHOWN = 5
#: A shared run takes the days that Bronze announces to Silver itself. (``any_deps_updated`` leaves out arrivals of runs that have
#: Silver as well, but only those of the day announced last.)
_ANNOUNCED = dg.AutomationCondition.newly_updated() & ~dg.AutomationCondition.all_new_updates_have_run_tags(tag_keys={SHARED_TAG})
_ARRIVED = dg.AutomationCondition.any_deps_match(_ANNOUNCED | dg.AutomationCondition.will_be_requested())


def following(updated: dg.AutomationCondition[Any], label: str) -> dg.AutomationCondition[dg.AssetKey]:
    """Materialize exactly the partitions of updates, however old, also of those that come during a run."""
    # Dagster sees a request one evaluation late. An update in between came after the request and is not covered by it.
    answered = dg.AutomationCondition.newly_requested() & ~updated
    return (updated.since(answered) & ~dg.AutomationCondition.in_progress()).with_label(label)


#: Silver follows the event days that arrivals touched.
FOLLOW_ARRIVALS = following(_ARRIVED, "an arrival touched the day")


class SettledFiles(run_events.RequestedDays):
    """The files for which a sensor requests a run; a run started by hand omits them."""

    files: dict[str, str] | None = Field(
        None, description="The landing files that may be ingested, each with its state; by default all of the day that are ready."
    )


def keys(source: str) -> tuple[dg.AssetKey, dg.AssetKey, dg.AssetKey]:
    """The asset keys of a source: bronze, arrivals, silver."""
    return asset_key("bronze", source), asset_key("arrivals", source), asset_key("silver", source)


def arrivals_spec(contract: SourceContract) -> dg.AssetSpec:
    """The bridge from arrival days to event days: bronze logs a materialization on it for each touched event day."""
    bronze_key, arrivals_key, _ = keys(contract.dataset)
    return dg.AssetSpec(
        arrivals_key,
        deps=[dg.AssetDep(bronze_key, partition_mapping=dg.AllPartitionMapping())],
        partitions_def=event_days(contract),
        group_name=contract.dataset,
        description=f"The event days that each arrival of {contract.dataset} touched.",
    )


def bronze_asset(deployment: Lake, catalog: Catalog, contract: SourceContract) -> dg.AssetsDefinition:
    """Bronze by arrival day."""
    source = contract.dataset
    key, arrivals_key, _ = keys(source)

    @dg.asset(
        key=key,
        partitions_def=arrival_days(contract),
        backfill_policy=dg.BackfillPolicy.single_run(),
        output_required=False,
        owners=owners_of(contract.owner),
        pool=pool_of(key),
        op_tags=run_events.EARLIEST,
        group_name=source,
        kinds={"pyspark", "deltalake", "bronze"},
        description=f"Every record of every file of {source} as it arrived, once. {contract.description or ''}",
        metadata={"dagster/uri": locations.bronze(deployment, source).address},
    )
    def bronze_of_source(
        context: dg.AssetExecutionContext, config: SettledFiles, spark: LakeSpark
    ) -> Iterator[dg.MaterializeResult[None]]:
        lake, engine = deployment.for_step(), Engine(spark.session)
        lake.expect(locations.of_run(lake, catalog, source))
        plan_runs.verify_pinned_versions(context.run.tags, catalog)
        days = days_of_run(context, config)
        kafka = contract.source.kafka
        below = lake.landing_of(source) if kafka is None else f"kafka://{kafka.servers.split(',')[0]}/{kafka.topic}"
        reported = openlineage.reported(context, [below], [locations.bronze(lake, source)])
        with run_events.progress(context) as requests, reported:
            if kafka and config.files is None:
                reports = taken(context, lake, contract, kafka, engine.session)
            else:
                backfill = plan_runs.plan_of(context.run.tags)
                ingest = Ingest(lake, contract, engine.session, context.run.run_id, spark.expect, backfill)
                reports = ingest.days(days, config.files)
                for notice in ingest.notices:
                    context.log.warning("%s", notice)
        absent = replaced_days.absent_from(lake, contract, [report.delivered for report in reports.values()])
        for (day, report), lacking in zip(reports.items(), absent):
            if lacking:
                context.log.warning("%s: %s", day, replaced_days.absent_text(lacking))
            for entry in report.held:
                context.log.error("held: %s", entry.message)
            for left in report.waiting:
                context.log.warning("left for now: %s", left)
        if not plan_runs.is_planned_run(context.run.tags):  # a planned backfill updates silver itself
            # Also days of files that an earlier, killed run ingested but did not announce.
            run_events.materialized(context, arrivals_key, _touched(lake, source, {*days, *reports}))
        metadata = {day: _bronze_metadata(report, engine, lacking) for (day, report), lacking in zip(reports.items(), absent)}
        if others := metadata.keys() - {*days}:  # of a topic: days that the run was not for
            run_events.materialized(context, key, {day: metadata[day] for day in others})
        # A file may also have been sent again on another day than the one on which it is held.
        others |= failures.days_of(lake, source, "bronze") - {*days}
        run_events.checked(context, key, _bronze_outcomes(lake, contract, others) if others else [])
        metadata = {day: metadata.get(day, _bronze_metadata(DayReport(), engine)) for day in days}
        yield from run_events.report(context, key, metadata, _bronze_outcomes(lake, contract, days), requests)

    return bronze_of_source


def silver_asset(deployment: Lake, catalog: Catalog, contract: SourceContract) -> dg.AssetsDefinition:
    """Silver by event day."""
    source = contract.dataset
    _, arrivals_key, key = keys(source)

    @dg.asset(
        key=key,
        deps=[arrivals_key],
        partitions_def=event_days(contract),
        backfill_policy=dg.BackfillPolicy.single_run(),
        automation_condition=FOLLOW_ARRIVALS,
        output_required=False,
        owners=owners_of(contract.owner),
        pool=pool_of(key),
        op_tags=run_events.EARLY,
        group_name=source,
        kinds={"pyspark", "deltalake", "silver"},
        description=_described(contract),
        metadata={"dagster/uri": locations.silver(deployment, source).address} | _uri_of_intervals(deployment, contract),
    )
    def silver_of_source(
        context: dg.AssetExecutionContext, config: RequestedDays, spark: LakeSpark
    ) -> Iterator[dg.MaterializeResult[None]]:
        lake, engine = deployment.for_step(), Engine(spark.session)
        lake.expect(locations.of_run(lake, catalog, source))
        plan_runs.verify_pinned_versions(context.run.tags, catalog)
        days = days_of_run(context, config, lambda: applied_inputs.pending(lake, source))
        if not days:
            return
        if not spark.long_lived:  # a long-lived session is prepared for any size
            spark.expect(_waiting_bytes(lake, source, days))
        tables = [locations.bronze(lake, source)], [locations.silver(lake, source)]
        with run_events.progress(context) as requests, openlineage.reported(context, *tables):
            tags, metrics = context.run.tags, catalog.metrics_of(source)
            plan = UpdatePlan(plan_runs.commit_metadata(tags), plan_runs.is_of_stage(tags))
            result = update(lake, contract, engine.session, days, context.run.run_id, metrics, plan)
            outcomes = silver_checks.check_silver(lake, contract, days, result.keys)
            others = failures.days_of(lake, source, "silver") - {*days}
            of_others = silver_checks.check_silver(lake, contract, others) if others else []
            failures.record_checks(lake, source, "silver", [*outcomes, *of_others])
        run_events.checked(context, key, of_others)
        rows = {outcome.day: outcome.numbers["rows"] for outcome in outcomes if outcome.check == "unique_key"}
        about = {day: _silver_metadata(result, engine, day, rows[day]) for day in days}
        yield from run_events.report(context, key, about, outcomes, requests)

    return silver_of_source


def _described(contract: SourceContract) -> str:
    if contract.is_dimension:
        return f"The changes of each key of {contract.dataset} by event day, and the intervals that follow from them."
    return f"The current row of each key of {contract.dataset}, on its own event day."


def _uri_of_intervals(lake: Lake, contract: SourceContract) -> dict[str, str]:
    return {"intervals": locations.intervals(lake, contract.dataset).address} if contract.is_dimension else {}


def _bronze_metadata(report: DayReport, engine: Engine, absent: Collection[date] = ()) -> dict[str, Any]:
    return {
        "engine": engine.name,
        "files_ingested": len(report.ingested),
        "files_known_already": len(report.redelivered),
        "files_held": len(report.held),
        **({"left_for_now": join_limited(report.waiting, _SHOWN, " files")} if report.waiting else {}),
        "dagster/row_count": sum(entry.rows for entry in report.ingested),
        "malformed_rows": sum(entry.malformed for entry in report.ingested),
        "event_days_touched": len({day for entry in report.ingested for day in entry.touched_days}),
        **({"event_days_absent": replaced_days.absent_text(absent)} if absent else {}),
    }


def _bronze_outcomes(lake: Lake, contract: SourceContract, days: Collection[date]) -> list[CheckResult]:
    """The checks of arrival days; a failed check holds the numbers of the event days that the day's files touch."""
    outcomes = bronze_checks.check_bronze(lake, contract, days)
    source = contract.dataset
    failures.record_checks(lake, source, "bronze", outcomes, lambda day: _event_days(lake, source, day))
    return outcomes


def _event_days(lake: Lake, source: str, arrival: date) -> set[date]:
    """The event days that the files of an arrival day touch."""
    entries = (entry for entry in ingestions.all_of(lake, source) if entry.arrival_date == arrival)
    return {day for entry in entries for day in entry.touched_days}


def _touched(lake: Lake, source: str, arrival: set[date]) -> dict[date, dict[str, Any]]:
    """For each event day that waits for silver because of these arrival days, the numbers of rows and files."""
    waiting = applied_inputs.pending_entries(lake, source)
    every = {entry.input_id: entry for entries in waiting.values() for entry in entries}
    rows = {name: entry.rows_by_day for name, entry in every.items()}
    return {
        day: {
            "rows": sum(rows[entry.input_id].get(day, 0) for entry in entries),
            "files": len(entries),
            "arrival_days": ", ".join(sorted({entry.arrival_date.isoformat() for entry in entries})),
        }
        for day, entries in waiting.items()
        if any(entry.arrival_date in arrival for entry in entries)
    }


def _waiting_bytes(lake: Lake, source: str, days: Collection[date]) -> int:
    """The bytes of the files that wait for silver on the event days ``days``."""
    waiting = applied_inputs.pending_entries(lake, source)
    files = {entry.ingestion_id: entry.bytes for day in days for entry in waiting.get(day, ())}
    return sum(files.values())


def _silver_metadata(result: SilverUpdate, engine: Engine, day: date, rows: int) -> dict[str, Any]:
    changes = result.changes.get(day, Counter())
    return {
        "method": "merge" if day in result.merged else "rebuild",
        "engine": engine.name,
        "dagster/row_count": rows,
        "content_changed": bool(changes),
        **{f"rows_{kind}": count for kind, count in sorted(changes.items())},
        "silver_version": result.version,
    }


def taken(
    context: dg.AssetExecutionContext,
    lake: Lake,
    contract: SourceContract,
    kafka: KafkaTopic,
    session: Callable[[], SparkSession],
) -> dict[date, DayReport]:
    """Ingest the messages of a topic, and report them by arrival day. Gaps are logged as errors, and recorded by the ingestion.

    :raises StreamProblem: if the topic cannot be read.
    """
    reports: dict[date, DayReport] = {}
    gaps: dict[str, None] = {}
    for batch in service.take(lake, contract, kafka, session, context.run.run_id):
        for entry in batch.recorded:
            reports.setdefault(entry.arrival_date, DayReport()).ingested.append(entry)
        gaps |= dict.fromkeys(entry.text for entry in batch.gaps)
        for remark in batch.remarks:
            context.log.warning(remark)
    for text in gaps:
        context.log.error("%s: to read on behind it: lakehouse source stream accept-gap %s", text, contract.dataset)
    return reports
