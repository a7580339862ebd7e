"""The rules of checks: row counts, NULLs, drift, how far a restatement moves a number, and the result that every check returns.

A rule is a function that returns its finding in numbers and words. Those of row counts and NULLs also judge the columns and rows
of Bronze and Silver; which rows are counted is decided in the ``checks`` module of each layer. Bounds are compared exactly, as
fractions: a value on a bound is within it.

The rules and their bounds are declared in ``contracts.checks``, the statistics are in ``statistics``. What is checked under every
contract, and what follows a failure, belongs to ``gold.publication.checks``.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.quality import statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import date

    from deltalake import DeltaTable

    from lakehouse.contracts.checks import ChangeLimit, Drift, GoldChecks, NullShare, RowCount, Severity, Trailing
    from lakehouse.contracts.source import SourceContract
    from lakehouse.quality.statistics import Result

#: Raises an error for a fraction without a short exact decimal form.
_EXACT = Context(prec=40, traps=[Inexact])


@dataclass(frozen=True)
class CheckResult:
    """One check on one partition. ``explanation`` is the reason of a failure and the remedy; ``warns`` marks a warning."""

    check: str
    day: date
    passed: bool
    numbers: dict[str, Any] = field(default_factory=dict)
    explanation: str | None = None
    warns: bool = False


@dataclass(frozen=True)
class Candidate:
    """A revision that no reader sees yet.

    ``rows`` has the grain, the measures and ``row_count``. The other tables have the same columns; a table published before the
    contract had a measure may lack that measure.
    """

    metric: str
    period: date  #: its first day
    revision: int
    grain: Sequence[str]
    rows: pa.Table
    read_back: pa.Table  #: the rows as a second engine reads them back
    published: pa.Table | None = None  #: the latest published revision of the period
    trailing: pa.Table | None = None  #: also has ``event_date``: the latest published rows of days before the period
    silver_rows: int | None = None  #: how many rows of silver the number covers, counted independently
    failed_inputs: str | None = None  #: which checks of its rows and arrivals fail

    @property
    def row_count(self) -> int:
        """The number of silver rows that the candidate is computed from."""
        return sum(self.rows["row_count"].to_pylist())

    def values(self, column: str) -> list[Any]:
        """The non-NULL values of ``column``."""
        return _values(self.rows, column)

    def published_values(self, column: str) -> list[Any] | None:
        """The non-NULL values of ``column`` in the published revision; None if there is no such revision or column."""
        if self.published is None or column not in self.published.column_names:
            return None
        return _values(self.published, column)

    def trailing_counts(self, days: int) -> list[int]:
        """The row counts of those of the ``days`` days before the period that were published; an emptied day counts 0."""
        return [sum(values) for values in self._by_day("row_count", days, self.trailing).values()]

    def trailing_values(self, column: str, days: int) -> list[list[Any]]:
        """The non-NULL values of ``column`` for each of the ``days`` days before the period that has any."""
        return list(self._by_day(column, days, None if self.trailing is None else with_content(self.trailing)).values())

    def _by_day(self, column: str, days: int, table: pa.Table | None) -> dict[date, list[Any]]:
        by_day: dict[date, list[Any]] = defaultdict(list)
        if table is None or column not in table.column_names:
            return by_day
        first, end = (pa.scalar(day, pa.date32()) for day in (self.period - timedelta(days=days), self.period))
        near = table.filter(pc.and_(pc.greater_equal(table["event_date"], first), pc.less(table["event_date"], end)))
        for day, value in zip(near["event_date"].to_pylist(), near[column].to_pylist()):
            if value is not None:
                by_day[day].append(value)
        return by_day


def with_content(rows: pa.Table) -> pa.Table:
    """The rows computed from silver rows. An emptied period is one row with ``row_count`` 0, whose values have no meaning."""
    return rows.filter(pc.not_equal(rows["row_count"], 0))


def _values(rows: pa.Table, column: str) -> list[Any]:
    return [value for value in with_content(rows)[column].to_pylist() if value is not None]


@dataclass(frozen=True)
class Finding:
    """The result of one rule: its numbers, and a description of the problem if there is one."""

    numbers: dict[str, Result]
    problem: str | None = None
    severity: Severity = "error"


class Counted(Protocol):
    """The row counts of a period and of the days before it: a :class:`Candidate`, or an arrival day of a source."""

    @property
    def row_count(self) -> int:
        """The number of rows."""

    def trailing_counts(self, days: int) -> list[int]:
        """The known row counts of the ``days`` days before."""


def row_count(candidate: Counted, rule: RowCount) -> Iterator[Finding]:
    """Check the row count against its fixed bounds and against the trailing days."""
    rows = candidate.row_count
    why = None
    if rule.min is not None and rows < rule.min:
        why = f"expected at least {rule.min} rows, found {rows}"
    if rule.max is not None and rows > rule.max:
        why = f"expected at most {rule.max} rows, found {rows}"
    yield Finding({"row_count": rows}, why, rule.severity)
    if rule.trailing:
        yield _against_median(candidate, rule.trailing, rule.trailing.severity or rule.severity)


def _against_median(candidate: Counted, rule: Trailing, severity: Severity) -> Finding:
    counts = [Fraction(count) for count in candidate.trailing_counts(rule.days)]
    if len(counts) < rule.needs:
        return Finding({"trailing_days": len(counts)}, severity=severity)
    rows, middle = candidate.row_count, median(counts)
    numbers: dict[str, Result] = {"trailing_days": len(counts), "trailing_median": middle}
    if middle:
        numbers["ratio"] = rows / middle
    # Multiplied, not divided: a median of 0 expects 0 rows.
    fits = rows >= Fraction(rule.at_least) * middle and (rule.at_most is None or rows <= Fraction(rule.at_most) * middle)
    times = f"at least {rule.at_least}" if rule.at_most is None else f"{rule.at_least} to {rule.at_most}"
    why = f"expected {times} times the median of {len(counts)} days before, {format_value(middle)} rows; found {rows}"
    return Finding(numbers, None if fits else why, severity)


def nulls(candidate: Candidate, measure: str, rule: NullShare) -> Finding:
    """Check the share of grain rows in which ``measure`` is NULL. NaN is a value; a period without rows has no NULL."""
    column = with_content(candidate.rows)[measure]
    return null_share(measure, column.null_count, len(column), rule, "grain rows")


def null_share(name: str, missing: int, rows: int, rule: NullShare, what: str) -> Finding:
    """Check the share of NULLs from counts; ``what`` names the rows in the message."""
    why = f"{name} is NULL in {missing} of {rows} {what}; a share of {rule.at_most} is tolerated"
    numbers: dict[str, Result] = {f"{name}_nulls": missing, f"{name}_null_share": Fraction(missing, max(rows, 1))}
    return Finding(numbers, why if missing > Fraction(rule.at_most) * rows else None, rule.severity)


def changed(candidate: Candidate, rule: ChangeLimit) -> Finding:
    """Check the change of a measure's total since the published revision, if there is one. The total of no values is 0."""
    name, published = rule.measure, candidate.published_values(rule.measure)
    if published is None:
        return Finding({}, severity=rule.severity)
    before, now = statistics.total(published), statistics.total(candidate.values(name))
    move = _move(before, now)
    whole = abs(before) if isinstance(before, Fraction) else Fraction(0)
    numbers: dict[str, Result] = {f"{name}_published": before, name: now, f"{name}_moved": move}
    if whole:
        numbers[f"{name}_moved_percent"] = 100 * move / whole
    broken: list[str] = []
    if rule.percent is not None and _beyond(move, Fraction(rule.percent) * whole / 100):
        broken.append(f"{rule.percent}%")
    if rule.absolute is not None and _beyond(move, Fraction(rule.absolute)):
        broken.append(f"{rule.absolute}")
    both = f"{format_value(before)} to {format_value(now)}"
    why = f"{name} moves from {both}; a restatement may move it by {' and by '.join(broken)} at most"
    return Finding(numbers, why if broken else None, rule.severity)


