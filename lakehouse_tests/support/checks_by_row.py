"""Checks of rows one by one: the models of those that ``bronze.checks`` and ``silver.checks`` compute by column."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from lakehouse.dispositions.account_tables import is_overdue
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import date, datetime

    import pyarrow as pa


def row_counts(rows: pa.Table, by: str, of: str | None) -> Counter[Any]:
    """How many rows there are of each value of a column, among those with a value in another."""
    return Counter(row[by] for row in rows.to_pylist() if of is None or row[of] is not None)


def rows_missing(rows: pa.Table, required: Collection[str], hidden: Mapping[str, Collection[str]]) -> Counter[date]:
    """How many required fields have no value, per event day; redacted ones may be empty."""
    missing: Counter[date] = Counter()
    for row in rows.to_pylist():
        missing[row["event_date"]] += sum(
            row[name] is None and row["record_key"] not in hidden.get(name, ()) for name in required
        )
    return missing


def keys_twice(rows: pa.Table, everywhere: pa.Table) -> Counter[date]:
    """How many rows of each event day have a key that another row has as well."""
    keys_on: dict[date, list[str]] = {}
    for row in rows.to_pylist():
        keys_on.setdefault(row["event_date"], []).append(row["record_key"])
    rows_per_key = Counter(everywhere["record_key"].to_pylist())
    twice: Counter[date] = Counter()
    for day, of_day in keys_on.items():
        twice[day] = sum(rows_per_key[key] > 1 for key in of_day)
    return twice


def reviews(source: str, entries: Iterable[Mapping[str, Any]], now: datetime) -> tuple[dict[str, Any], str | None]:
    """The numbers and the explanation of the check of overdue reviews."""
    entries = list(entries)
    overdue = [entry["quarantine_review_by"] for entry in entries if is_overdue(entry, now)]
    oldest = round((now - min(entry["quarantine_since"] for entry in entries)).total_seconds() / 3600, 2) if entries else 0.0
    why = None
    if overdue:
        longest = f"the oldest of them by {format_duration(now - min(overdue))}"
        advice = f"decide with 'lakehouse quarantine list {source} --overdue'"
        why = f"{len(overdue)} rows are past their review deadline, {longest}: {advice}"
    return {"waiting": len(entries), "overdue": len(overdue), "oldest_hours": oldest}, why
