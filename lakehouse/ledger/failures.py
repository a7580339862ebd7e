"""``ops/failed_numbers`` and ``ops/failed_checks``: the numbers that cannot be computed, and the failing checks, with reasons.

The number of a period that cannot be computed from its rows is held: readers see the previous one, if there is one. A period is
computed again when its rows change, and when the contract or the code does. The reason is one sentence, made here. Which number
fails is determined in ``gold.isolation``, and for adjustments in ``gold.publication``.

The checks are those of Bronze and silver with severity ERROR, with the event days that they concern. A number of such a day is
held (see ``gold.publication``), until the check passes and the number is computed again, or a person publishes it.

The tables have a row for each period, or each check and day, that has ever failed; a table does not exist before anything failed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import provenance, row_writer
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from datetime import date, datetime

    from lakehouse.contracts.metric import Measure
    from lakehouse.contracts.series import Series
    from lakehouse.lake import Lake
    from lakehouse.quality.check_rules import CheckResult

#: The check that a number which cannot be computed fails.
COMPUTED = "computed"
_KEYS = ("series", "start")


@dataclass(frozen=True)
class FailedNumber:
    """A period of a series: whether its number still cannot be computed, which measure fails, and why.

    :param explanation: a sentence for people, with the remedy.
    :param measure: None if the failure cannot be assigned to one measure.
    """

    series: str
    start: date
    measure: str | None
    explanation: str
    contract_version: str
    code_version: str
    fails: bool
    run_id: str
    recorded_at: datetime


def log(lake: Lake) -> LogTable[FailedNumber]:
    """The table."""
    return LogTable(FailedNumber, lake, locations.failed_numbers(lake), partition_by="series")


def failing(lake: Lake, series: str, starts: Collection[date] | None = None) -> dict[date, FailedNumber]:
    """The periods of a series whose number cannot be computed, in order.

    :param starts: only these periods.
    """
    entries = log(lake).read({"series": [series]})
    wanted = None if starts is None else set(starts)
    found = {entry.start: entry for entry in entries if entry.fails and (wanted is None or entry.start in wanted)}
    return dict(sorted(found.items()))


def may_pass(lake: Lake, series: Series) -> set[date]:
    """The failing periods that were computed under another contract or with other code than the present one."""
    present = (provenance.of_contract(series.metric), provenance.code())
    entries = failing(lake, series.name)
    return {start for start, entry in entries.items() if (entry.contract_version, entry.code_version) != present}


def record(
    lake: Lake,
    series: Series,
    failed: Mapping[date, tuple[str | None, str]],
    computed: Collection[date],
    run_id: str,
) -> list[date]:
    """Record the numbers that fail, and those that failed before and no longer do; nothing is written if there are neither.

    :param failed: by period, the measure that fails and the explanation.
    :param computed: the periods that the run has computed.
    :returns: the periods that no longer fail.
    """
    known = failing(lake, series.name)
    versions, now = (provenance.of_contract(series.metric), provenance.code()), lake.now()
    entries = [
        FailedNumber(series.name, start, measure, explanation, *versions, True, run_id, now)
        for start, (measure, explanation) in failed.items()
    ]
    mended = sorted(known.keys() & set(computed) - failed.keys())
    entries += [replace(known[start], fails=False, run_id=run_id, recorded_at=now) for start in mended]
    if entries:
        table = log(lake)
        rows = pa.Table.from_pylist([table.to_row(entry) for entry in entries], schema=table.schema)
        row_writer.upsert(table.table, rows, _KEYS, partition_by="series")
    return mended


_CHECK_KEYS = ("source", "layer", "check", "day")


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


def check_log(lake: Lake) -> LogTable[FailingCheck]:
    """The table."""
    return LogTable(FailingCheck, lake, locations.failed_checks(lake), partition_by="source")


def recorded_checks(lake: Lake, source: str) -> list[FailingCheck]:
    """The checks of a source that fail or have failed."""
    return check_log(lake).read({"source": [source]})


def failing_checks(lake: Lake, source: str) -> list[FailingCheck]:
    """The checks of a source that fail, by table, day and name."""
    entries = [entry for entry in recorded_checks(lake, source) if entry.fails]
    return sorted(entries, key=lambda entry: (entry.table, entry.day, entry.check))


def days_of(lake: Lake, source: str, layer: str) -> set[date]:
    """The days on which a check of ``layer`` fails: rows of another day may have mended it."""
    return {entry.day for entry in failing_checks(lake, source) if entry.layer == layer}


def record_checks(
    lake: Lake,
    source: str,
    layer: str,
    outcomes: Iterable[CheckResult],
    event_days: Callable[[date], Collection[date]] = lambda day: [day],
) -> None:
    """Record the checks that fail, and those that failed before and pass now; nothing is written if there are neither.

    :param event_days: returns the event days that a partition of the layer concerns; by default the day of the partition.
    """
    known = {(entry.check, entry.day) for entry in failing_checks(lake, source) if entry.layer == layer}
    fail: dict[tuple[str, date], FailingCheck] = {}
    for outcome in outcomes:
        place, fails = (outcome.check, outcome.day), not outcome.passed and not outcome.warns
        if fails or (place in known and place not in fail):
            days = sorted(event_days(outcome.day)) if fails else []
            why, now = outcome.explanation or "failed", lake.now()
            fail[place] = FailingCheck(source, layer, outcome.check, outcome.day, days, why, fails, now)
    if fail:
        table = check_log(lake)
        rows = pa.Table.from_pylist([table.to_row(entry) for entry in fail.values()], schema=table.schema)
        row_writer.upsert(table.table, rows, _CHECK_KEYS, partition_by="source")


def by_event_day(lake: Lake, source: str) -> dict[date, list[FailingCheck]]:
    """The checks that fail, by the event days that they concern."""
    found: dict[date, list[FailingCheck]] = defaultdict(list)
    for entry in failing_checks(lake, source):
        for day in entry.event_days:
            found[day].append(entry)
    return dict(found)


_CODE = re.compile(r"\[[A-Z_]+(?:\.[A-Z_]+)*\]\s*")
_ADVICE = re.compile(r"\s*(?:If necessary set|To process malformed records|To return NULL instead|Use `?'?try_).*$", re.DOTALL)
_NOISE = re.compile(r"\s*SQLSTATE: \w+.*$", re.DOTALL)
_JAVA = re.compile(r"^\s*(?:Caused by: )?(?:java|org)\.[\w.]+(?:Exception|Error): (.+)$", re.MULTILINE)


def explained(series: Series, start: date, measure: Measure | None, problem: Exception) -> str:
    """Why the number of the period that begins at ``start`` fails: the measure if one is to blame, the reason, the remedy."""
    of = f" (measure {measure.name}: {measure.sql} as {measure.type})" if measure else ""
    return (
        f"{series.name} of {series.period(start).name} cannot be computed{of}: {reason(problem)}. Correct the rows, or the "
        f"measure in the contract of {series.metric.name} (a decimal may have more digits; another type needs "
        "a new dataset_version); the next run then publishes the number"
    )


def reason(problem: Exception) -> str:
    """The part of an error about the value, in one line, without Spark's codes and settings."""
    text = f"{problem}".strip()
    java = _JAVA.findall(text) if "Traceback" in text or "\tat " in text else []
    line = (java[-1] if java else text).splitlines()[0] if text else type(problem).__name__
    line = _ADVICE.sub("", _NOISE.sub("", _CODE.sub("", line)))
    return line.strip().rstrip(".") or type(problem).__name__
