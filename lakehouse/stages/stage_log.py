"""``ops/stages``: what was staged, by whom and why, the newest validation, and the outcome.

Belongs here: the log, and the state of a stage. The content of a stage is computed in ``side_rows`` and ``side_numbers``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.errors import LakehouseError
from lakehouse.ledger.log_table import LogTable
from lakehouse.stages.stage_report import StageReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lakehouse.lake import Lake

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class StageError(LakehouseError):
    """A stage that is unknown, or cannot be created, promoted, undone or dropped. The message says what to do."""


class StageKind(str, Enum):
    """The kind of input that a stage changes."""

    FILES = "files"
    REPARSE = "reparse"
    CONTRACT = "contract"


class StageEventKind(str, Enum):
    """The events of a stage; its newest event other than a validation is its state."""

    CREATED = "created"
    VALIDATED = "validated"
    PROMOTING = "promoting"
    PROMOTED = "promoted"
    UNDONE = "undone"
    DROPPED = "dropped"


@dataclass(frozen=True)
class StageEvent:
    """An event of a stage.

    ``number`` counts the events of a stage from 1; ``described`` is a description for people; ``about`` has the arguments that
    the stage is computed from, and ``contracts`` the versions of the contracts under which it was computed; ``report`` is the
    :class:`StageReport` of a creation or validation, as JSON; ``sign_off`` is the reason why exceeded thresholds were accepted.
    """

    name: str
    number: int
    event: StageEventKind
    source: str
    kind: StageKind
    described: str
    by: str
    reason: str
    recorded_at: datetime
    about: Mapping[str, str] = field(default_factory=dict)
    contracts: Mapping[str, str] = field(default_factory=dict)
    report: str | None = None
    sign_off: str | None = None


@dataclass(frozen=True)
class Stage:
    """A stage with all its events, oldest first."""

    events: Sequence[StageEvent]

    @property
    def created(self) -> StageEvent:
        """The event of its creation."""
        return self.events[0]

    @property
    def name(self) -> str:
        """Its name."""
        return self.created.name

    @property
    def source(self) -> str:
        """The source whose input it changes."""
        return self.created.source

    @property
    def validated(self) -> StageEvent:
        """The newest event with a report."""
        return next(event for event in reversed(self.events) if event.report is not None)

    @property
    def report(self) -> StageReport:
        """The newest report of the changes that the stage would make."""
        return StageReport.model_validate_json(self.validated.report or "")

    @property
    def state(self) -> StageEventKind:
        """The state of the stage: its last event; a validated stage is in the state created."""
        newest = self.events[-1].event
        return StageEventKind.CREATED if newest is StageEventKind.VALIDATED else newest

    @property
    def changed_metric(self) -> str | None:
        """The metric whose contract is staged; None for other stages."""
        return self.created.about.get("metric")

    @property
    def run_name(self) -> str:
        """The name of its runs, commits, audit rows and publications."""
        return run_name(self.name)


def run_name(name: str) -> str:
    """The name of the runs of a stage."""
    return f"stage {name}"


def log(lake: Lake) -> LogTable[StageEvent]:
    """The table."""
    return LogTable(StageEvent, lake, locations.stages(lake), journaled=True)


def all_of(lake: Lake, source: str | None = None) -> list[Stage]:
    """Every stage, or those of a source, by time of creation."""
    by_name: dict[str, list[StageEvent]] = {}
    for event in sorted(log(lake).read(), key=lambda event: event.number):
        by_name.setdefault(event.name, []).append(event)
    stages = [Stage(events) for events in by_name.values() if source in {None, events[0].source}]
    return sorted(stages, key=lambda stage: (stage.created.recorded_at, stage.name))


def find(lake: Lake, name: str) -> Stage:
    """The stage named ``name``.

    :raises StageError: if there is none.
    """
    stages = {stage.name: stage for stage in all_of(lake)}
    if name not in stages:
        msg = f"there is no stage {name}; known are {', '.join(stages) or 'none'}"
        raise StageError(msg)
    return stages[name]


def check_free(lake: Lake, name: str) -> None:
    """:raises StageError: for a name that is no file name, or that is already in use or was used before: names are never
    reused.
    """
    if not _NAME.fullmatch(name):
        msg = f"{name!r} is no name of a stage: write letters, digits, '.', '_' and '-', such as feed_v1.3_2024-11-10"
        raise StageError(msg)
    taken = next((stage for stage in all_of(lake) if stage.name == name), None)
    if taken is not None:
        msg = f"the name {name} is taken by a stage of {taken.source} ({taken.state.value}): a name is never given again"
        raise StageError(msg)


def record(lake: Lake, event: StageEvent) -> None:
    """Append an event.

    :raises StageError: if another command has recorded an event of the same stage meanwhile.
    """
    if not log(lake).append([event], app_id=f"stage:{event.name}", app_version=event.number):
        msg = f"another command has changed the stage {event.name} meanwhile: look at it with 'lakehouse stage show {event.name}'"
        raise StageError(msg)
