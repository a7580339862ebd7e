"""``ops/applications``: which ingestions, decisions, redactions and operations silver has applied, to which event days.

Losing this table loses nothing: what is applied again changes nothing, because silver is a function of Bronze.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.ledger import decisions, ingestions, rebuild_requests, redactions

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
    """State that silver's ``days`` now contain what these ingestions, decisions and redactions say about them."""
    row = {
        "source": source,
        "run_id": run_id,
        "days": sorted(days),
        "ingestion_ids": sorted(ingestion_ids),
        "method": method,
        "silver_version": silver_version,
        "recorded_at": now,
    }
    table_io.append(
        locations.applied_inputs(settings),
        pa.Table.from_pylist([row], schema=_SCHEMA),
        options=settings.storage_options,
        partition_by=["source"],
    )


def pending(settings: Settings, source: str) -> dict[date, set[str]]:
    """The event days that wait for silver, each with the ids of what it waits for: see :func:`is_by_hand`."""
    waiting: dict[date, set[str]] = defaultdict(set)
    for day, entries in pending_entries(settings, source).items():
        waiting[day] |= {entry.ingestion_id for entry in entries}
    for day, ids in pending_by_hand(settings, source).items():
        waiting[day] |= ids
    return dict(waiting)


def is_by_hand(one: str) -> bool:
    """Whether an id is that of a decision, a redaction or an operation, and not of an ingestion."""
    return one.startswith((decisions.PREFIX, redactions.PREFIX, rebuild_requests.PREFIX))


def pending_by_hand(settings: Settings, source: str) -> dict[date, set[str]]:
    """The event days that wait for silver because a person decided, redacted or wants them made again."""
    touched = (
        decisions.touched(settings, source) | redactions.touched(settings, source) | rebuild_requests.touched(settings, source)
    )
    done = _applied(settings, source) if touched else {}
    waiting: dict[date, set[str]] = defaultdict(set)
    for one, days in touched.items():
        for day in days.difference(*done.get(one, ())):
            waiting[day].add(one)
    return dict(waiting)


def pending_entries(settings: Settings, source: str) -> dict[date, list[Ingestion]]:
    """The event days that wait for silver, each with the ingestions that wait for it."""
    known = ingestions.ingested(ingestions.all_of(settings, source))
    done = _applied(settings, source)
    waiting: dict[date, list[Ingestion]] = defaultdict(list)
    for ingestion_id, entry in known.items():
        for day in set(entry.touched_days).difference(*done.get(ingestion_id, ())):
            waiting[day].append(entry)
    return dict(waiting)


def has_any(settings: Settings, source: str) -> bool:
    """Whether anything is known to be applied."""
    return bool(_applied(settings, source))


def _applied(settings: Settings, source: str) -> dict[str, list[frozenset[date]]]:
    """Per id the event days of silver that contain what it says, application by application."""
    applied = table_io.read(
        locations.applied_inputs(settings),
        ["days", "ingestion_ids"],
        {"source": [source]},
        settings.storage_options,
    )
    done: dict[str, list[frozenset[date]]] = defaultdict(list)
    for row in [] if applied is None else applied.to_pylist():
        days = frozenset(row["days"])  # one for all: a run about many files is about many days
        for one in row["ingestion_ids"]:
            done[one].append(days)
    return dict(done)
