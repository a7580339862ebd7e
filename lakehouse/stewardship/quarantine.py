"""The rows that wait for a steward, as people ask for them; read through delta-rs, without a JVM.

The table itself is written by ``books``, decisions are taken by ``stewardship``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.dispositions.admission import Reason

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.ledger.row_ids import RowId
    from lakehouse.settings import Settings

STATUSES = ("open", "accepted", "rejected", "duplicate", "released")
CAUSES = tuple(reason.value for reason in Reason)


#: What an entry is found and sorted by.
PLACE = ("arrival_date", "source_file", "ingestion_id", "line_number", "quarantine_review_by")


@dataclass(frozen=True)
class Wanted:
    """Which rows are meant; what is left out does not narrow. ``cause`` is one of :data:`CAUSES`."""

    status: str | None = "open"
    cause: str | None = None
    arrival_date: date | None = None
    event_date: date | None = None
    key: str | None = None
    rows: Collection[RowId] | None = None
    overdue: bool = False

    @property
    def narrows(self) -> bool:
        """Whether it names anything but the status."""
        return any((self.cause, self.arrival_date, self.event_date, self.key, self.rows, self.overdue))


def entries(
    settings: Settings, contract: SourceContract, wanted: Wanted, columns: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """The rows of the quarantine that are meant, by arrival day, file and line.

    :param columns: those asked for, :data:`PLACE` among them; by default all, which takes its time where many rows wait.
    """
    where: dict[str, Collection[Any]] = {}
    named = {
        "quarantine_status": wanted.status,
        "quarantine_reason": wanted.cause,
        "arrival_date": wanted.arrival_date,
        "event_date": wanted.event_date,
        "record_key": wanted.key,
    }
    where |= {column: [value] for column, value in named.items() if value is not None}
    if wanted.rows is not None:
        where["ingestion_id"] = {row[0] for row in wanted.rows}
    found = table_io.read(locations.quarantine(settings, contract.dataset), columns, where, settings.storage_options)
    now, rows = settings.clock(), None if wanted.rows is None else set(wanted.rows)
    return sorted(
        (
            entry
            for entry in ([] if found is None else found.to_pylist())
            if (rows is None or row_id(entry) in rows) and not (wanted.overdue and entry["quarantine_review_by"] >= now)
        ),
        key=lambda entry: (entry["arrival_date"], entry["source_file"], entry["line_number"]),
    )


def row_id(entry: dict[str, Any]) -> RowId:
    """What identifies the row of Bronze."""
    return entry["ingestion_id"], entry["line_number"]


def written(row: RowId) -> str:
    """A row's id as people write it: ``<ingestion>:<line>``."""
    return f"{row[0]}:{row[1]}"


def parsed(text: str) -> RowId:
    """The id that :func:`written` wrote.

    :raises ValueError: for anything else.
    """
    ingestion_id, _, line = text.strip().partition(":")
    if not ingestion_id or not line.isascii() or not line.isdigit():
        msg = f"{text.strip()!r} is no row; write it as 'lakehouse quarantine list' shows it, <ingestion>:<line>"
        raise ValueError(msg)
    return ingestion_id, int(line)
