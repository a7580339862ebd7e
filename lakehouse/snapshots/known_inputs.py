"""The inputs of a source that were known at a time: files, decisions and rebuild requests.

Rows and numbers as known at a time are both computed from this one set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.ledger import decisions, ingestions, late_decisions, rebuild_requests

if TYPE_CHECKING:
    from datetime import datetime

    from lakehouse.settings import Settings


def known_at(settings: Settings, source: str, when: datetime) -> set[str]:
    """The ids of all files, and of everything that had been decided and requested by ``when``.

    Files are always included; their rows are filtered by arrival time (``until`` of ``silver.merge.state``), because a file may
    have been ingested later than its rows arrived.
    """
    ids = set(ingestions.inputs(ingestions.all_of(settings, source)))
    ids |= {one.decision_id for one in decisions.all_of(settings, source) if one.decided_at <= when}
    ids |= late_decisions.ids(settings, source, when)
    return ids | {one.operation_id for one in rebuild_requests.all_of(settings, source) if one.recorded_at <= when}
