"""The malformed rows of Bronze in force, with the reason and the record as it was sent; redactions are applied.

Commands, pages and the API show them. Which of them delay a number is decided in ``unread``.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from lakehouse.dispositions import readings
from lakehouse.ledger import ingestions, redactions, unread_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import date

    import pyarrow as pa

    from lakehouse.lake import Lake
    from lakehouse.ledger.ids import RowId

COLUMNS = (
    *("arrival_date", "source_file", "ingestion_id", "line_number", "event_date", "record_key"),
    *("malformed_reason", "raw_payload"),
)


def tables(
    lake: Lake,
    source: str,
    *,
    arrival_days: Collection[date] | None = None,
    event_days: Collection[date] | None = None,
    ids: Collection[str] | None = None,
    key: str | None = None,
) -> Iterator[pa.Table]:
    """The malformed rows in tables, by arrival day, and within each by file and line; only files with malformed rows are read.

    :param event_days: only rows that name one of these event days.
    :param ids: only rows of these ingestions.
    """
    known = ingestions.ingested(ingestions.all_of(lake, source))
    counted = unread_rows.newest(lake, source)
    files = [
        entry
        for name, entry in known.items()
        if (counted[name].malformed if name in counted else entry.malformed)
        and (ids is None or name in ids)
        and (arrival_days is None or entry.arrival_date in arrival_days)
    ]
    hidden = redactions.keys_by_field(lake, source) if files else {}
    for day in sorted({entry.arrival_date for entry in files}):
        where: dict[str, Collection[Any]] = {"arrival_date": [day]}
        where["ingestion_id"] = [entry.ingestion_id for entry in files if entry.arrival_date == day]
        where |= {} if event_days is None else {"event_date": event_days}
        where |= {} if key is None else {"record_key": [key]}
        rows = readings.read(lake, source, COLUMNS, where)
        if rows is not None:
            malformed = redactions.applied(rows.filter(pc.is_valid(rows["malformed_reason"])), hidden)
            yield malformed.sort_by([("source_file", "ascending"), ("line_number", "ascending")])


def few(lake: Lake, source: str, count: int, **which: Any) -> list[dict[str, Any]]:
    """The first ``count`` malformed rows, by column; see :func:`tables` for the arguments."""
    return list(islice((row for rows in tables(lake, source, **which) for row in rows.slice(0, count).to_pylist()), count))


def raw_texts(lake: Lake, source: str, key: str) -> dict[RowId, str]:
    """The records of ``key`` that could not be read, as they were sent."""
    rows = [row for table in tables(lake, source, key=key) for row in table.to_pylist()]
    return {(row["ingestion_id"], row["line_number"]): row["raw_payload"] or "(redacted)" for row in rows}
