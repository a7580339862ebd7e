"""``bronze/<source>_admissions``: the files to whose rows no watermark applies, because a person has admitted them as history.

An admission is input, like a steward's decision: it is recorded before the rows of the file are judged, and applies whenever they
are judged again. It concerns lateness only; row rules still apply.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    import pyarrow as pa

    from lakehouse.lake import Lake


@dataclass(frozen=True)
class HistoryAdmission:
    """The decision of a backfill's runner to admit the rows of a file, however late they came."""

    ingestion_id: str
    plan_id: str
    by: str
    reason: str
    decided_at: datetime


def log(lake: Lake, source: str) -> LogTable[HistoryAdmission]:
    """The table of a source."""
    return LogTable(HistoryAdmission, lake, locations.history_admissions(lake, source), journaled=True)


def record(lake: Lake, source: str, plan_id: str, ids: Collection[str], by: str, reason: str) -> None:
    """Append the admissions of a plan, in one commit and once."""
    admissions = [HistoryAdmission(ingestion_id, plan_id, by, reason, lake.now()) for ingestion_id in sorted(set(ids))]
    log(lake, source).append(admissions, app_id=f"admission:{plan_id}")


def admitted(lake: Lake, source: str) -> pa.Array:
    """The ids of the ingestions that are admitted."""
    return log(lake, source).select(["ingestion_id"])["ingestion_id"].combine_chunks()
