"""The partitions of assets, and the tags that name the partitions of a run."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.calendar.days import from_json, to_json
from lakehouse.orchestration.common.dagster_internals import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakehouse.contracts import SourceContract
    from lakehouse.contracts.series import Series

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


def days_of_run(context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext) -> list[date]:
    """The days of a run: from its tag, otherwise its partition or range."""
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
