"""The checks that a metric's new number must pass before readers see it (rule R8): pure functions of a candidate.

This module has the checks of every metric, the explanation of a failure, and whether a failure holds the number. The rules that a
contract adds belong to ``quality.check_rules``; checks of published tables belong to ``restatement.reconciliation``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.ledger.failures import COMPUTED
from lakehouse.quality import check_rules
from lakehouse.quality.check_rules import Candidate, CheckResult, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import date

    from lakehouse.contracts.checks import GoldChecks
    from lakehouse.quality.statistics import Result

__all__ = [
    "ALWAYS",
    "INPUTS_PASSED",
    "NAMES",
    "Candidate",
    "audit",
    "blocking",
    "computed",
    "deprecated_names",
    "names",
    "with_deprecated_names",
]

#: The check that fails while a check of the number's rows and arrivals fails.
INPUTS_PASSED = "inputs_passed"
ALWAYS = {
    COMPUTED: "Every measure can be computed from the rows of the period.",
    "keys_unique": "The new number has one row per value of the grain.",
    "read_back_matches": "delta-rs reads from storage exactly the rows that were computed.",
    INPUTS_PASSED: "No check with severity ERROR fails of the silver rows and arrivals that the number is computed from.",
    "totals_equal_silver": "The row counts add up to the number of rows in silver, counted independently.",
}
NAMES = ALWAYS | {
    "row_count": "The number contains as many silver rows as the contract expects.",
    "nulls": "No measure is NULL in more of the grain rows than the contract tolerates.",
    "drift": "Measures are distributed as in the published revision, or as on the days before.",
    "change": "The restatement moves no measure further from the published revision than the contract tolerates.",
}

#: The earlier names of a check and of one of its numbers. For one release Dagster evaluates the check under both names; stored
#: results keep the name under which they were stored.
_DEPRECATED_CHECKS = {"second_engine_reads_the_same": "read_back_matches"}
_DEPRECATED_NUMBERS = {"rows_unexpected": "rows_alien"}

#: Engines represent text differently in memory, with the same content.
_PLAIN = {pa.string_view(): pa.string(), pa.large_string(): pa.string()}
_NAN = object()
_HELD = "The number is held"
_AGAIN = "materialize the period again"


def names(checks: GoldChecks) -> dict[str, str]:
    """The checks of a metric, each with a description."""
    return {name: text for name, text in NAMES.items() if name in ALWAYS or getattr(checks, name)}


def deprecated_names() -> dict[str, str]:
    """The earlier names under which Dagster still evaluates checks, each with a description."""
    return {old: f"Deprecated until the next release: now {new}." for old, new in _DEPRECATED_CHECKS.items()}


def with_deprecated_names(outcomes: Iterable[CheckResult]) -> list[CheckResult]:
    """The outcomes of any checks, and those of renamed checks a second time under their earlier names."""
    current = list(outcomes)
    repeated = [
        replace(
            outcome, check=old, numbers={_DEPRECATED_NUMBERS.get(name, name): value for name, value in outcome.numbers.items()}
        )
        for outcome in current
        for old, new in _DEPRECATED_CHECKS.items()
        if outcome.check == new
    ]
    return current + repeated


def audit(checks: GoldChecks, candidate: Candidate) -> list[CheckResult]:
    """Run every check of a metric on a candidate, once each; ``totals_equal_silver`` only where Silver's rows were counted."""
    findings_by_check = {
        COMPUTED: [Finding({}, None)],
        "keys_unique": [_keys_unique(candidate)],
        "read_back_matches": [_read_back_matches(candidate)],
        INPUTS_PASSED: [Finding({}, candidate.failed_inputs)],
        "totals_equal_silver": [] if candidate.silver_rows is None else [_equals_silver(candidate, candidate.silver_rows)],
        "row_count": list(check_rules.row_count(candidate, checks.row_count)) if checks.row_count else [],
        "nulls": [check_rules.nulls(candidate, measure, rule) for measure, rule in checks.nulls.items()],
        "drift": list(check_rules.drifts(candidate, checks)),
        "change": [check_rules.changed(candidate, rule) for rule in checks.change],
    }
    return [_outcome(candidate, check, findings) for check, findings in findings_by_check.items() if findings]


def computed(period: date, problem: str | None = None) -> CheckResult:
    """Whether the number of a period could be computed; without a number no other check is run.

    :param problem: the failure, with the remedy.
    """
    return CheckResult(COMPUTED, period, problem is None, {}, problem and f"{problem}.")


def blocking(outcomes: Iterable[CheckResult]) -> list[CheckResult]:
    """The outcomes that hold a candidate."""
    return [outcome for outcome in outcomes if not outcome.passed and not outcome.warns]


def problem_of(outcome: CheckResult) -> str:
    """The explanation of a failed check, without the advice for a held number."""
    return (outcome.explanation or "failed").partition(f" {_HELD}")[0]


def _keys_unique(candidate: Candidate) -> Finding:
    rows, groups = len(candidate.rows), len(_multiset(candidate.rows, candidate.grain))
    one = f"one row per {', '.join(candidate.grain)}" if candidate.grain else "one row"
    why = None if rows == groups else f"expected {one}, found {rows} rows for {groups}; {_AGAIN}"
    return Finding({"rows": rows, "groups": groups}, why)


def _read_back_matches(candidate: Candidate) -> Finding:
    made, read = candidate.rows, candidate.read_back
    numbers: dict[str, Result] = {"rows": len(made), "rows_read_back": len(read)}
    ours, theirs = ({(item.name, _PLAIN.get(item.type, item.type)) for item in table.schema} for table in (made, read))
    if ours != theirs:
        odd = ", ".join(sorted({name for name, _ in ours ^ theirs}))
        return Finding(numbers, f"delta-rs reads other columns or types than were computed: {odd}; {_AGAIN}")
    wanted, found = _multiset(made, made.column_names), _multiset(read, made.column_names)
    lost, unexpected = (wanted - found).total(), (found - wanted).total()
    numbers |= {"rows_lost": lost, "rows_unexpected": unexpected}
    why = f"delta-rs does not find {lost} of the rows that were computed, and finds {unexpected} others; {_AGAIN}"
    return Finding(numbers, why if lost or unexpected else None)


def _equals_silver(candidate: Candidate, silver_rows: int) -> Finding:
    rows = candidate.row_count
    why = f"expected {silver_rows} rows, which silver holds, found {rows}: silver moved on, or rows were lost; {_AGAIN}"
    return Finding({"rows": rows, "silver_rows": silver_rows}, None if rows == silver_rows else why)


def _multiset(table: pa.Table, columns: Sequence[str]) -> Counter[tuple[Any, ...]]:
    """The number of occurrences of each row. NaN equals NaN, as in engines that group by it."""
    if not columns:
        return Counter({(): len(table)} if len(table) else {})
    plain = ([_NAN if value != value else value for value in table[name].to_pylist()] for name in columns)  # noqa: PLR0124
    return Counter(zip(*plain))


def _outcome(candidate: Candidate, check: str, findings: Sequence[Finding]) -> CheckResult:
    return check_rules.outcome(check, candidate.period, findings, lambda warns: _way_out(candidate, warns=warns))


def _way_out(candidate: Candidate, *, warns: bool) -> str:
    if warns:
        return "This is a warning, which holds nothing"
    sign_off = (
        f"lakehouse gold publish {candidate.metric} {candidate.period} --revision {candidate.revision} --by WHO --reason WHY"
    )
    return f"{_HELD}: 'lakehouse gold held' shows it. Mend the data, or sign it off with '{sign_off}'"
