"""Compares a metric's numbers with their present inputs: the checks of candidates, and published numbers against Silver.

The checks that a candidate must pass belong to ``publication.checks``. A difference between published numbers and Silver that a
pending change explains is reported, but is not a failure.

:func:`differing_numbers` lists the published numbers that would come out otherwise if they were computed again, before anything
is restated; nothing is written. The rows are those that silver holds now, so that what differs follows from the code, the
contract or a pending change. The rows that a rebuild would change belong to ``silver.rebuild``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakehouse.dimensions import checks
from lakehouse.gold import isolation
from lakehouse.gold.numbers import history, lifecycle, published_table
from lakehouse.gold.numbers.comparison import Sides
from lakehouse.gold.publication import candidates, held_numbers, late_at_close, write_audit_publish
from lakehouse.gold.publication import checks as publication_checks
from lakehouse.gold.restatement import derived as derived_numbers
from lakehouse.gold.restatement import derived_inputs, metric_query, rollups
from lakehouse.gold.restatement import lineage as restatement_lineage
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import failures
from lakehouse.quality.check_rules import CheckResult

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import date

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.gold.isolation import Isolated
    from lakehouse.gold.publication.write_audit_publish import SeriesSnapshot
    from lakehouse.lake import Lake

EQUALS_SILVER, EQUALS_INPUTS = "published_equals_silver", "published_equals_inputs"
#: The checks of published numbers, which need no new computation.
PUBLISHED = {
    EQUALS_SILVER: "The published number contains as many rows as silver has now, or a restatement is pending.",
    EQUALS_INPUTS: "The published number counts as many rows as its inputs do now, or a restatement is pending.",
    checks.FACTS_MATCHED: checks.MATCHED_DESCRIPTION,
}


def gold_check_names(series: Series) -> dict[str, str]:
    """The checks of a metric's days, each with its description."""
    names = publication_checks.names(series.checks) | publication_checks.deprecated_names()
    if series.metric.is_derived:
        del names["totals_equal_silver"]
    check = EQUALS_INPUTS if series.metric.is_derived else EQUALS_SILVER
    counted = [check] if restatement_lineage.is_counted(series.metric) else []
    shown = [*counted, *([checks.FACTS_MATCHED] if checks.bounded(series.metric) else [])]
    return names | {name: PUBLISHED[name] for name in shown}


def check_gold(lake: Lake, series: Series, session: Callable[[], SparkSession], days: Collection[date]) -> list[CheckResult]:
    """Run the checks of candidates on the number that silver, or the inputs, give now for each event day that has rows."""
    lake = lake.cached()
    if series.metric.is_derived:
        return _check_candidates(lake, series, _derived(lake, series, session, days), {})
    every = late_at_close.closed_with_every_row(lake, series, days)
    counted = restatement_lineage.count_silver_rows(lake, series.metric, days, every)
    is_counted = restatement_lineage.is_counted(series.metric)
    with_rows = [day for day in sorted(days) if counted.get(day) or not is_counted]

    def compute(metric: MetricContract | None, part: Sequence[date]) -> dict[date, pa.Table]:
        return metric_query.numbers(session, lake, metric or series.metric, part, with_every_row=every)

    computed = isolation.numbers_of(lake, series, with_rows, compute, lambda day: day)
    return _check_candidates(lake, series, computed, counted)


def check_rollup(
    lake: Lake,
    contract: SourceContract,
    rollup: Series,
    session: Callable[[], SparkSession],
    starts: Collection[date],
) -> list[CheckResult]:
    """Run the checks of candidates on the number that the published days give now for each period.

    :param starts: the first days of the periods.
    """
    lake = lake.cached()
    if rollup.metric.is_derived:
        return _check_candidates(lake, rollup, _derived(lake, rollup, session, starts), {})
    periods = [rollup.period(start) for start in sorted(starts)]

    def compute(metric: MetricContract | None, part: Sequence[Period]) -> dict[Period, pa.Table]:
        of_periods = replace(rollup, metric=metric or rollup.metric)
        return rollups.period_numbers(lake, contract, of_periods, session, part)

    computed = isolation.numbers_of(lake, rollup, periods, compute, lambda period: period.start)
    return _check_candidates(lake, rollup, computed.by(lambda period: period.start), {})


