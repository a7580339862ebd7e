"""``ops/failed_checks``: the checks of Bronze and silver with severity ERROR that fail, and the event days that they concern.

A number of such a day is held (see ``gold.publication``), until the check passes and the number is computed again, or a person
publishes it. The table has a row for each check and day that has ever failed; it does not exist if no check has failed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import row_writer
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from datetime import date, datetime

    from lakehouse.lake import Lake
    from lakehouse.quality.check_result import CheckResult

_KEYS = ("source", "layer", "check", "day")


@dataclass(frozen=True)
class FailingCheck:
    """A check on a day's partition of ``layer``: whether it still fails, why, and the event days that it concerns."""

    source: str
    layer: str
    check: str
    day: date
    event_days: list[date]
    explanation: str
    fails: bool
    recorded_at: datetime

    @property
    def table(self) -> str:
        """The name of the checked table."""
        return f"{self.layer}/{self.source}"


def log(lake: Lake) -> LogTable[FailingCheck]:
    """The table."""
    return LogTable(FailingCheck, lake, locations.failed_checks(lake), partition_by="source")


def all_of(lake: Lake, source: str) -> list[FailingCheck]:
    """The checks of a source that fail or have failed."""
    return log(lake).read({"source": [source]})


def failing(lake: Lake, source: str) -> list[FailingCheck]:
    """The checks of a source that fail, by table, day and name."""
    entries = [entry for entry in all_of(lake, source) if entry.fails]
    return sorted(entries, key=lambda entry: (entry.table, entry.day, entry.check))


def days_of(lake: Lake, source: str, layer: str) -> set[date]:
    """The days on which a check of ``layer`` fails: rows of another day may have mended it."""
    return {entry.day for entry in failing(lake, source) if entry.layer == layer}


def record(
    lake: Lake,
    source: str,
    layer: str,
    outcomes: Iterable[CheckResult],
    event_days: Callable[[date], Collection[date]] = lambda day: [day],
) -> None:
    """Record the checks that fail, and those that failed before and pass now; nothing is written if there are neither.

    :param event_days: returns the event days that a partition of the layer concerns; by default the day of the partition.
    """
    known = {(entry.check, entry.day) for entry in failing(lake, source) if entry.layer == layer}
    fail: dict[tuple[str, date], FailingCheck] = {}
    for outcome in outcomes:
        place, fails = (outcome.check, outcome.day), not outcome.passed and not outcome.warns
        if fails or (place in known and place not in fail):
            days = sorted(event_days(outcome.day)) if fails else []
            why, now = outcome.explanation or "failed", lake.now()
            fail[place] = FailingCheck(source, layer, outcome.check, outcome.day, days, why, fails, now)
    if fail:
        table = log(lake)
        rows = pa.Table.from_pylist([table.to_row(entry) for entry in fail.values()], schema=table.schema)
        row_writer.upsert(table.table, rows, _KEYS, partition_by="source")


def by_event_day(lake: Lake, source: str) -> dict[date, list[FailingCheck]]:
    """The checks that fail, by the event days that they concern."""
    found: dict[date, list[FailingCheck]] = defaultdict(list)
    for entry in failing(lake, source):
        for day in entry.event_days:
            found[day].append(entry)
    return dict(found)