def _move(before: Result, now: Result) -> Result:
    """The change of a total; infinite where one of the two is infinite or NaN and the other differs."""
    if isinstance(before, Fraction) and isinstance(now, Fraction):
        return now - before
    same = before == now or (math.isnan(before) and math.isnan(now))
    return Fraction(0) if same else math.inf


def _beyond(value: Result, bound: Fraction) -> bool:
    return not -bound <= value <= bound


def drifts(candidate: Candidate, rules: GoldChecks) -> Iterator[Finding]:
    """Check each drift rule by its own statistic."""
    for rule in rules.drift:
        if rule.max_distance is not None:
            yield _distance(candidate, rule, rule.max_distance)
        if rule.max_score is not None:
            yield _score(candidate, rule, rule.max_score)


def _distance(candidate: Candidate, rule: Drift, bound: Decimal) -> Finding:
    name, now = rule.measure, candidate.values(rule.measure)
    if rule.against == "published":
        before, of, whose = candidate.published_values(name) or [], "published", "the published revision"
    else:
        days = candidate.trailing_values(name, rule.days)
        enough = days if len(days) >= rule.needs else []
        before, of, whose = [value for values in enough for value in values], f"{rule.days}d", f"{len(days)} days before"
    numbers: dict[str, Result] = {f"{name}_values": len(now), f"{name}_values_{of}": len(before)}
    # A few values differ by chance; but no values at all, where there were enough before, means that they are lost.
    if len(before) < rule.needs_rows or 0 < len(now) < rule.needs_rows:
        return Finding(numbers, severity=rule.severity)
    distance = statistics.kolmogorov_smirnov(now, before)
    numbers[f"{name}_distance_{of}"] = distance
    why = (
        f"the {len(now)} values of {name} are distributed otherwise than the {len(before)} of {whose}: "
        f"Kolmogorov-Smirnov distance {float(distance):.4g}, expected at most {bound}"
    )
    return Finding(numbers, why if distance > Fraction(bound) else None, rule.severity)


