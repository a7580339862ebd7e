"""The events that a run reports to Dagster: for each of its days a materialization, and an evaluation of each check.

The partitions of assets, and the tags that name the partitions of a run, are defined here. A run for scattered days yields no
output, because Dagster would mark the run's whole range as materialized; it logs the events of its days instead. A run for a
partition or a contiguous range yields one output, and its checks follow as separate steps. Evaluations name the materialization
that they evaluate, also in runs over a range.

A *shared* run takes everything that waits for several tables, layer after layer, in one process: Bronze, Silver, gold and its
roll-ups follow each other without a process, a JVM and a tick for each. Every asset is a step, with its pool, its events and its
checks. A step that fails stops only the steps that depend on it; what it left waits in the tables, and sensors request it again.
Dagster gives a run one partition or one range, which would have to exist in every asset of the run, so a shared run has none: the
first assets find their days in the configuration, the others in the tables. Its executor is in ``dagster_internals``; which runs
are requested is decided in ``automation.ready``.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from lakehouse import pieces
from lakehouse.calendar.days import from_json, to_json
from lakehouse.gold.publication.checks import with_deprecated_names
from lakehouse.lake.table_folder import counted_requests
from lakehouse.orchestration.dagster_internals import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    SHARED_TAG,
    AssetCheckEvaluationTargetMaterializationData,
)
from lakehouse.orchestration.event_storage import log_all
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from lakehouse.contracts import SourceContract
    from lakehouse.contracts.series import Series
    from lakehouse.quality.check_rules import CheckResult


@cache
def _key_prefix() -> list[str]:
    """The beginning of all asset keys of this process, see ``Settings.asset_key_prefix``."""
    return [part for part in Settings().asset_key_prefix.split("/") if part]


def asset_key(layer: str, name: str) -> dg.AssetKey:
    """The asset of a table, such as ``gold/revenue``; of ``arrivals``, ``final`` and ``restated``, an external one."""
    return dg.AssetKey([*_key_prefix(), layer, name])


def table_of(key: dg.AssetKey) -> str:
    """The table of an asset, such as ``gold/revenue``; an asset of a user's own is named by its key."""
    prefix = _key_prefix()
    return "/".join(key.path[len(prefix) :] if key.path[: len(prefix)] == prefix else key.path)


def pool_of(key: dg.AssetKey) -> str:
    """The pool of the runs that write a table."""
    return table_of(key).replace("/", "_")


def owners_of(*owners: str | None) -> list[str]:
    """The owners of contracts as Dagster has them: addresses of mail, and teams."""
    named = dict.fromkeys(owner for owner in owners if owner)
    return [owner if "@" in owner else f"team:{re.sub(r'[^A-Za-z0-9_.-]', '_', owner)}" for owner in named]


#: Set on shared runs.
SHARED = {SHARED_TAG: "every asset takes what waits for it"}
#: Set on shared runs of a single chain, because it failed before or is long.
ALONE = {SHARED_TAG: "alone"}
#: Bronze and Silver of a source are not connected within a run, because ``arrivals`` is an external asset: higher is earlier.
EARLIEST, EARLY = {"dagster/priority": "2"}, {"dagster/priority": "1"}


class RequestedDays(dg.Config):
    """The days for which a sensor requests a shared run; other runs omit them."""

    days: list[str] | None = Field(None, description="In a shared run: the days for which a sensor requested it.")


def is_shared(run: dg.DagsterRun) -> bool:
    """Whether each asset of a run takes what waits for it."""
    return SHARED_TAG in run.tags


def requested(config: RequestedDays) -> list[date]:
    """The days for which a shared run was requested; empty for an asset that follows another one."""
    return [date.fromisoformat(day) for day in config.days or ()]


def days_in(run: dg.DagsterRun, key: dg.AssetKey) -> list[str]:
    """The days of an asset in a shared run's configuration; empty for an asset that follows another one."""
    of_assets: Mapping[str, Any] = run.run_config.get("ops", {})  # type: ignore[assignment]
    return list(of_assets.get(key.to_python_identifier(), {}).get("config", {}).get("days") or ())


def config_of(key: dg.AssetKey, days: Collection[date], more: Mapping[str, object] | None = None) -> dict[str, Any]:
    """The part of a run's configuration that names the days of an asset."""
    return {key.to_python_identifier(): {"config": {"days": [f"{day}" for day in sorted(days)], **(more or {})}}}


#: The exact days of a run that materializes neither a single partition nor a range.
DAYS_TAG = "lakehouse/days"


def arrival_days(contract: SourceContract) -> dg.DailyPartitionsDefinition:
    """Bronze's partitions, today included."""
    return dg.DailyPartitionsDefinition(contract.source.start_date.isoformat(), end_offset=1)


def event_days(*contracts: SourceContract, first: date | None = None) -> dg.DailyPartitionsDefinition:
    """The partitions of silver and gold; events may lie a little ahead of their arrival.

    :param contracts: the contract of the source, or the contracts of all sources of a metric.
    :param first: the first partition; default: the first event day of the sources.
    """
    ahead = max(contract.clocks.max_ahead.days for contract in contracts)
    first = first or min(contract.first_event_day for contract in contracts)
    return dg.DailyPartitionsDefinition(first.isoformat(), end_offset=2 + ahead)


def periods(contracts: Collection[SourceContract], rollup: Series) -> dg.TimeWindowPartitionsDefinition:
    """The partitions of a roll-up, named by their first day, the running period included.

    :param contracts: the contracts of the metric's sources.
    """
    cron = rollup.metric.publication.calendar.cron(rollup.kind)
    first = rollup.period(min(contract.first_event_day for contract in contracts)).start
    return dg.TimeWindowPartitionsDefinition(first.isoformat(), "%Y-%m-%d", cron_schedule=cron, end_offset=2)


