"""``ops/event_watermarks``: the decisions about ``max_lateness`` of the event-time watermarks, by tuning or by a person.

Decisions about a source are numbered. A decision is written only if no other one was written since its basis was read. The value
that results is computed in ``max_lateness``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.lateness.max_lateness import MaxLatenessDecision
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.lake import Lake


def log(lake: Lake) -> LogTable[MaxLatenessDecision]:
    """The table."""
    return LogTable(MaxLatenessDecision, lake, locations.event_watermarks(lake), partition_by="source", journaled=True)


def of(lake: Lake, source: str) -> Sequence[MaxLatenessDecision]:
    """The decisions about a source, oldest first."""
    return sorted(log(lake).read({"source": [source]}), key=lambda entry: entry.number)


def record(lake: Lake, decision: MaxLatenessDecision) -> bool:
    """Append a decision.

    :returns: whether it was written; not if there is one of this number already.
    """
    return log(lake).append([decision], app_id=f"event-watermark:{decision.source}:{decision.number}")
