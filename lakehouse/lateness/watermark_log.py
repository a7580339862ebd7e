"""``ops/watermarks``: who moved a source's watermark, when, why, and what the data said then.

What holds is what the contract says; this is the record of how it came to say so.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import table_io

if TYPE_CHECKING:
    from datetime import date, datetime

    from lakehouse.settings import Settings

_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("event_type", pa.string()),
        ("seconds_before", pa.int64()),
        ("seconds", pa.int64()),
        ("since", pa.date32()),
        ("by", pa.string()),
        ("reason", pa.string()),
        ("because", pa.string()),
        ("evidence", pa.string()),
        ("decided_at", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True)
class Moved:
    """One decision.

    ``seconds`` is the watermark for rows that arrive on ``since`` or later, of one ``event_type``, or of all that have none
    of their own; ``because`` and ``evidence`` (JSON) are what the proposal said.
    """

    source: str
    event_type: str | None
    seconds_before: int | None
    seconds: int
    since: date
    by: str
    reason: str
    because: str
    evidence: str
    decided_at: datetime


def record(settings: Settings, entry: Moved) -> bool:
    """Append a decision; the same one is written once.

    :returns: whether it was written.
    """
    said = (entry.source, entry.event_type, entry.seconds_before, entry.seconds, entry.since, entry.by, entry.reason)
    app_id = "watermark:" + hashlib.sha256(repr(said).encode()).hexdigest()[:16]
    table = pa.Table.from_pylist([asdict(entry)], schema=_SCHEMA)
    return table_io.append(
        locations.watermarks(settings), table, options=settings.storage_options, partition_by=["source"], app_id=app_id
    )


def of(settings: Settings, source: str) -> list[Moved]:
    """Every decision on a source, oldest first."""
    found = table_io.read(
        locations.watermarks(settings), [item.name for item in fields(Moved)], {"source": [source]}, settings.storage_options
    )
    entries = [] if found is None else [Moved(**row) for row in found.to_pylist()]
    return sorted(entries, key=lambda entry: (entry.decided_at, entry.since))
