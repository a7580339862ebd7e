"""``ops/unread_rows``: the number of rows of a delivered file that could not be read, by the event days that they name.

An entry is written when a file with malformed rows is ingested, and again when a reading changes which of them can be read; the
newest entry about a file holds. Which numbers wait because of them is decided in ``dispositions.unread``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import date, datetime

    import pyarrow as pa

    from lakehouse.lake import Lake

#: The columns of Bronze that are counted.
COLUMNS = ("ingestion_id", "arrival_date", "line_number", "event_date", "malformed_reason")


@dataclass(frozen=True)
class UnreadRows:
    """The malformed rows of one ingestion: ``rows`` has the number of those that name the event day in ``days``; the others name
    none.

    ``line_number`` and ``reason`` belong to the first malformed row. ``reading`` is 0 for the count at ingestion, else the number
    of the reading after which the rows were counted.
    """

    source: str
    ingestion_id: str
    arrival_date: date
    malformed: int = field(kw_only=True)
    days: list[date] = field(default_factory=list, kw_only=True)
    rows: list[int] = field(default_factory=list, kw_only=True)
    line_number: int | None = field(default=None, kw_only=True)
    reason: str | None = field(default=None, kw_only=True)
    reading: int = field(default=0, kw_only=True)
    recorded_at: datetime


def log(lake: Lake) -> LogTable[UnreadRows]:
    """The table."""
    return LogTable(UnreadRows, lake, locations.unread_rows(lake), partition_by="source")


def count(source: str, pieces: Iterable[pa.Table], recorded_at: datetime) -> list[UnreadRows]:
    """The entries of those ingestions in ``pieces`` that have malformed rows.

    :param pieces: rows with :data:`COLUMNS`; rows of one ingestion may be in several pieces.
    """
    counts: dict[str, Counter[date | None]] = {}
    entries: dict[str, UnreadRows] = {}
    for rows in pieces:
        malformed = rows.select(COLUMNS).filter(pc.is_valid(rows["malformed_reason"]))
        if not len(malformed):
            continue
        by_day = malformed.group_by(["ingestion_id", "event_date"]).aggregate([([], "count_all")])
        for row in by_day.to_pylist():
            counts.setdefault(row["ingestion_id"], Counter())[row["event_date"]] += row["count_all"]
        by_file = malformed.group_by(["ingestion_id", "arrival_date"]).aggregate([("line_number", "min")])
        for first in by_file.to_pylist():
            name, line = first["ingestion_id"], first["line_number_min"]
            known = entries.get(name)
            if known is None or known.line_number is None or line < known.line_number:
                is_first = pc.and_(pc.equal(malformed["ingestion_id"], name), pc.equal(malformed["line_number"], line))
                reason = malformed.filter(is_first)["malformed_reason"][0].as_py()
                entry = UnreadRows(source, name, first["arrival_date"], malformed=0, recorded_at=recorded_at)
                entries[name] = replace(entry, line_number=line, reason=reason)
    return [
        replace(
            entry,
            malformed=counts[name].total(),
            days=sorted(day for day in counts[name] if day is not None),
            rows=[rows for day, rows in sorted((day, rows) for day, rows in counts[name].items() if day is not None)],
        )
        for name, entry in entries.items()
    ]


def record(lake: Lake, entries: Collection[UnreadRows]) -> None:
    """Append the entries of one source, except those of a file that the table already has after the same reading."""
    if entries:
        where = {"source": [next(iter(entries)).source], "ingestion_id": [entry.ingestion_id for entry in entries]}
        log(lake).append_missing(entries, lambda entry: f"unread:{entry.reading}:{entry.ingestion_id}", where)


def newest(lake: Lake, source: str) -> dict[str, UnreadRows]:
    """The unread rows of each ingestion at present; ingestions of earlier releases have no entry."""
    entries = log(lake).read({"source": [source]})
    return {entry.ingestion_id: entry for entry in sorted(entries, key=lambda entry: entry.reading)}


def first_reason(lake: Lake, source: str, ingestion_ids: Collection[str]) -> str | None:
    """Why the first malformed row of ``ingestion_ids`` is malformed; None if there is none, or an earlier release
    ingested them.
    """
    if not ingestion_ids:
        return None
    known = newest(lake, source)
    return next((known[name].reason for name in ingestion_ids if name in known and known[name].reason), None)
