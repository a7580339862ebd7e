"""``ops/dropped``: numbers that a person refused to publish. The same number is not proposed again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date, datetime

    from lakehouse.lake import Lake


@dataclass(frozen=True)
class RejectedCandidate:
    """A refused candidate: the digest of its content, the revision that it would have been, and by whom, why and when it was
    refused.
    """

    series: str
    period_start: date
    revision: int
    content: str
    by: str
    reason: str
    dropped_at: datetime


def log(lake: Lake) -> LogTable[RejectedCandidate]:
    """The table."""
    return LogTable(RejectedCandidate, lake, locations.rejected_candidates(lake), partition_by="series", journaled=True)


def record(lake: Lake, entry: RejectedCandidate) -> None:
    """Append a refusal, once."""
    app_id = f"dropped:{entry.series}:{entry.period_start}:{entry.revision}:{entry.content}"
    log(lake).append([entry], app_id=app_id)


def of(lake: Lake, series: str, starts: Collection[date] | None = None) -> list[RejectedCandidate]:
    """The rejected candidates of a series, oldest first."""
    where = {"series": [series]} | ({} if starts is None else {"period_start": list(starts)})
    return sorted(log(lake).read(where), key=lambda entry: (entry.dropped_at, entry.period_start))
