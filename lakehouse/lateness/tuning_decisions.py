"""``ops/event_watermarks``: the decisions about ``max_lateness`` of the event-time watermarks, by tuning or by a person.

Decisions about a source are numbered. A decision is written only if no other one was written since its basis was read. The value
that results is computed in ``history``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.lateness.max_lateness import MaxLatenessDecision
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.settings import Settings


def log(settings: Settings) -> LogTable[MaxLatenessDecision]:
    """The table."""
    return LogTable(MaxLatenessDecision, settings, locations.event_watermarks(settings), partition_by="source", journaled=True)


def of(settings: Settings, source: str) -> Sequence[MaxLatenessDecision]:
    """The decisions about a source, oldest first."""
    return sorted(log(settings).read({"source": [source]}), key=lambda entry: entry.number)


def record(settings: Settings, decision: MaxLatenessDecision) -> bool:
    """Append a decision.

    :returns: whether it was written; not if there is one of this number already.
    """
    return log(settings).append([decision], app_id=f"event-watermark:{decision.source}:{decision.number}")
