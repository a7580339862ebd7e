"""``ops/moves``: the log of promotions and rollbacks, with both dataset versions, the person, the reason and the inputs.

The log is a copy of the metadata of the promoting commits: if a run is stopped after its commit, :func:`follow` adds the
missing row. The promotion itself belongs to ``promotion``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.delta import commit_log
from lakehouse.gold.numbers import served_version
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.contracts import MetricContract
    from lakehouse.lake import Lake, Table
    from lakehouse.ledger.log_table import Int32

COMMIT_KEY = served_version.PROMOTION
#: The fields that the commit records under this key.
_RECORDED = {"kind", "from_version", "to_version", "by", "reason", "inputs", "accepted", "follows", "release_notes"}


class PromotionKind(str, Enum):
    """Forward to a version that was filled in its own table, or back to one that readers saw before."""

    PROMOTE = "promote"
    ROLLBACK = "rollback"


@dataclass(frozen=True)
class PromotionEntry:
    """A promotion or rollback; ``gold_version`` is the version of the gold table that it created.

    ``periods`` counts the periods whose number changed; ``inputs`` names the version of the promoted table, the contracts of both
    sides, and the silver table that is followed if it is not the main table of the source; ``accepted`` lists the differences
    that a person accepted; ``follows`` is the silver version after which the promoted numbers must follow silver, None after a
    rollback.
    """

    metric: str
    move_id: str
    kind: PromotionKind
    from_version: Int32
    to_version: Int32
    by: str
    reason: str
    moved_at: datetime
    gold_version: int
    periods: int
    inputs: Mapping[str, Any] = field(default_factory=dict)
    accepted: list[str] = field(default_factory=list)
    follows: int | None = None
    release_notes: str = ""


def log(lake: Lake) -> LogTable[PromotionEntry]:
    """The table."""
    return LogTable(PromotionEntry, lake, locations.promotion_log(lake), partition_by="metric", journaled=True)


def follow(lake: Lake, metric: str, gold: Table) -> int:
    """Write a row for each commit of a gold table that changed the served version and has no row yet.

    :param gold: the table.
    :returns: the number of rows written.
    """
    table = log(lake)

    def row_of(commit: dict[str, Any], why: dict[str, Any]) -> dict[str, Any] | None:
        return table.to_row(_promotion(metric, commit["version"], why)) if COMMIT_KEY in why else None

    return commit_log.copy_from_log(gold, table.table, f"moves:{metric}", table.schema, row_of)


def complete(lake: Lake, metric: MetricContract) -> None:
    """Bring the log of a metric up to date with the commits of the table that readers see."""
    follow(lake, metric.metric, locations.gold(lake, Series(metric, called=metric.metric)))


def of(lake: Lake, metric: str) -> list[PromotionEntry]:
    """Every promotion and rollback of a metric, oldest first."""
    return sorted(log(lake).read({"metric": [metric]}), key=lambda promotion: promotion.gold_version)


def _promotion(metric: str, gold_version: int, why: Mapping[str, Any]) -> PromotionEntry:
    recorded = {name: value for name, value in why[COMMIT_KEY].items() if name in _RECORDED}
    recorded["kind"] = PromotionKind(recorded["kind"])
    return PromotionEntry(
        metric=metric,
        move_id=why["publication_id"],
        moved_at=datetime.fromisoformat(why["as_of"]),
        gold_version=gold_version,
        periods=len(why["published"]),
        **recorded,
    )
