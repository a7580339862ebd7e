"""``ops/watermarks``: the decisions that changed a source's watermark: who, when, why, and the proposal at that time.

The contract decides which watermark is in force; this log records how it was chosen. Proposals are computed in ``rules``, the
contract's text is edited by ``contract_edit``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from datetime import date, datetime

    from lakehouse.settings import Settings


@dataclass(frozen=True)
class WatermarkDecision:
    """A decision that changed a watermark.

    ``seconds`` is the watermark for rows that arrive on ``since`` or later, of one ``event_type``, or of all event types without
    bounds of their own; ``because`` and ``evidence`` (JSON) are those of the proposal.
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


def log(settings: Settings) -> LogTable[WatermarkDecision]:
    """The table."""
    return LogTable(WatermarkDecision, settings, locations.watermarks(settings), partition_by="source", journaled=True)


def record(settings: Settings, entry: WatermarkDecision) -> bool:
    """Append a decision; the same one is written once.

    :returns: whether it was written.
    """
    decision = (entry.source, entry.event_type, entry.seconds_before, entry.seconds, entry.since, entry.by, entry.reason)
    app_id = "watermark:" + hashlib.sha256(repr(decision).encode()).hexdigest()[:16]
    return log(settings).append([entry], app_id=app_id)


def of(settings: Settings, source: str) -> list[WatermarkDecision]:
    """Every decision on a source, oldest first."""
    entries = log(settings).read({"source": [source]})
    return sorted(entries, key=lambda entry: (entry.decided_at, entry.since))
