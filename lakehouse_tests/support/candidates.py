"""Candidates made by hand, for the tests of the checks between a number and its readers."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.contracts.checks import GoldChecks
from lakehouse.gold.publication.checks import Candidate, audit, blocking

if TYPE_CHECKING:
    from lakehouse.quality.check_rules import CheckResult

DAY = date(2024, 11, 20)
MONEY = pa.decimal128(38, 2)
#: Digits beyond a float and the usual decimal context.
DIGITS = Decimal("123456789012345678901234567890123456.78")
NEXT, AFTER = Decimal("123456789012345678901234567890123456.79"), Decimal("123456789012345678901234567890123456.80")


def table(values: list[Any], kind: pa.DataType = MONEY, counts: list[int] | None = None, **more: Any) -> pa.Table:
    """One row per store, with its revenue and its rows of silver."""
    stores = pa.array([f"s{number}" for number in range(len(values))], pa.string())
    columns = {"store": stores, "revenue": pa.array(values, kind), "row_count": pa.array(counts or [1] * len(values), pa.int64())}
    return pa.table(columns | more)


def history(days: list[list[Any]], kind: pa.DataType = MONEY, counts: list[list[int]] | None = None) -> pa.Table:
    """The days before, the nearest first."""
    parts = []
    for back, values in enumerate(days, start=1):
        rows = table(values, kind, counts[back - 1] if counts else None)
        parts.append(rows.append_column("event_date", pa.array([DAY - timedelta(days=back)] * len(rows), pa.date32())))
    return pa.concat_tables(parts)


def candidate(rows: pa.Table, **more: Any) -> Candidate:
    return replace(Candidate("revenue", DAY, 3, ["store"], rows, rows), **more)


def outcome_of(of: Candidate, check: str, **rules: Any) -> CheckResult:
    outcomes = audit(GoldChecks.model_validate(rules), of)
    [result] = [outcome for outcome in outcomes if outcome.check == check]
    assert result.day == of.period
    assert result.passed == (result.explanation is None)
    assert all(type(number) in {int, float} for number in result.numbers.values())
    json.dumps(result.numbers, allow_nan=False)
    return result


def is_held(of: Candidate, check: str, **rules: Any) -> bool:
    return outcome_of(of, check, **rules) in blocking(audit(GoldChecks.model_validate(rules), of))
