"""``ops/moves``: each time that a metric's readers were moved to another dataset version: from, to, by whom, why, from what.

A copy of what the commits that moved them say of themselves, so that a run that was stopped behind its commit loses
nothing: :func:`follow` writes what is missing. The move itself is in ``gold.promotion.promotion``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import commit_log, table_io

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.settings import Settings

_SCHEMA = pa.schema(
    [
        ("metric", pa.string()),
        ("move_id", pa.string()),
        ("kind", pa.string()),
        ("from_version", pa.int32()),
        ("to_version", pa.int32()),
        ("by", pa.string()),
        ("reason", pa.string()),
        ("moved_at", pa.timestamp("us", "UTC")),
        ("gold_version", pa.int64()),
        ("periods", pa.int64()),
        ("inputs", pa.string()),
        ("accepted", pa.list_(pa.string())),
        ("follows", pa.int64()),
        ("release_notes", pa.string()),
    ]
)
#: Under this name a commit says of itself that it moved the readers.
COMMIT_KEY = "moved"


class PromotionKind(str, Enum):
    """Forward to numbers that were filled beside, or back to those that readers saw before."""

    PROMOTE = "promote"
    ROLLBACK = "rollback"


@dataclass(frozen=True)
class Promotion:
    """One move. ``gold_version`` is the version of the gold table that it made.

    ``periods`` counts what got another number; ``inputs`` names the version of the table that was promoted and the contract
    of either side; ``accepted`` the differences that somebody put up with; ``follows`` is the silver version from which on
    the promoted numbers have to follow it, None behind a rollback.
    """

    metric: str
    move_id: str
    kind: PromotionKind
    from_version: int
    to_version: int
    by: str
    reason: str
    moved_at: datetime
    gold_version: int
    periods: int
    inputs: Mapping[str, Any] = field(default_factory=dict)
    accepted: list[str] = field(default_factory=list)
    follows: int | None = None
    release_notes: str = ""


def follow(settings: Settings, metric: str, gold: str) -> int:
    """Write a row for each commit of a gold table that moved its readers and has none yet.

    :param gold: the table's address.
    :returns: how many rows were written.
    """

    def row_of(commit: dict[str, Any], why: dict[str, Any]) -> dict[str, Any] | None:
        return _row(metric, commit["version"], why) if COMMIT_KEY in why else None

    return commit_log.copy(settings, gold, locations.promotion_log(settings), f"moves:{metric}", _SCHEMA, row_of)


def of(settings: Settings, metric: str) -> list[Promotion]:
    """Every move of a metric's readers, oldest first."""
    found = table_io.read(
        locations.promotion_log(settings),
        [item.name for item in fields(Promotion)],
        {"metric": [metric]},
        settings.storage_options,
    )
    rows = [] if found is None else found.to_pylist()
    moves = [Promotion(**row | {"kind": PromotionKind(row["kind"]), "inputs": json.loads(row["inputs"])}) for row in rows]
    return sorted(moves, key=lambda move: move.gold_version)


def _row(metric: str, gold_version: int, why: Mapping[str, Any]) -> dict[str, Any]:
    told = dict(why[COMMIT_KEY])
    return told | {
        "metric": metric,
        "move_id": why["publication_id"],
        "moved_at": datetime.fromisoformat(why["as_of"]),
        "gold_version": gold_version,
        "periods": len(why["published"]),
        "inputs": json.dumps(told["inputs"], sort_keys=True),
    }
