"""The estimated duration of a plan, from earlier runs in Dagster's storage, by table and number of partitions."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from statistics import StatisticsError, linear_regression, median
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.calendar.days import span
from lakehouse.operations.backfills.plan import Layer
from lakehouse.orchestration.common.dagster_internals import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG
from lakehouse.orchestration.common.partitions import DAYS_TAG
from lakehouse.orchestration.execution.in_process import TABLE_TAG

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lakehouse.operations.backfills.plan import Wave

_LOOK_AT = 200


@dataclass(frozen=True)
class Cost:
    """The seconds of all waves, run consecutively, and the number of earlier runs used; None if a table has no earlier run."""

    seconds: float | None
    runs: int
    unknown: tuple[str, ...] = ()


def estimate(instance: dg.DagsterInstance, waves: Sequence[Wave]) -> Cost:
    """Estimate each wave from earlier runs of its table: a fixed part and a part per partition, if the runs determine both."""
    past = _past(instance, {wave.table for wave in waves if wave.layer is Layer.ROLLUPS})
    unknown = sorted({wave.table for wave in waves} - past.keys())
    used = sum(len(past[table]) for table in {wave.table for wave in waves} & past.keys())
    if unknown or not waves:
        return Cost(None, used, tuple(unknown))
    return Cost(sum(_seconds(past[wave.table], len(wave.partitions)) for wave in waves), used)


def _past(instance: dg.DagsterInstance, longer: Collection[str]) -> dict[str, list[tuple[int, float]]]:
    """By table, the partitions and seconds of the successful runs that materialized only that table.

    :param longer: the tables with partitions longer than a day, whose number a range does not determine.
    """
    durations: dict[str, list[tuple[int, float]]] = defaultdict(list)
    done = dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS])
    for record in instance.get_run_records(done, limit=_LOOK_AT):
        run = record.dagster_run
        tables = [key.to_user_string() for key in run.asset_selection or ()] or [run.tags.get(TABLE_TAG, "")]
        if len(tables) == 1 and record.start_time and record.end_time:
            partitions = _partitions(run.tags)
            if partitions == 1 or DAYS_TAG in run.tags or tables[0] not in longer:
                durations[tables[0]].append((partitions, record.end_time - record.start_time))
    return durations


def _partitions(tags: Mapping[str, str]) -> int:
    """The number of days of a run: scattered days, those of a range, or one."""
    if DAYS_TAG in tags:
        return len(json.loads(tags[DAYS_TAG]))
    if ASSET_PARTITION_RANGE_START_TAG not in tags:
        return 1
    ends = (date.fromisoformat(tags[end]) for end in (ASSET_PARTITION_RANGE_START_TAG, ASSET_PARTITION_RANGE_END_TAG))
    return len([*span(*ends)])


def _seconds(past: Sequence[tuple[int, float]], partitions: int) -> float:
    try:
        slope, fixed = linear_regression([count for count, _ in past], [seconds for _, seconds in past])
    except StatisticsError:  # one run, or all of the same size
        slope, fixed = 0.0, median(seconds for _, seconds in past)
    if slope < 0 or fixed < 0:
        return median(seconds for _, seconds in past)
    return fixed + slope * partitions
