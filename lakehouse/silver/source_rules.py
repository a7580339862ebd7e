"""A source's rules on many rows together: how many arrive in a day, and which share of them has no value. No JVM.

Here is what is counted, per arrival day of Bronze and per event day of silver; how counts are held against a contract is the
same as for metrics (``gold_rules``). Nothing is held by a failure: numbers follow, and somebody is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.ledger import ingestions, redactions
from lakehouse.quality import rules as quality_rules

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.quality.check_result import Outcome
    from lakehouse.settings import Settings

#: Per day the rows, and those of them without a value.
_Counts = dict["date", tuple[int, int]]


def bronze_names(contract: SourceContract) -> dict[str, str]:
    """The checks of an arrival day that the contract asks for, each with what it says."""
    counts = {"row_count": "The arrival day brings as many rows as the contract expects."} if contract.quality.row_count else {}
    nulls = {"nulls": "No field lacks its value in more of the day's records than the contract tolerates; deletes have none."}
    return counts | (nulls if contract.quality.nulls else {})


def silver_names(contract: SourceContract) -> dict[str, str]:
    """The same of an event day."""
    nulls = {"nulls": "No field lacks its value in more of the day's rows than the contract tolerates; redacted ones aside."}
    return nulls if contract.quality.nulls else {}


@dataclass(frozen=True)
class _ArrivalDay:
    """An arrival day among others, as the ledger counts their rows."""

    day: date
    rows: Mapping[date, int]

    @property
    def row_count(self) -> int:
        """How many rows it brought."""
        return self.rows.get(self.day, 0)

    def trailing_counts(self, days: int) -> list[int]:
        """How many each of so many days before it brought, of those on which a file came."""
        return [rows for other, rows in self.rows.items() if 0 < (self.day - other).days <= days]


def check_arrival_days(settings: Settings, contract: SourceContract, days: Collection[date]) -> list[Outcome]:
    """The rules on each arrival day."""
    entries = ingestions.all_of(settings, contract.dataset)
    return [*_row_counts(contract, entries, days), *_nulls_in_bronze(settings, contract, days)]


def check_event_days(settings: Settings, contract: SourceContract, days: Collection[date]) -> list[Outcome]:
    """The rules on each event day of silver. A redacted field is not one without a value."""
    names = list(contract.quality.nulls)
    if not names:
        return []
    path, columns = locations.silver(settings, contract.dataset), ["event_date", "record_key", *names]
    rows = table_io.read(path, columns, {"event_date": days}, settings.storage_options)
    hidden = redactions.keys_by_field(settings, contract.dataset)
    counts: dict[str, _Counts] = {}
    if rows is not None:
        for name in names:
            keys = pa.array(sorted(hidden.get(name, ())), pa.string())
            counts[name] = _counts(rows.filter(pc.invert(pc.is_in(rows["record_key"], keys))), "event_date", name)
    return _null_shares(contract, days, counts, "rows")


def _row_counts(contract: SourceContract, entries: Iterable[Ingestion], days: Collection[date]) -> list[Outcome]:
    rule = contract.quality.row_count
    if rule is None:
        return []
    rows: dict[date, int] = {}
    for entry in entries:
        if entry.status == "ingested":
            rows[entry.arrival_date] = rows.get(entry.arrival_date, 0) + entry.rows
    found = {day: list(quality_rules.row_count(_ArrivalDay(day, rows), rule)) for day in sorted(days)}
    return [quality_rules.outcome("row_count", day, findings, _way_out) for day, findings in found.items()]


def _nulls_in_bronze(settings: Settings, contract: SourceContract, days: Collection[date]) -> list[Outcome]:
    names = list(contract.quality.nulls)
    if not names:
        return []
    path, columns = locations.bronze(settings, contract.dataset), ["arrival_date", "change_op", "malformed_reason", *names]
    rows = table_io.read(path, columns, {"arrival_date": days}, settings.storage_options)
    counts: dict[str, _Counts] = {}
    if rows is not None:
        sound = rows.filter(pc.and_(pc.is_null(rows["malformed_reason"]), pc.not_equal(rows["change_op"], "delete")))
        counts = {name: _counts(sound, "arrival_date", name) for name in names}
    return _null_shares(contract, days, counts, "records")


def _counts(rows: pa.Table, by: str, name: str) -> _Counts:
    modes: list[Any] = [pc.CountOptions(mode="all"), pc.CountOptions(mode="only_null")]
    found = rows.group_by(by).aggregate([(name, "count", mode) for mode in modes])
    return {day: (all_, missing) for day, all_, missing in zip(*(column.to_pylist() for column in found.columns))}


def _null_shares(contract: SourceContract, days: Collection[date], counts: Mapping[str, _Counts], what: str) -> list[Outcome]:
    outcomes = []
    for day in sorted(days):
        findings = []
        for name, rule in contract.quality.nulls.items():
            rows, missing = counts.get(name, {}).get(day, (0, 0))
            findings.append(quality_rules.null_share(name, missing, rows, rule, what))
        outcomes.append(quality_rules.outcome("nulls", day, findings, _way_out))
    return outcomes


def _way_out(_warns: bool) -> str:  # noqa: FBT001 (as gold_rules.outcome asks)
    return "Numbers follow all the same: look at the files, and have the source send what it left out"