def check_published(lake: Lake, series: Series, days: Collection[date]) -> list[CheckResult]:
    """Compare the number of rows in each day's published number, including adjustments, with the present rows of silver or the
    inputs.

    Windows that span midnight are not compared, because the Delta log does not record how many windows a row falls into. Where
    the contract bounds the share of facts without a match in a dimension, this is checked as well.

    :param series: the days of a metric as readers see them.
    """
    lake = lake.cached()
    if not restatement_lineage.is_counted(series.metric):
        return checks.check_matched(lake, series.metric, days)
    before = write_audit_publish.read(lake, series, sorted(days), to_publish=False)
    published = _published_rows(before)
    is_derived = series.metric.is_derived
    in_silver = (
        derived_inputs.row_counts(lake, series, days)
        if is_derived
        else restatement_lineage.count_silver_rows(
            lake, series.metric, days, late_at_close.counting_every_row(lake, series, before.existing)
        )
    )
    check, upstream = (EQUALS_INPUTS, "its inputs count") if is_derived else (EQUALS_SILVER, "silver has")
    differing = [day for day in sorted(days) if published.get(day, 0) != in_silver.get(day, 0)]
    reasons = _reasons(lake, before, differing) if differing else {}
    outcomes = []
    for day in sorted(days):
        shown, held, reason = published.get(day, 0), in_silver.get(day, 0), reasons.get(day)
        differs = shown != held
        numbers = {
            "published_rows": shown,
            "input_rows" if is_derived else "silver_rows": held,
            "difference": shown - held,
            "explained": int(differs and reason is not None),
        }
        difference = f"the published number contains {shown} rows, and {upstream} {held}"
        advice = reason or f"no pending change explains it: materialize gold/{series.name} for {day}"
        explanation = f"{difference}: {advice}" if differs else None
        outcomes.append(CheckResult(check, day, not differs or reason is not None, numbers, explanation))
    return [*outcomes, *checks.check_matched(lake, series.metric, days)]


def _check_candidates(lake: Lake, series: Series, computed: Isolated[date], silver_rows: Mapping[date, int]) -> list[CheckResult]:
    """Run the checks of candidates on numbers that were computed but are not published."""
    numbers = computed.numbers
    before = write_audit_publish.read(lake, series, sorted(numbers), to_publish=False)
    trailing = write_audit_publish.trailing(lake, series, numbers)
    outcomes = [publication_checks.computed(start, explanation) for start, (_, explanation) in sorted(computed.failed.items())]
    for start, rows in sorted(numbers.items()):
        standing = before.published_states.get(start)
        revision = (standing.revision if standing else 0) + 1
        shown = before.latest.get(start, rows.slice(0, 0))
        candidate = replace(
            write_audit_publish.candidate_of(before, start, revision, rows),
            read_back=shown,
            trailing=trailing,
            silver_rows=silver_rows.get(start),
        )
        outcomes += publication_checks.audit(series.checks, candidate)
    return outcomes


def _derived(lake: Lake, series: Series, session: Callable[[], SparkSession], starts: Collection[date]) -> Isolated[date]:
    return derived_numbers.compute(lake, session, series, derived_inputs.newest(lake, series, starts))


def _published_rows(before: SeriesSnapshot) -> dict[date, int]:
    """The number of rows in the newest number of each day, including its adjustments."""
    if before.existing is None:
        return {}
    by = before.series.by
    counts = before.existing.group_by([by, "revision"]).aggregate([("row_count", "sum")]).to_pylist()
    return {row[by]: row["row_count_sum"] or 0 for row in sorted(counts, key=lambda row: row["revision"])}


