"""``ops/operations``: requests to judge and rebuild event days of silver from Bronze, with the reason.

Like a decision, a request is pending until silver has been rebuilt on all its days.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.ledger.ids import InputKind
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from datetime import date, datetime

    from lakehouse.lake import Lake

BUG_REPLAY, BACKFILL, REPARSE = "bug_replay", "backfill", "reparse"
#: The operations that correct how rows were read or judged; numbers are published again for the reason ``bug_replay``.
REPLAYS = frozenset({BUG_REPLAY, REPARSE})


@dataclass(frozen=True)
class RebuildRequest:
    """One request to rebuild a range of days; ``touched_days`` are the days of the range and others that it affects.

    ``code_before`` and ``contract_before`` are the versions that wrote silver's newest commit at that time, ``..._after`` the
    versions that carry out the request. The days of a :data:`REPARSE` are arrival days, and its id is that of its reading;
    ``rows_judged_otherwise`` counts the rows that read differently, ``malformed_more`` is the increase in malformed rows.
    """

    source: str
    operation_id: str = field(default="", kw_only=True)
    operation: str
    first_day: date
    last_day: date
    reason: str
    runner_id: str
    code_before: str | None
    code_after: str
    contract_before: str | None
    contract_after: str
    rows_judged_otherwise: int = field(default=0, kw_only=True)
    malformed_more: int = field(default=0, kw_only=True)
    touched_days: list[date] = field(default_factory=list, kw_only=True)
    attempt: int = field(default=1, kw_only=True)
    recorded_at: datetime

    @property
    def identity(self) -> tuple[object, ...]:
        """The values that are equal for a repeated request and the first one."""
        values = self.operation, self.first_day, self.last_day, self.reason, self.runner_id, self.code_after, self.contract_after
        return (*values, self.operation_id) if self.operation == REPARSE else values

    @property
    def published_as(self) -> str:
        """The name of the operation for readers of numbers."""
        return BUG_REPLAY if self.operation in REPLAYS else self.operation


def log(lake: Lake) -> LogTable[RebuildRequest]:
    """The table."""
    return LogTable(RebuildRequest, lake, locations.rebuild_requests(lake), partition_by="source", journaled=True)


def record(lake: Lake, entry: RebuildRequest, operation_id: str | None = None) -> str:
    """Append a request, once.

    :param operation_id: its id, if it already has one, like a reading.
    :returns: its id.
    """
    if operation_id is None:
        text = f"{entry.source}{entry.identity}{entry.recorded_at.isoformat()}{entry.attempt}"
        operation_id = InputKind.REBUILD_REQUEST.id_of(text)
    log(lake).append([replace(entry, operation_id=operation_id)], app_id=operation_id)
    return operation_id


def all_of(lake: Lake, source: str) -> list[RebuildRequest]:
    """Every request about a source, oldest first."""
    entries = log(lake).read({"source": [source]})
    return sorted(entries, key=lambda entry: (entry.recorded_at, entry.operation_id))


def touched(lake: Lake, source: str) -> dict[str, set[date]]:
    """The event days that each operation rebuilds, by operation id."""
    return {entry.operation_id: set(entry.touched_days) for entry in all_of(lake, source)}
