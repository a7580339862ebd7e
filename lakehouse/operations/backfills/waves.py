"""Waves: the division of a backfill's partitions into runs.

Belongs here: the size and the order of waves, and the rule for waves of a table that may run in any order. The partitions of a
backfill belong to ``planner``; running a wave belongs to ``orchestration.execution.backfill_waves``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.dispositions.reprocess_policy import policy_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import date

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.operations.backfills.plan import Order, PlannedFile


def cut_into_waves(partitions: Collection[date], order: Order, size: int) -> Iterator[list[date]]:
    """Divide partitions into waves of at most ``size``, in the order of the plan."""
    ordered = sorted(partitions, reverse=order == "descending")
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]


def are_independent_arrivals(contract: SourceContract, files: Collection[PlannedFile]) -> bool:
    """Whether Bronze may ingest arrival days in any order, with the same result as in the plan's order.

    The order matters in three cases: content delivered on two days is recorded on the first day ingested, a policy that chooses
    between deliveries compares them, and without an arrival time in the files, the time of ingestion decides which row of a key
    is newer.
    """
    if policy_of(contract).chooses_deliveries or contract.clocks.arrival is None:
        return False
    days_of_content = {(file.sha256, file.arrival_date) for file in files}
    return len(days_of_content) == len({content for content, _ in days_of_content})


def are_independent_numbers(metric: MetricContract) -> bool:
    """Whether days of a metric may be published in any order: no check compares a day with days published before it."""
    return not metric.checks.trailing_days
