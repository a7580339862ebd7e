"""``ops/ingestions``: one row per delivery of a file, whether it was ingested, known already, or held."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import table_io

if TYPE_CHECKING:
    from datetime import date, datetime

    from lakehouse.settings import Settings

_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("ingestion_id", pa.string()),
        ("content_hash", pa.string()),
        ("arrival_date", pa.date32()),
        ("source_file", pa.string()),
        ("bytes", pa.int64()),
        ("modified", pa.timestamp("us", "UTC")),
        ("rows", pa.int64()),
        ("malformed", pa.int64()),
        ("touched_days", pa.list_(pa.date32())),
        ("touched_rows", pa.list_(pa.int64())),
        ("status", pa.string()),
        ("message", pa.string()),
        ("run_id", pa.string()),
        ("recorded_at", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True)
class Ingestion:
    """One delivery. ``touched_days`` are the event days whose silver content it may change."""

    source: str
    ingestion_id: str
    content_hash: str
    arrival_date: date
    source_file: str
    bytes: int
    modified: datetime | None
    status: Literal["ingested", "redelivered", "held"]
    run_id: str
    recorded_at: datetime
    rows: int = 0
    malformed: int = 0
    touched_days: list[date] = field(default_factory=list)
    touched_rows: list[int] = field(default_factory=list)
    message: str | None = None

    @property
    def rows_by_day(self) -> dict[date, int]:
        """How many of its rows each touched day got; none where only an older copy of a key lives."""
        return dict(zip(self.touched_days, self.touched_rows))


def record(settings: Settings, entry: Ingestion) -> None:
    """Append one delivery; the same statement about the same file is written once."""
    table_io.append(
        locations.ingestions(settings),
        pa.Table.from_pylist([asdict(entry)], schema=_SCHEMA),
        options=settings.storage_options,
        partition_by=["source"],
        app_id=f"{entry.status}:{entry.source}:{entry.content_hash}:{entry.source_file}:{entry.modified}:{entry.message or ''}",
    )


def all_of(settings: Settings, source: str) -> list[Ingestion]:
    """Every recorded delivery of a source, by arrival day and file."""
    table = table_io.read(
        locations.ingestions(settings),
        [item.name for item in fields(Ingestion)],
        {"source": [source]},
        settings.storage_options,
    )
    entries = [] if table is None else [Ingestion(**row) for row in table.to_pylist()]
    return sorted(entries, key=lambda entry: (entry.arrival_date, entry.source_file, entry.recorded_at))


def ingested(entries: list[Ingestion]) -> dict[str, Ingestion]:
    """The ingestions that are in Bronze, by id."""
    return {entry.ingestion_id: entry for entry in entries if entry.status == "ingested"}


def still_held(entries: list[Ingestion]) -> list[Ingestion]:
    """The files that were held and have not been ingested since."""
    done = {entry.content_hash for entry in entries if entry.status == "ingested"}
    newest = {entry.source_file: entry for entry in sorted(entries, key=lambda entry: entry.recorded_at)}
    return [entry for entry in newest.values() if entry.status == "held" and entry.content_hash not in done]
