"""``ops/stages``: what was staged, by whom and why, the newest validation, and the outcome.

Belongs here: the log, the state of a stage, and the report of a validation as plain data. The report has the changes that a stage
would make to rows, numbers and longer periods, and the thresholds that they exceed. It is computed in ``validation``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from datetime import date  # noqa: TC003 (pydantic reads it)
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from lakehouse import locations
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers.comparison import Sides, added
from lakehouse.ledger import redactions
from lakehouse.ledger.log_table import LogTable
from lakehouse.silver import audit_log

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from lakehouse.gold.numbers.comparison import Number
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
    """Every stage, or those of a source, by time of creation; redacted values in their reports are masked."""
    by_name: dict[str, list[StageEvent]] = {}
    for event in sorted(log(lake).read(), key=lambda event: event.number):
        by_name.setdefault(event.name, []).append(event)
    known = [events for events in by_name.values() if source in {None, events[0].source}]
    hidden = {name: audit_log.redacted_fields(redactions.all_of(lake, name)) for name in {events[0].source for events in known}}
    stages = [Stage([_masked(event, hidden[event.source]) for event in events]) for events in known]
    return sorted(stages, key=lambda stage: (stage.created.recorded_at, stage.name))


def _masked(event: StageEvent, hidden: Mapping[str, Collection[str]]) -> StageEvent:
    """The event with the redacted fields of the sampled keys masked.

    :param hidden: the redacted fields by key.
    """
    if event.report is None or not hidden:
        return event
    report = StageReport.model_validate_json(event.report)
    samples = [
        SampledRow(
            record_key=row.record_key,
            before=_masked_rows(row.before, hidden.get(row.record_key, ())),
            after=_masked_rows(row.after, hidden.get(row.record_key, ())),
        )
        for row in report.samples
    ]
    return replace(event, report=report.model_copy(update={"samples": samples}).model_dump_json())


def _masked_rows(rows: Iterable[str], fields: Collection[str]) -> list[str]:
    return [json.dumps(audit_log.masked_values(json.loads(row), fields), ensure_ascii=False) if fields else row for row in rows]


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


#: The changes, in percent, of a measure on one day, and over all changed days together, above which a person must sign off.
DAY_THRESHOLD, SET_THRESHOLD = Decimal(50), Decimal(10)
#: The greatest number of changed days of a metric that are listed; all of them are counted and judged.
LISTED_DAYS = 366


class _ReportPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SampledRow(_ReportPart):
    """A key whose rows differ: its rows now and as staged, each as JSON of the content columns."""

    record_key: str
    before: list[str]
    after: list[str]


class ChangedDay(_ReportPart):
    """A day whose number would change: each measure before and after; None where it has none."""

    day: date
    state: str | None
    measures: dict[str, tuple[Any, Any]]


class ChangedSeries(_ReportPart):
    """The numbers of a metric that would change.

    :ivar days: at most :data:`LISTED_DAYS` of them, ``days_changed`` counts all.
    :ivar totals: each additive measure over all changed days, before and after.
    :ivar rollups: by series, the longer periods that contain a changed day.
    :ivar held: per day, the blocking checks that its number fails, with their explanations.
    :ivar kept: the days that a person has reverted to an earlier number: they would keep it.
    :ivar exceeded: a sentence for each exceeded threshold.
    """

    series: str
    days_changed: int
    first_day: date | None
    last_day: date | None
    days: list[ChangedDay]
    totals: dict[str, tuple[Any, Any]]
    rollups: dict[str, list[str]]
    consumers: list[str]
    held: dict[date, dict[str, str]]
    kept: list[date]
    exceeded: list[str]
    final_days: int = 0


class StageReport(_ReportPart):
    """The changes that a stage would make to the tables as they were.

    :ivar silver_version: the version of silver that it was compared with.
    :ivar rows_staged: the rows of the staged input: ``rows_malformed`` are malformed, ``rows_waiting`` wait for a steward.
    :ivar days: the event days whose silver rows would change.
    :ivar rows: rows and keys before and after, and the number of new, missing and changed keys (see ``snapshots.comparison``).
    :ivar fields: by field, the rows with a value and the totals, before and after.
    :ivar samples: a sample of the changed keys, chosen by ``seed``.
    """

    silver_version: int
    rows_staged: int
    rows_malformed: int
    rows_waiting: int
    days: list[date]
    rows: dict[str, Any]
    fields: dict[str, Any]
    samples: list[SampledRow]
    seed: int
    series: list[ChangedSeries]
    day_threshold: Decimal
    set_threshold: Decimal

    @property
    def objections(self) -> list[str]:
        """The sentences that a person must sign off before the stage may be promoted."""
        found = [sentence for one in self.series for sentence in one.exceeded]
        for one in self.series:
            found += [f"{one.series} {day}: {name}: {text}" for day, failed in one.held.items() for name, text in failed.items()]
        return found


def exceeded(
    series: str,
    days: Mapping[date, Mapping[str, Sides]],
    totals: Mapping[str, Sides],
    day_threshold: Decimal,
    set_threshold: Decimal,
) -> list[str]:
    """A sentence for each measure of a day, and for each total, that changes by more than a threshold.

    A day without a previous number is not judged by itself: it has no value to compare with.
    """
    sentences = []
    for day, measures in sorted(days.items()):
        for name, sides in measures.items():
            if sides.before is not None and sides.exceeds(percent=day_threshold):
                sentences.append(f"{series} {day}: {_moved(name, sides)}, more than {day_threshold} %")
    for name, sides in totals.items():
        if sides.before is not None and sides.exceeds(percent=set_threshold):
            count = f"{len(days):,} {'day' if len(days) == 1 else 'days'} together"
            sentences.append(f"{series}, {count}: {_moved(name, sides)}, more than {set_threshold} %")
    return sentences


def totals_of(days: Iterable[Mapping[str, Sides]], names: Sequence[str]) -> dict[str, Sides]:
    """The sums over days of additive measures."""
    listed = list(days)
    return {
        name: Sides(added(sides[name].before for sides in listed), added(sides[name].after for sides in listed)) for name in names
    }


def _moved(name: str, sides: Sides) -> str:
    percent = "" if sides.percent is None else f" ({sides.percent:+} %)"
    return f"{name} goes from {_shown(sides.before)} to {_shown(sides.after)}{percent}"


def _shown(value: Number | None) -> str:
    return "nothing" if value is None else f"{value:,}"