def _reasons(lake: Lake, before: SeriesSnapshot, days: Collection[date]) -> Mapping[date, str]:
    """The reason why the published number of a day differs from silver, if something pending explains it."""
    series, terms = before.series, before.series.metric.publication
    today = lifecycle.today(lake.now(), terms)
    pending = find_pending(lake, series).starts
    held = {candidate.start for candidate in candidates.held(lake, series, days)}
    failed = failures.failing(lake, series.name, days)
    kept = held_numbers.kept_periods(lake, series.name, days)
    refused = held_numbers.find_refused(lake, series, before.existing, days)
    reasons = {}
    for day in days:
        if not lifecycle.may_be_published(day, today, terms):
            reasons[day] = f"it is not published before {terms.start_delay} days have passed"
        elif day in failed:
            reasons[day] = f"the new number is held: {failed[day].explanation}"
        elif day in held:
            reasons[day] = "the new number is held: see 'lakehouse gold held'"
        elif day in kept:
            reasons[day] = f"it was put back to {kept[day].version} by {kept[day].by}: see 'lakehouse gold release'"
        elif day in pending:
            upstream = "an input" if series.metric.is_derived else "silver"
            reasons[day] = f"{upstream} has changed since, and a restatement is pending"
        elif late_at_close.is_exhausted(lake, series, before.existing, day):
            reasons[day] = late_at_close.EXHAUSTED
        elif day in refused:
            reasons[day] = "the new number was dropped, and the published one stays"
    return reasons


#: So many days are computed at a time.
_DAYS = 500


@dataclass(frozen=True)
class DifferingNumber:
    """A published day whose number would come out otherwise.

    :param measures: the total of each measure over the grain, as published and as computed now.
    :param problem: why the number cannot be computed now; then ``measures`` is empty.
    """

    day: date
    measures: Mapping[str, Sides] = field(default_factory=dict)
    problem: str | None = None


def differing_numbers(
    lake: Lake, series: Series, session: Callable[[], SparkSession], first: date | None = None, last: date | None = None
) -> list[DifferingNumber]:
    """The published days of a metric whose number differs from what its rows give now; days without rows are left out.

    :param series: the days of a metric that reads rows, as readers see them.
    :param first: the first day; by default all published ones. ``last`` likewise.
    """
    lake = lake.cached()
    published = published_table.starts(lake, series)
    days = sorted(day for day in published if (first is None or day >= first) and (last is None or day <= last))
    every: set[date] = set()

    def compute(metric: MetricContract | None, part: Sequence[date]) -> dict[date, pa.Table]:
        return metric_query.numbers(session, lake, metric or series.metric, part, with_every_row=every)

    differing = list[DifferingNumber]()
    for start in range(0, len(days), _DAYS):
        some = days[start : start + _DAYS]
        before = write_audit_publish.read(lake, series, some, to_publish=False)
        states = before.published_states
        every |= late_at_close.counting_every_row(lake, series, before.existing)
        computed = isolation.numbers_of(lake, series, some, compute, lambda day: day)
        others = {
            day: rows
            for day, rows in computed.numbers.items()
            if (state := states.get(day)) and not published_table.is_content(rows, state.restated or state.content)
        }
        differing += [DifferingNumber(day, problem=problem) for day, (_, problem) in computed.failed.items() if day in states]
        differing += _compared(lake, series, others)
    return sorted(differing, key=lambda one: one.day)


def _compared(lake: Lake, series: Series, numbers: Mapping[date, pa.Table]) -> list[DifferingNumber]:
    """Computed numbers beside those that are published, with their adjustments."""
    known = history.history(lake, series, numbers)
    compared = []
    for day, rows in numbers.items():
        published = history.moved(series, known[day])[-1]
        now = history.grain_totals(series, rows.to_pylist())
        sides = {name: Sides(published[name].after if name in published else None, total) for name, total in now.items()}
        compared.append(DifferingNumber(day, sides))
    return compared
