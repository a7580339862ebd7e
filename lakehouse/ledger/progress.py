"""``ops/applications``: which ingestions have been applied to which event days of silver, run by run.

Losing this table loses nothing: what is applied again changes nothing, because silver is a function of Bronze.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse.ledger import ingestions, store

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date, datetime

    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.settings import Settings

_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("run_id", pa.string()),
        ("days", pa.list_(pa.date32())),
        ("ingestion_ids", pa.list_(pa.string())),
        ("method", pa.string()),
        ("silver_version", pa.int64()),
        ("recorded_at", pa.timestamp("us", "UTC")),
    ]
)


def record(
    settings: Settings,
    source: str,
    *,
    run_id: str,
    days: Iterable[date],
    ingestion_ids: Iterable[str],
    method: str,
    silver_version: int,
    now: datetime,
) -> None:
    """State that silver's ``days`` now contain what ``ingestion_ids`` say about them."""
    row = {
        "source": source,
        "run_id": run_id,
        "days": sorted(days),
        "ingestion_ids": sorted(ingestion_ids),
        "method": method,
        "silver_version": silver_version,
        "recorded_at": now,
    }
    store.append(
        settings.table("ops", "applications"),
        pa.Table.from_pylist([row], schema=_SCHEMA),
        options=settings.storage_options,
        partition_by=["source"],
    )


def pending(settings: Settings, source: str) -> dict[date, set[str]]:
    """The event days that wait for silver, each with the ids of the ingestions that wait for it."""
    waiting = pending_entries(settings, source)
    return {day: {entry.ingestion_id for entry in entries} for day, entries in waiting.items()}


def pending_entries(settings: Settings, source: str) -> dict[date, list[Ingestion]]:
    """The event days that wait for silver, each with the ingestions that wait for it."""
    known = ingestions.ingested(ingestions.all_of(settings, source))
    applied = store.read(
        settings.table("ops", "applications"),
        ["days", "ingestion_ids"],
        {"source": [source]},
        settings.storage_options,
    )
    done: dict[str, set[date]] = defaultdict(set)
    for row in [] if applied is None else applied.to_pylist():
        for ingestion_id in row["ingestion_ids"]:
            done[ingestion_id].update(row["days"])
    waiting: dict[date, list[Ingestion]] = defaultdict(list)
    for ingestion_id, entry in known.items():
        for day in set(entry.touched_days) - done[ingestion_id]:
            waiting[day].append(entry)
    return dict(waiting)
