"""The quarantined rows, filtered for commands, API and pages, and a steward's decisions about rows of Bronze.

A decision accepts a row, rejects it, or marks it as a duplicate. The table itself is written by ``dispositions.account_tables``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.dispositions import account_tables
from lakehouse.dispositions.account_tables import is_overdue
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.errors import LakehouseError
from lakehouse.ledger import decisions, key_log
from lakehouse.ledger.decisions import Decision
from lakehouse.ledger.ids import format_row_id, row_id_of
from lakehouse.ledger.row_states import QuarantineReason, QuarantineStatus, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ids import RowId
    from lakehouse.ledger.row_states import StewardVerdict


#: The columns by which entries are identified, filtered and sorted.
KEY_COLUMNS = (
    "arrival_date",
    "source_file",
    "ingestion_id",
    "line_number",
    "quarantine_status",
    "quarantine_review_by",
)


class StatusFilter(Word):
    """The status by which quarantined rows are selected, or any."""

    OPEN = QuarantineStatus.OPEN.value
    ACCEPTED = QuarantineStatus.ACCEPTED.value
    REJECTED = QuarantineStatus.REJECTED.value
    DUPLICATE = QuarantineStatus.DUPLICATE.value
    RELEASED = QuarantineStatus.RELEASED.value
    ANY = "any"

    @property
    def status(self) -> QuarantineStatus | None:
        """The required status; None for any."""
        return None if self is StatusFilter.ANY else QuarantineStatus(self.value)


@dataclass(frozen=True)
class QuarantineFilter:
    """The conditions that select quarantined rows; a field that is None sets no condition."""

    status: QuarantineStatus | None = QuarantineStatus.OPEN
    cause: QuarantineReason | None = None
    arrival_date: date | None = None
    event_date: date | None = None
    key: str | None = None
    rows: Collection[RowId] | None = None
    overdue: bool = False

    @property
    def narrows(self) -> bool:
        """Whether there is a condition besides the status."""
        return any((self.cause, self.arrival_date, self.event_date, self.key, self.rows, self.overdue))


def entries(
    lake: Lake, contract: SourceContract, selected: QuarantineFilter, columns: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """The selected rows of the quarantine, sorted by arrival day, file and line.

    :param columns: :data:`KEY_COLUMNS` and others; by default all, which is slow if many rows are quarantined.
    """
    values = {
        "quarantine_status": None if selected.status is None else str(selected.status),
        "quarantine_reason": None if selected.cause is None else str(selected.cause),
        "arrival_date": selected.arrival_date,
        "event_date": selected.event_date,
        "record_key": selected.key,
    }
    where: dict[str, Collection[Any]] = {column: [value] for column, value in values.items() if value is not None}
    if selected.rows is not None:
        where["ingestion_id"] = {row[0] for row in selected.rows}
    table = account_tables.quarantined(lake, contract, columns, where)
    rows = [] if table is None else table.to_pylist()
    if selected.rows is not None:
        row_ids = set(selected.rows)
        rows = [entry for entry in rows if row_id_of(entry) in row_ids]
    if selected.overdue:
        now = lake.now()
        rows = [entry for entry in rows if is_overdue(entry, now)]
    return sorted(rows, key=lambda entry: (entry["arrival_date"], entry["source_file"], entry["line_number"]))


class StewardError(LakehouseError):
    """A decision that cannot be made. The message gives the reason and what to do."""


@dataclass(frozen=True)
class DecisionResult:
    """The number of rows that the decision is new for, the number that already had it, and the event days that silver has to
    rebuild.
    """

    rows: int
    repeated: int
    days: list[date]


def decide(
    lake: Lake, contract: SourceContract, rows: Collection[RowId], verdict: StewardVerdict, *, by: str, reason: str
) -> DecisionResult:
    """Decide about rows of Bronze; the newest decision about a row applies.

    :raises StewardError: if Bronze does not contain a row, or the decision lacks a name or a reason.
    """
    lake = lake.cached()
    require_signature(by, reason)
    source = contract.dataset
    claims = _claims_of_rows(lake, contract, rows)
    missing = sorted(set(rows) - claims.keys())
    if missing:
        row = format_row_id(missing[0])
        msg = f"{row} is not a well-formed row of bronze/{source}; 'lakehouse quarantine list {source}' lists the rows"
        raise StewardError(msg)
    existing = decisions.newest_about(lake, source, rows)
    repeated = {
        row
        for row in rows
        if row in existing and (existing[row].verdict, existing[row].by, existing[row].reason) == (verdict, by, reason)
    }
    held = QuarantineFilter(cause=QuarantineReason.SHRUNKEN_PARTITION, rows=rows)
    of_held_files = {row_id_of(entry) for entry in entries(lake, contract, held, KEY_COLUMNS)}
    days = _touched_days(lake, contract, claims)
    decided = [
        Decision(
            ingestion_id=row[0],
            line_number=row[1],
            record_key=claims[row][0]["record_key"],
            verdict=verdict,
            by=by,
            reason=reason,
            decided_at=lake.now(),
            number=existing[row].number + 1 if row in existing else 1,
            about_file=row in of_held_files,
            touched_days=sorted(days[row]),
        )
        for row in sorted(rows)
        if row not in repeated
    ]
    if decided:
        decisions.record(lake, source, decided)
    keys = {claim["record_key"] for of_row in claims.values() for claim in of_row}
    account_tables.after_decision(lake, contract, keys, set().union(*days.values()))
    waiting = {day for decision in decided for day in decision.touched_days}
    return DecisionResult(len(decided), len(repeated), sorted(waiting))


def require_signature(by: str, reason: str) -> None:
    """:raises StewardError: if a decision or a redaction lacks a name or a reason."""
    if not by.strip() or not reason.strip():
        msg = "a decision needs a name (--by) and a reason (--reason)"
        raise StewardError(msg)


def _claims_of_rows(lake: Lake, contract: SourceContract, rows: Collection[RowId]) -> dict[RowId, list[dict[str, Any]]]:
    """The claims that each row makes (key and event day), with the claim about its own key first."""
    stored = locations.key_log(lake, contract.dataset)
    where: dict[str, Collection[Any]] = {"ingestion_id": {row[0] for row in rows}, "line_number": {row[1] for row in rows}}
    log = stored.read(["ingestion_id", "line_number", "record_key", "event_date", "kind"], where)
    selected = set(rows)
    claims: dict[RowId, list[dict[str, Any]]] = defaultdict(list)
    for claim in sorted([] if log is None else log.to_pylist(), key=lambda claim: claim["kind"] == "retire"):
        if row_id_of(claim) in selected:
            claims[row_id_of(claim)].append(claim)
    return dict(claims)


def _touched_days(lake: Lake, contract: SourceContract, claims: dict[RowId, list[dict[str, Any]]]) -> dict[RowId, set[date]]:
    """The event days of each row whose content a decision may change under the source's policy."""
    keys = {claim["record_key"] for of_row in claims.values() for claim in of_row}

    @cache
    def days_by_key() -> dict[str, set[date]]:
        return key_log.days_by_key(lake, contract.dataset, keys)

    @cache
    def all_days() -> set[date]:
        return key_log.days(lake, contract.dataset)

    policy = policy_of(contract)
    touched = {}
    for row, of_row in claims.items():
        row_days = {claim["event_date"] for claim in of_row if claim["event_date"]}
        row_keys = [claim["record_key"] for claim in of_row]
        touched[row] = policy.affected_days(row_days, partial(_days_of_keys, days_by_key, row_keys), all_days)
    return touched


def _days_of_keys(days_by_key: Callable[[], dict[str, set[date]]], keys: Collection[str]) -> set[date]:
    return set().union(*(days_by_key()[key] for key in keys))
