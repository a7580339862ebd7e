"""The parts shared by the checks of Bronze and silver: columns as in the contract, shares of NULLs, severities.

Which rows are counted is decided by each layer's own checks; bounds are compared in ``check_rules``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.quality import check_rules
from lakehouse.quality.check_result import CheckResult

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import date

    from deltalake import DeltaTable

    from lakehouse.contracts.source import SourceContract

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
            findings.append(check_rules.null_share(name, rows - filled, rows, rule, rows_are))
        outcomes.append(check_rules.outcome("nulls", day, findings, way_out))
    return outcomes


def way_out(warns: bool) -> str:  # noqa: FBT001 (as rules.outcome asks)
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
