"""``bronze/<source>_decisions``: what stewards decided about single rows of Bronze. The latest decision on a row holds.

Decisions are input, as files are: they stand beside Bronze, are only ever added to, and a rebuild applies them again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from lakehouse import locations
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date, datetime

    from lakehouse.ledger.row_ids import RowId
    from lakehouse.settings import Settings

Decided = Literal["accept", "reject", "duplicate"]
PREFIX = "decision:"


@dataclass(frozen=True)
class Decision:
    """What one steward said about one row. ``number`` counts the decisions on that row, from 1.

    ``about_file`` says that the row waited because its file would shrink its day, so that the word is about the file;
    ``decision_id`` is shared by the rows decided with one command; ``touched_days`` are the event days on which the row's
    key may live.
    """

    decision_id: str = field(default="", kw_only=True)
    number: int = field(default=1, kw_only=True)
    ingestion_id: str
    line_number: int
    record_key: str
    verdict: Decided
    by: str
    reason: str
    decided_at: datetime
    about_file: bool = field(default=False, kw_only=True)
    touched_days: list[date] = field(default_factory=list, kw_only=True)

    @property
    def row(self) -> RowId:
        """The row it is about."""
        return self.ingestion_id, self.line_number

    @property
    def admits(self) -> bool:
        """Whether the row may contend for its key."""
        return self.verdict == "accept"


def log(settings: Settings, source: str) -> LogTable[Decision]:
    """The table of a source."""
    return LogTable(Decision, settings, locations.decisions(settings, source))


def record(settings: Settings, source: str, decided: list[Decision]) -> str:
    """Append the decisions of one command, once.

    :returns: the id that they share.
    """
    text = "\n".join(sorted(f"{one.row}|{one.number}|{one.verdict}|{one.by!r}|{one.reason!r}" for one in decided))
    decision_id = PREFIX + hashlib.sha256(text.encode()).hexdigest()[:16]
    log(settings, source).append([replace(entry, decision_id=decision_id) for entry in decided], app_id=decision_id)
    return decision_id


def all_of(settings: Settings, source: str) -> list[Decision]:
    """Every decision, in the order in which they hold."""
    return sorted(log(settings, source).read(), key=lambda entry: (entry.number, entry.decided_at, entry.decision_id))


def newest(settings: Settings, source: str, ids: Collection[str] | None = None) -> dict[RowId, Decision]:
    """The decision that holds, per row that was decided on.

    :param ids: only what these said, so that any earlier state can be made again (R10).
    """
    return {one.row: one for one in all_of(settings, source) if ids is None or one.decision_id in ids}


def touched(settings: Settings, source: str) -> dict[str, set[date]]:
    """Per decision id the event days that it may change."""
    days: dict[str, set[date]] = {}
    for row in log(settings, source).select(["decision_id", "touched_days"]).to_pylist():
        days.setdefault(row["decision_id"], set()).update(row["touched_days"])
    return days
