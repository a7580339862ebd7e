"""``ops/corrections``: each manual correction, from its proposal to the file that entered it.

Belongs here: the events, and the state that follows from them. The record of a correction belongs to ``correction_record``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.errors import LakehouseError
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lakehouse.settings import Settings


class CorrectionError(LakehouseError):
    """A correction that cannot be proposed, approved or entered; nothing has changed. The message names the remedy."""


class Operation(str, Enum):
    """The operation of a correction on the record of a key."""

    CORRECT = "correct"
    WITHDRAW = "withdraw"
    ENTER = "enter"


class CorrectionEventKind(str, Enum):
    """The kinds of events of a correction."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    REJECTED = "rejected"
    ENTERED = "entered"


@dataclass(frozen=True)
class CorrectionEvent:
    """An event of a correction.

    ``operation``, ``values`` (by field), ``before`` (by field, the row at the time of the proposal) and ``needed`` (the number of
    people who must agree) repeat the proposal; ``file`` is the name in the landing folder, once entered.
    """

    source: str
    correction_id: str
    kind: CorrectionEventKind
    record_key: str
    operation: Operation
    needed: int
    by: str
    reason: str
    recorded_at: datetime
    values: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] = field(default_factory=dict)
    file: str | None = None


@dataclass(frozen=True)
class Correction:
    """A correction with its events, oldest first."""

    events: Sequence[CorrectionEvent]

    @property
    def proposal(self) -> CorrectionEvent:
        """The first event, which proposed the correction."""
        return self.events[0]

    @property
    def correction_id(self) -> str:
        """The id of the correction."""
        return self.proposal.correction_id

    @property
    def agreed(self) -> list[str]:
        """The people who proposed or approved the correction."""
        kinds = (CorrectionEventKind.PROPOSED, CorrectionEventKind.APPROVED)
        return [event.by for event in self.events if event.kind in kinds]

    @property
    def is_approved(self) -> bool:
        """Whether enough people agree."""
        return len(set(self.agreed)) >= self.proposal.needed

    @property
    def end(self) -> CorrectionEvent | None:
        """The event that settled the correction; None while it is open."""
        ends = (CorrectionEventKind.REJECTED, CorrectionEventKind.ENTERED)
        return next((event for event in self.events if event.kind in ends), None)


def log(settings: Settings) -> LogTable[CorrectionEvent]:
    """The table."""
    return LogTable(CorrectionEvent, settings, locations.corrections(settings), partition_by="source")


def record(settings: Settings, event: CorrectionEvent) -> bool:
    """Append an event once per person and kind; returns whether it was new."""
    return log(settings).append([event], app_id=f"correction:{event.correction_id}:{event.kind.value}:{event.by}")


def of_source(settings: Settings, source: str) -> list[Correction]:
    """All corrections of a source, oldest first."""
    ranks = list(CorrectionEventKind)
    events = sorted(log(settings).read({"source": [source]}), key=lambda event: (event.recorded_at, ranks.index(event.kind)))
    by_id: dict[str, list[CorrectionEvent]] = {}
    for event in events:
        by_id.setdefault(event.correction_id, []).append(event)
    return [Correction(known) for known in by_id.values()]


def find(settings: Settings, source: str, correction_id: str) -> Correction:
    """The correction with an id, or the only correction whose id begins with it.

    :raises CorrectionError: if no correction matches, or more than one.
    """
    known = of_source(settings, source)
    matches = [one for one in known if one.correction_id.startswith(correction_id)]
    if len(matches) != 1:
        open_ids = ", ".join(one.correction_id for one in known if one.end is None) or "none"
        count = "more than one correction begins with" if matches else "there is no correction"
        msg = f"{source}: {count} {correction_id}; open are {open_ids}"
        raise CorrectionError(msg)
    return matches[0]
