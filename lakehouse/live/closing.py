"""The reconciliation of closed days: the days that are due, the check of each, and the expiry of their live numbers."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.gold import failures, isolation
from lakehouse.gold.numbers import published_table
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.live import batches, reconciliation_log, table
from lakehouse.live.causes import UNEXPLAINED, number
from lakehouse.live.reconcile import reconcile
from lakehouse.quality.check_result import CheckResult

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.live.causes import Reconciled


LIVE_EQUALS_BOOKS = "live_equals_books"


def check_names(metric: MetricContract) -> dict[str, str]:
    """The check of a live metric's days, with its description; none for other metrics."""
    text = "The live numbers of the day are within the threshold of the published ones, and each difference has its causes."
    return {LIVE_EQUALS_BOOKS: text} if metric.live else {}


def due(lake: Lake, metric: MetricContract, days: Collection[date]) -> list[date]:
    """Those of ``days`` that are published, past the state live, and not reconciled at their newest revision.

    Days for which the stream has never had a number are not among them.
    """
    if metric.live is None or not days:
        return []
    series = Series(metric)
    where = {series.by: days, "is_latest": [True]}
    rows = locations.gold(lake, series).read([series.by, "revision", "state"], where)
    if rows is None:
        return []
    published = rows.group_by([series.by, "revision", "state"]).aggregate([]).to_pylist()
    revisions = {row[series.by]: row["revision"] for row in published if row["state"] != State.LIVE.value}
    streamed = published_table.partitions(locations.live(lake, metric.name), "event_date")
    reconciled = {day: reconciliation_log.newest(lake, metric.name, day) for day in revisions}
    return [
        day
        for day, revision in sorted(revisions.items())
        if (day in streamed or reconciled[day]) and {entry.revision for entry in reconciled[day]} != {revision}
    ]


def reconcile_due(
    session: Callable[[], SparkSession],
    lake: Lake,
    metric: MetricContract,
    contract: SourceContract,
    days: Collection[date],
) -> list[CheckResult]:
    """Reconcile those of ``days`` that are due, and remove live numbers that are reconciled and past their time."""
    outcomes = [_reconciled(session, lake, metric, contract, day) for day in due(lake, metric, days)]
    expire(lake, metric)
    return outcomes


def check_reconciled(
    session: Callable[[], SparkSession],
    lake: Lake,
    metric: MetricContract,
    contract: SourceContract,
    days: Collection[date],
) -> list[CheckResult]:
    """The check of those ``days`` that have been reconciled, or are due, in their present state."""
    wanted = sorted({*due(lake, metric, days), *(day for day in days if reconciliation_log.newest(lake, metric.name, day))})
    return [_reconciled(session, lake, metric, contract, day) for day in wanted]


def _reconciled(
    session: Callable[[], SparkSession], lake: Lake, metric: MetricContract, contract: SourceContract, day: date
) -> CheckResult:
    """The check of a day; a day whose rows cannot be computed fails the check and does not stop other days."""
    try:
        return checked(day, reconcile(session, lake, metric, contract, day).entries)
    except Exception as problem:
        if not isolation.is_of_a_value(problem):
            raise
        explanation = f"{metric.name} of {day} cannot be reconciled with its stream: {failures.reason(problem)}"
        return CheckResult(LIVE_EQUALS_BOOKS, day, passed=False, explanation=explanation, warns=True)


def checked(day: date, entries: Sequence[Reconciled]) -> CheckResult:
    """The check of a reconciled day."""
    closed = [entry for entry in entries if entry.is_closed]
    beyond = [entry for entry in closed if entry.exceeds]
    unexplained = [entry for entry in entries if UNEXPLAINED in entry.causes]
    numbers = {"numbers": len(entries), "closed": len(closed), "different": sum(bool(entry.gap) for entry in closed)}
    numbers |= {"beyond_threshold": len(beyond), "unexplained": len(unexplained)}
    explanation = None
    if beyond:
        worst = max(beyond, key=_share)
        at = f" at {worst.window_start:%H:%M} UTC" if worst.window_start else ""
        explanation = f"{worst.measure}{at} was {worst.live or 'nothing'} and is {worst.books or 'nothing'}: {_named(worst)}"
    elif unexplained:
        explanation = (
            "the stream counted other rows than the rule says; compute the live numbers again with 'lakehouse live rebuild'"
        )
    return CheckResult(LIVE_EQUALS_BOOKS, day, not (beyond or unexplained), numbers, explanation, warns=True)


def expire(lake: Lake, metric: MetricContract) -> int:
    """Remove the live numbers of closed windows that are reconciled and past their time; returns their number."""
    if metric.live is None:
        return 0
    newest = batches.newest(lake, metric.name)
    if newest is None or newest.watermark is None:
        return 0
    ended_by = min(lake.now() - metric.live.keep, newest.watermark)
    known = published_table.partitions(locations.live(lake, metric.name), "event_date")
    old = [day for day in known if day <= ended_by.date()]
    return table.expire(lake, metric, [day for day in old if reconciliation_log.newest(lake, metric.name, day)], ended_by)


def _share(entry: Reconciled) -> Decimal:
    """The size of a difference as a share of the published number."""
    books = abs(number(entry.books))
    return abs(entry.gap) / books if books else Decimal("Infinity")


def _named(entry: Reconciled) -> str:
    return ", ".join(f"{cause} {value}" for cause, value in entry.causes.items())
