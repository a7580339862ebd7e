"""``ops/operations``: event days of silver that somebody wants made again from Bronze, with the reason.

An operation waits, as a decision does, until silver has been made again on all its days.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import table_io

if TYPE_CHECKING:
    from datetime import date, datetime

    from lakehouse.settings import Settings

PREFIX = "operation:"
BUG_REPLAY, BACKFILL = "bug_replay", "backfill"
_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("operation_id", pa.string()),
        ("operation", pa.string()),
        ("first_day", pa.date32()),
        ("last_day", pa.date32()),
        ("reason", pa.string()),
        ("runner_id", pa.string()),
        ("code_before", pa.string()),
        ("code_after", pa.string()),
        ("contract_before", pa.string()),
        ("contract_after", pa.string()),
        ("rows_judged_otherwise", pa.int64()),
        ("touched_days", pa.list_(pa.date32())),
        ("attempt", pa.int64()),
        ("recorded_at", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True)
class Operation:
    """One wish to make a range of days again. ``touched_days`` are those of the range, and others that it reaches.

    ``code_before`` and ``contract_before`` made silver's newest commit then, ``..._after`` are those that make the days again.
    """

    source: str
    operation: str
    first_day: date
    last_day: date
    reason: str
    runner_id: str
    code_before: str | None
    code_after: str
    contract_before: str | None
    contract_after: str
    recorded_at: datetime
    rows_judged_otherwise: int = 0
    touched_days: list[date] = field(default_factory=list)
    attempt: int = 1
    operation_id: str = ""

    @property
    def wish(self) -> tuple[object, ...]:
        """What makes two operations the same one, run again."""
        return self.operation, self.first_day, self.last_day, self.reason, self.runner_id, self.code_after, self.contract_after


def record(settings: Settings, entry: Operation) -> str:
    """Append an operation, once.

    :returns: its id.
    """
    text = f"{entry.source}{entry.wish}{entry.recorded_at.isoformat()}{entry.attempt}"
    operation_id = PREFIX + hashlib.sha256(text.encode()).hexdigest()[:16]
    table_io.append(
        locations.rebuild_requests(settings),
        pa.Table.from_pylist([asdict(entry) | {"operation_id": operation_id}], schema=_SCHEMA),
        options=settings.storage_options,
        partition_by=["source"],
        app_id=operation_id,
    )
    return operation_id


def all_of(settings: Settings, source: str) -> list[Operation]:
    """Every operation on a source, oldest first."""
    columns = [item.name for item in fields(Operation)]
    found = table_io.read(locations.rebuild_requests(settings), columns, {"source": [source]}, settings.storage_options)
    entries = [] if found is None else [Operation(**row) for row in found.to_pylist()]
    return sorted(entries, key=lambda entry: (entry.recorded_at, entry.operation_id))


def touched(settings: Settings, source: str) -> dict[str, set[date]]:
    """Per operation id the event days that it makes again."""
    return {entry.operation_id: set(entry.touched_days) for entry in all_of(settings, source)}
