"""``ops/dropped``: numbers that somebody looked at and refused to publish. The same number is not proposed again."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import table_io

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date, datetime

    from lakehouse.settings import Settings

_SCHEMA = pa.schema(
    [
        ("series", pa.string()),
        ("period_start", pa.date32()),
        ("revision", pa.int64()),
        ("content", pa.string()),
        ("by", pa.string()),
        ("reason", pa.string()),
        ("dropped_at", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True)
class RejectedCandidate:
    """A candidate, known by a digest of what it said, and who refused it. ``revision`` is what it would have been."""

    series: str
    period_start: date
    revision: int
    content: str
    by: str
    reason: str
    dropped_at: datetime


def record(settings: Settings, entry: RejectedCandidate) -> None:
    """Append a refusal, once."""
    table = pa.Table.from_pylist([asdict(entry)], schema=_SCHEMA)
    app_id = f"dropped:{entry.series}:{entry.period_start}:{entry.revision}:{entry.content}"
    table_io.append(
        locations.rejected_candidates(settings), table, options=settings.storage_options, partition_by=["series"], app_id=app_id
    )


def of(settings: Settings, series: str, starts: Collection[date] | None = None) -> list[RejectedCandidate]:
    """What was dropped of a series, oldest first."""
    where = {"series": [series]} | ({} if starts is None else {"period_start": list(starts)})
    found = table_io.read(
        locations.rejected_candidates(settings),
        [item.name for item in fields(RejectedCandidate)],
        where,
        settings.storage_options,
    )
    entries = [] if found is None else [RejectedCandidate(**row) for row in found.to_pylist()]
    return sorted(entries, key=lambda entry: (entry.dropped_at, entry.period_start))
