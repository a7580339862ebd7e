"""A change that a person made: its kind, its state, and how it is taken back. Plain Python; ``change_list`` reads the changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from datetime import date, datetime


class ChangeKind(str, Enum):
    """What kind of thing a person did."""

    BACKFILL = "backfill"
    CORRECTION = "correction"
    CUTOFF = "cutoff"
    """The lateness beyond which rows wait or are dropped: ``lakehouse lateness apply``."""
    DECISION = "decision"
    """About rows in quarantine."""
    GAP = "gap"
    """Lost messages of a topic, accepted as lost."""
    LATE_DECISION = "late_decision"
    """About rows that came too late for a metric."""
    MODEL = "model"
    """A promotion or rollback of a model."""
    PROMOTION = "promotion"
    """A promotion or rollback of a metric's dataset version."""
    REBUILD = "rebuild"
    REDACTION = "redaction"
    REJECTION = "rejection"
    """A held number that is not published."""
    REPARSE = "reparse"
    REVERT = "revert"
    SIGN_OFF = "sign_off"
    """A held number, or a closed period, that a person published."""
    STAGE = "stage"
    WATERMARK = "watermark"
    """The ``max_lateness`` of a source's event-time watermark, set, pinned or undone."""


class ChangeState(str, Enum):
    """Whether a change counts."""

    PENDING = "pending"
    """It is planned, or waits for another person."""
    RUNNING = "running"
    APPLIED = "applied"
    UNDONE = "undone"
    CANCELLED = "cancelled"
    """It was rejected, dropped or cancelled before it counted."""
    FAILED = "failed"


@dataclass(frozen=True)
class ChangeEntry:
    """A change that a person made or proposed.

    ``target`` is the source, series or model; ``described`` says what was done in one line; ``days`` are the first and the last
    event day (arrival day of a reparse) or period that it names; ``undo`` is the command that takes it back, None if there is
    none, because it never counted, is undone, or can only be followed by another change; ``periods`` are those that a revert
    keeps.
    """

    change_id: str
    kind: ChangeKind
    target: str
    described: str
    by: str
    reason: str
    recorded_at: datetime
    state: ChangeState = ChangeState.APPLIED
    days: tuple[date, date] | None = None
    undo: str | None = field(default=None, kw_only=True)
    periods: tuple[date, ...] = field(default=(), kw_only=True)

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON values; ``days`` as a list of both."""
        days = None if self.days is None else [f"{day}" for day in self.days]
        values = {"kind": self.kind.value, "state": self.state.value, "recorded_at": self.recorded_at.isoformat(), "days": days}
        return {**vars(self), **values, "periods": [f"{start}" for start in self.periods]}


#: How a change that counts is followed by another one, where it cannot be taken back.
INSTEAD = {
    ChangeKind.BACKFILL: "Restore single numbers: lakehouse revert METRIC PERIOD --to VERSION.",
    ChangeKind.CORRECTION: "Enter another correction: lakehouse correct SOURCE KEY.",
    ChangeKind.CUTOFF: "Set another cutoff: lakehouse lateness apply SOURCE.",
    ChangeKind.DECISION: "Decide otherwise: lakehouse quarantine accept, reject or duplicate; the newest decision counts.",
    ChangeKind.GAP: "Lost messages are lost; deliver them as files.",
    ChangeKind.LATE_DECISION: "Decide otherwise: lakehouse lateness admit or withdraw; the newest decision counts.",
    ChangeKind.MODEL: "Promote another version: lakehouse model promote MODEL VERSION.",
    ChangeKind.PROMOTION: "Promote another version: lakehouse promote METRIC VERSION.",
    ChangeKind.REBUILD: "Restore single numbers: lakehouse revert METRIC PERIOD --to VERSION.",
    ChangeKind.REDACTION: "A redaction lasts; the delivered files are unchanged.",
    ChangeKind.REJECTION: "The same number is not proposed again; another one is, when the rows of its period change.",
    ChangeKind.REPARSE: "Read the records again under another contract: lakehouse source reparse SOURCE.",
    ChangeKind.REVERT: "Revert to another version: lakehouse revert METRIC PERIOD --to VERSION.",
    ChangeKind.SIGN_OFF: "Restore an earlier number: lakehouse revert METRIC PERIOD --to VERSION.",
    ChangeKind.STAGE: "Restore single numbers: lakehouse revert METRIC PERIOD --to VERSION.",
    ChangeKind.WATERMARK: "Set another value: lakehouse lateness pin SOURCE.",
}


class UndoRefusedError(LakehouseError):
    """A change cannot be taken back. The message says what can be done instead."""


def require_undoable(change: ChangeEntry) -> None:
    """Check that a change can be taken back.

    :raises UndoRefusedError: if it cannot.
    """
    if change.undo is not None:
        return
    kind = change.kind.value.replace("_", " ")
    if change.state is ChangeState.APPLIED:
        msg = f"{change.change_id} is a {kind}, which is not undone. {INSTEAD[change.kind]}"
    else:
        msg = f"{change.change_id} is {change.state.value}: there is nothing to undo"
    raise UndoRefusedError(msg)
