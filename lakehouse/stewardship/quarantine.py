"""The quarantined rows, filtered for commands, API and pages.

The table itself is written by ``dispositions.account_tables``; decisions are made in ``decide``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.dispositions.account_tables import is_overdue
from lakehouse.ledger.row_ids import row_id_of
from lakehouse.ledger.row_states import QuarantineStatus, Word

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.ledger.row_ids import RowId
    from lakehouse.ledger.row_states import QuarantineReason
    from lakehouse.settings import Settings

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
    settings: Settings, contract: SourceContract, selected: QuarantineFilter, columns: Sequence[str] | None = None
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
    path = locations.quarantine(settings, contract.dataset)
    table = table_io.read(path, columns, where, settings.storage_options)
    rows = [] if table is None else table.to_pylist()
    if selected.rows is not None:
        row_ids = set(selected.rows)
        rows = [entry for entry in rows if row_id_of(entry) in row_ids]
    if selected.overdue:
        now = settings.clock()
        rows = [entry for entry in rows if is_overdue(entry, now)]
    return sorted(rows, key=lambda entry: (entry["arrival_date"], entry["source_file"], entry["line_number"]))
