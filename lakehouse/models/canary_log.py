"""``ops/canaries``: the canaries of models, with their starts, judgements and stops, and the entities that a canary scores.

An entity is chosen by a salted hash of its key, so that its assignment is stable. A share contains every entity of a smaller
share with the same salt: a growing canary keeps all its entities.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from lakehouse import locations
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import pyarrow as pa
    from numpy.typing import NDArray

    from lakehouse.lake import Lake


class CanaryEvent(str, Enum):
    """The event of an entry."""

    STARTED = "started"
    JUDGED = "judged"
    STOPPED = "stopped"


class CanaryOutcome(str, Enum):
    """The result according to the mature labels."""

    MET = "met"
    NOT_MET = "not met"
    TOO_FEW_LABELS = "not enough labels yet"


@dataclass(frozen=True)
class CanaryEntry:
    """An event of a canary: ``challenger`` scores a share of the entities in place of ``champion``.

    :param number: counts the canaries of a model.
    :param share: the share as text, so that it is exact; ``salt`` is the full text that selects the entities.
    :param outcome: the outcome of a judgement; for a stop, the last outcome before it; None if the canary was never judged.
    :param results: the measures and verdicts of a judgement.
    """

    model: str
    number: int
    event: CanaryEvent
    challenger: str
    champion: str
    share: str
    salt: str
    by: str
    reason: str
    recorded_at: datetime
    outcome: CanaryOutcome | None = None
    labels: int | None = None
    results: Mapping[str, Any] = field(default_factory=dict)

    @property
    def of_entities(self) -> Decimal:
        """The share as a number."""
        return Decimal(self.share)

    @property
    def title(self) -> str:
        """A one-line description of the canary."""
        return f"canary of {self.model} {self.challenger} against {self.champion} on {self.of_entities:.4%} of the entities"


@dataclass(frozen=True)
class RecordedCanary:
    """A canary with its events; ``judged`` is the newest judgement, ``stopped`` is None while it runs."""

    started: CanaryEntry
    judged: CanaryEntry | None
    stopped: CanaryEntry | None


def log(lake: Lake) -> LogTable[CanaryEntry]:
    """The table of canary events."""
    return LogTable(CanaryEntry, lake, locations.canaries(lake), partition_by="model", journaled=True)


def of(lake: Lake, model: str) -> list[RecordedCanary]:
    """The canaries of a model, oldest first."""
    entries = log(lake).read({"model": [model]})
    return [_recorded([entry for entry in entries if entry.number == number]) for number in sorted({e.number for e in entries})]


def running(lake: Lake, model: str) -> CanaryEntry | None:
    """The canary of a model that was started and not stopped; None without one."""
    canaries = of(lake, model)
    return canaries[-1].started if canaries and canaries[-1].stopped is None else None


def events_of(lake: Lake, model: str, version: str) -> list[dict[str, Any]]:
    """The events of the canaries in which ``version`` took part, oldest first, for its lineage."""
    events = [
        entry
        for canary in of(lake, model)
        for entry in (canary.started, canary.judged, canary.stopped)
        if entry is not None and version in {entry.challenger, entry.champion}
    ]
    shown = ("challenger", "champion", "share", "labels", "by", "reason")
    return [
        {
            "event": entry.event.value,
            **{name: getattr(entry, name) for name in shown},
            "outcome": entry.outcome.value if entry.outcome else None,
            "recorded_at": entry.recorded_at.isoformat(),
        }
        for entry in events
    ]


def start(lake: Lake, entry: CanaryEntry) -> bool:
    """Record a start, and return False if another canary was started under the number."""
    return log(lake).append([entry], app_id=f"canary:{entry.model}", app_version=entry.number)


def judge(lake: Lake, entry: CanaryEntry) -> None:
    """Record a judgement, unless the newest judgement is the same."""
    of_number = next(canary for canary in of(lake, entry.model) if canary.started.number == entry.number)
    newest = of_number.judged
    if newest is not None and (newest.outcome, newest.labels, newest.results) == (entry.outcome, entry.labels, entry.results):
        return
    content = hashlib.sha256(json.dumps([entry.labels, entry.results], sort_keys=True, default=str).encode()).hexdigest()[:16]
    since = newest.recorded_at.isoformat() if newest else "first"
    log(lake).append([entry], app_id=f"judgement:{entry.model}:{entry.number}:{since}:{content}")


def stop_running(lake: Lake, model: str, *, by: str, reason: str) -> CanaryEntry | None:
    """Record the end of the running canary once, and return the valid entry, which another process may have written.

    :returns: None if no canary is running.
    """
    canaries = of(lake, model)
    if not canaries or canaries[-1].stopped is not None:
        return None
    started, newest = canaries[-1].started, canaries[-1].judged
    ended = replace(
        started,
        event=CanaryEvent.STOPPED,
        by=by,
        reason=reason,
        recorded_at=lake.now(),
        outcome=newest.outcome if newest else None,
        labels=newest.labels if newest else None,
    )
    log(lake).append([ended], app_id=f"canary-stop:{model}:{started.number}")
    return next(canary.stopped for canary in of(lake, model) if canary.started.number == started.number)


def _recorded(entries: list[CanaryEntry]) -> RecordedCanary:
    by_event = {
        event: sorted((entry for entry in entries if entry.event is event), key=lambda entry: entry.recorded_at)
        for event in CanaryEvent
    }
    judged, stopped = by_event[CanaryEvent.JUDGED], by_event[CanaryEvent.STOPPED]
    return RecordedCanary(by_event[CanaryEvent.STARTED][0], judged[-1] if judged else None, stopped[0] if stopped else None)


class Arm(str, Enum):
    """The role of a version in scoring."""

    CHAMPION = "champion"
    CHALLENGER = "challenger"


def in_canary(entities: pa.Array | pa.ChunkedArray, salt: str, share: Decimal) -> NDArray[np.bool_]:
    """Whether each entity belongs to the share that a canary scores.

    :param entities: keys as text, without NULL.
    :param salt: another text selects other entities.
    :param share: from 0 (none) to 1 (all).
    """
    if share >= 1:
        return np.ones(len(entities), bool)
    chosen: NDArray[np.bool_] = places(entities, salt) < np.uint64(int(share * 2**64))
    return chosen


def places(entities: pa.Array | pa.ChunkedArray, salt: str) -> NDArray[np.uint64]:
    """The position of each entity: numbers from 0 to 2**64 - 1, uniform over the entities."""
    key = hashlib.blake2b(salt.encode(), digest_size=8).hexdigest()  # the hash takes 16 characters
    keys = np.asarray(entities.to_numpy(zero_copy_only=False), dtype=object)
    # Categories would treat texts as equal that differ only after a NUL character.
    hashes: NDArray[np.uint64] = pd.util.hash_array(keys, hash_key=key, categorize=False)
    return hashes