def _score(candidate: Candidate, rule: Drift, bound: Decimal) -> Finding:
    name, values = rule.measure, candidate.values(rule.measure)
    totals = [statistics.total(there) for there in candidate.trailing_values(name, rule.days)]
    before = [value for value in totals if isinstance(value, Fraction)]  # nothing can be compared with infinity or NaN
    if len(before) < rule.needs:
        return Finding({f"{name}_days": len(before)}, severity=rule.severity)
    score = statistics.modified_z_score(statistics.total(values) if values else math.nan, before)
    measured = f"{name} is {format_value(statistics.total(values))}" if values else f"{name} has no value"
    why = (
        f"{measured}, where the median of {len(before)} days before is {format_value(median(before))}: "
        f"modified z-score {as_float(score):.4g}, expected at most {bound} either way"
    )
    numbers: dict[str, Result] = {f"{name}_days": len(before), f"{name}_score_{rule.days}d": score}
    return Finding(numbers, why if _beyond(score, Fraction(bound)) else None, rule.severity)


def outcome(check: str, period: date, findings: Sequence[Finding], way_out: Callable[[bool], str]) -> CheckResult:
    """Combine the findings of one check into one result: an error if any failed rule has severity ``error``.

    :param way_out: returns the remedy for a failure; its argument is whether the failure is only a warning.
    """
    numbers = {name: value for finding in findings for name, value in finding.numbers.items()}
    plotted = {name: value if isinstance(value, int) else as_float(value) for name, value in numbers.items()}
    finite = {name: value for name, value in plotted.items() if math.isfinite(value)}  # Dagster's JSON knows no other
    failed = [finding for finding in findings if finding.problem]
    warns = all(finding.severity == "warn" for finding in failed or findings)
    problems = "; ".join(finding.problem.removesuffix(".") for finding in failed if finding.problem)
    explanation = f"{problems}. {way_out(warns)}." if failed else None
    return CheckResult(check, period, not failed, finite, explanation, warns)


def as_float(value: Result) -> float:
    """The nearest float; infinity for values beyond the range of floats."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def format_value(value: Result) -> str:
    """A number formatted for people: exact where it has a short decimal form, as decimals and integers have."""
    if isinstance(value, Fraction):
        try:
            return f"{_EXACT.divide(Decimal(value.numerator), Decimal(value.denominator)):f}"
        except Inexact:
            pass
    return repr(as_float(value))


CONTRACT_SCHEMA = {"contract_schema": "The table has the columns and types of the contract."}

#: The row counts per day, and the counts of rows that have a value.
FilledCounts = tuple["Counter[date]", "Counter[date]"]


def check_schema(table: DeltaTable | None, expected: pa.Schema, days: Collection[date]) -> list[CheckResult]:
    """Check once for each day that a table has the expected columns; a table that does not exist yet passes."""
    existing = pa.schema(table.schema().to_arrow()) if table is not None else pa.schema([])
    types = {field.name: field.type for field in existing}
    wrong = [field.name for field in expected if types.get(field.name) != field.type]
    passed = table is None or not wrong
    explanation = None if passed else f"these columns differ from the contract: {', '.join(wrong)}"
    return [CheckResult("contract_schema", day, passed, {"columns": len(expected)}, explanation) for day in sorted(days)]


def row_counts(rows: pa.Table | None, by: str, *, of: str | None = None) -> Counter[Any]:
    """The row count of each value of the column ``by``; empty without a table.

    :param of: a column; only rows that have a value in it are counted.
    """
    if rows is None:
        return Counter()
    counted = rows.group_by(by).aggregate([([], "count_all") if of is None else (of, "count")])
    return Counter(dict(zip(counted[by].to_pylist(), counted.column(1).to_pylist())))


def check_nulls(
    contract: SourceContract, days: Collection[date], counts: Mapping[str, FilledCounts], rows_are: str
) -> list[CheckResult]:
    """Check the share of NULLs on each day against the contract's bounds.

    :param counts: by field; a missing field counts as no rows.
    :param rows_are: the word for the rows in messages.
    """
    outcomes = []
    for day in sorted(days):
        findings = []
        for name, rule in contract.quality.nulls.items():
            rows, filled = (counted[day] for counted in counts.get(name, (Counter(), Counter())))
            findings.append(null_share(name, rows - filled, rows, rule, rows_are))
        outcomes.append(outcome("nulls", day, findings, way_out))
    return outcomes


def way_out(warns: bool) -> str:  # noqa: FBT001 (as :func:`outcome` calls it)
    """The remedy for files with too few rows or too many NULLs."""
    numbers = "are published nevertheless" if warns else "of these days are held"
    return f"Numbers {numbers}: check the files, and have the source send what it left out"


def with_severities(contract: SourceContract, outcomes: Iterable[CheckResult]) -> list[CheckResult]:
    """Give each outcome the severity that the contract sets for its check."""
    severities = contract.quality.severity
    return [
        replace(outcome, warns=severities[outcome.check] == "warn") if outcome.check in severities else outcome
        for outcome in outcomes
    ]