def days_of_run(
    context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext,
    config: RequestedDays | None = None,
    waiting: Callable[[], Iterable[date]] | None = None,
) -> list[date]:
    """The days of an asset in a run: from the run's tag, otherwise its partition or range.

    :param config: the asset's configuration, with its days in a shared run.
    :param waiting: the days that wait for the asset, which a shared run takes as well.
    """
    if is_shared(context.run):
        return sorted({*(requested(config) if config else ()), *(waiting() if waiting else ())})
    tag = context.run.tags.get(DAYS_TAG)
    if tag:
        return from_json(tag)
    op_context = getattr(context, "op_execution_context", context)
    return [date.fromisoformat(key) for key in op_context.partition_keys]


def tags_for(days: Collection[date]) -> dict[str, str]:
    """The tags of a single run for scattered days.

    Dagster requires a range for an asset with partitions. The range is the first day only: for a range around all days, Dagster
    would plan each day in between, and mark each as failed when the run fails.
    """
    first = min(days).isoformat()
    return {ASSET_PARTITION_RANGE_START_TAG: first, ASSET_PARTITION_RANGE_END_TAG: first, DAYS_TAG: to_json(days)}


@contextmanager
def progress(context: dg.AssetExecutionContext) -> Iterator[dict[str, dict[str, int]]]:
    """Within the context, write the progress of long work to the run's log every few seconds, and count its requests.

    :returns: what the work does in object stores, by table; known at the end.
    """

    def write(work: str, done: int, total: int | None) -> None:
        context.log.info(pieces.sentence(work, done, total))

    with pieces.listened_to_by(write), counted_requests() as requests:
        yield requests


def report(
    context: dg.AssetExecutionContext,
    key: dg.AssetKey,
    days: Mapping[date, Mapping[str, Any]],
    outcomes: Iterable[CheckResult],
    requests: Mapping[str, Mapping[str, int]],
) -> Iterator[dg.MaterializeResult[None]]:
    """Report the materialization of ``days``, with metadata, and the check outcomes if no check step follows.

    :param requests: what the run has done in object stores; it is reported with the newest day.
    """
    if requests and days:
        days = {**days, max(days): {**days[max(days)], "object_store": dg.MetadataValue.json(requests)}}
    scattered = _logs_each_day(context.run)
    if scattered:
        materialized(context, key, days)
    if reports_checks(context):
        checked(context, key, with_deprecated_names(outcomes))
    if not scattered:
        for day, metadata in sorted(days.items()):
            context.add_asset_metadata(dict(metadata), asset_key=key, partition_key=day.isoformat())
        yield dg.MaterializeResult(asset_key=key)


def reports_checks(context: dg.AssetExecutionContext) -> bool:
    """Whether a run reports check outcomes itself, because no check step follows."""
    return _logs_each_day(context.run) or context.run.asset_check_selection == frozenset()


def _logs_each_day(run: dg.DagsterRun) -> bool:
    """Whether assets log the events of their days, because the run has neither a partition nor a range of theirs."""
    return DAYS_TAG in run.tags or is_shared(run)


def materialized(context: dg.AssetExecutionContext, key: dg.AssetKey, days: Mapping[date, Mapping[str, Any]]) -> None:
    """Log a materialization of ``key`` for each day, with its metadata."""
    events = (
        dg.AssetMaterialization(key, partition=day.isoformat(), metadata=dict(metadata)) for day, metadata in sorted(days.items())
    )
    log_all(context.instance, events, context.log_event)


def checked(
    context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext, key: dg.AssetKey, outcomes: Iterable[CheckResult]
) -> None:
    """Log an evaluation for each outcome, bound to the newest materialization of its partition."""
    outcomes = list(outcomes)
    partitions = sorted({outcome.day.isoformat() for outcome in outcomes})
    targets = newest(context.instance, key, partitions)
    events = (_evaluation(key, outcome, targets.get(outcome.day.isoformat())) for outcome in outcomes)
    # Dagster accepts evaluations here, too; its annotation does not name them.
    log_all(context.instance, events, context.op_execution_context.log_event)  # type: ignore[arg-type]


def _evaluation(
    key: dg.AssetKey, outcome: CheckResult, target: AssetCheckEvaluationTargetMaterializationData | None
) -> dg.AssetCheckEvaluation:
    metadata = dict(outcome.numbers)
    if outcome.explanation:
        metadata["what_to_do"] = outcome.explanation
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=outcome.check,
        passed=outcome.passed,
        metadata=metadata,
        target_materialization_data=target,
        severity=severity(warns=outcome.warns),
        description=outcome.explanation,
        partition=outcome.day.isoformat(),
    )


def severity(*, warns: bool) -> dg.AssetCheckSeverity:
    """The severity with which Dagster shows a failed check."""
    return dg.AssetCheckSeverity.WARN if warns else dg.AssetCheckSeverity.ERROR


def newest(
    instance: dg.DagsterInstance, key: dg.AssetKey, partitions: list[str]
) -> dict[str, AssetCheckEvaluationTargetMaterializationData]:
    """The newest materialization of each of ``partitions`` that has one."""
    if not partitions:
        return {}
    storage_ids = instance.event_log_storage.get_latest_storage_id_by_partition(
        key, dg.DagsterEventType.ASSET_MATERIALIZATION, set(partitions)
    )
    wanted = dg.AssetRecordsFilter(asset_key=key, storage_ids=list(storage_ids.values()))
    records = instance.fetch_materializations(wanted, limit=max(len(storage_ids), 1)).records
    return {
        record.partition_key: AssetCheckEvaluationTargetMaterializationData(
            run_id=record.run_id, storage_id=record.storage_id, timestamp=record.timestamp
        )
        for record in records
        if record.partition_key
    }
