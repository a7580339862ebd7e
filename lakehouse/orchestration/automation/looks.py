"""Sensors and schedules by kind: one for all contracts, whose part for one source or one table of a metric is a *look*.

A deployment has as many looks as contracts, and a handful of sensors. A tick takes the looks in turn for some seconds, and the
next tick continues with the next look. A look that fails is reported and taken again, and the others are taken as usual. What
looks look for is in other modules (``landing_sensor``, ``follow_sensors``, ...), and how often a failed run is requested again in
``orchestration.plan_runs``. How looks share a tick and a cursor belongs here.

The cursor of a sensor holds a short digest for each look that had nothing to do, and what looks have to remember otherwise.
Earlier releases had a sensor for each look, of the look's name; the first tick takes over their cursors.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import time
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any

import dagster as dg

from lakehouse import locations
from lakehouse.bronze.file_completeness import Observations
from lakehouse.delta import commit_log, provenance
from lakehouse.lake.table_cache import look_again
from lakehouse.operations import pauses
from lakehouse.operations.alerts.run_rules import FailedLook
from lakehouse.orchestration import launcher, plan_runs, run_events
from lakehouse.orchestration.automation import ready
from lakehouse.orchestration.automation.ready import LOOK_TAG, Ready
from lakehouse.orchestration.dagster_internals import IMPLICIT_ASSET_JOB_NAME, InstigatorStatus, InstigatorType
from lakehouse.orchestration.resources import KeptTables, LakeTables
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from lakehouse.contracts import MetricContract, SourceContract
    from lakehouse.lake import Lake, Table
    from lakehouse.orchestration.dagster_internals import InstigatorData

#: How long a tick takes looks, in seconds: the daemon waits a minute for a tick.
_TICK_SECONDS = 20.0
#: Ticks of a sensor with many looks are further apart, a second for so many: an idle daemon then has little to do.
_LOOKS_A_SECOND = 250
_SHOWN = 5
#: The characters of a digest that tell the look, and those that tell its state.
_OF_LOOK, _OF_STATE = 4, 6
#: The greatest number of runs that a tick requests: the daemon submits them before its next tick.
_REQUESTS = 500
#: A look that has not returned for so many seconds hangs: the daemon has given its tick up.
_HANGS_SECONDS = 60.0
_LONGEST_ERROR = 500
#: The name under which a tick reports that pauses cannot be read.
PAUSES = "pauses"


@dataclass(frozen=True)
class Cursor:
    """The cursor of a sensor.

    :param idle_state: the fingerprint at which there was nothing to do.
    :param skip_reason: the sensor's message at that time.
    :param seen: the landing files that are still observed.
    """

    idle_state: str | None = None
    skip_reason: str = ""
    seen: Observations = field(default_factory=Observations)

    @staticmethod
    def read(text: str | None) -> Cursor:
        """Parse the cursor stored by an earlier tick; an empty one if the text is not a cursor."""
        try:
            fields = json.loads(text or "{}")
            return Cursor(fields.get("nothing_at"), fields.get("because", ""), Observations.from_json(fields.get("seen", {})))
        except (ValueError, TypeError, AttributeError):
            return Cursor()

    def __str__(self) -> str:
        # The keys are those of earlier versions, so that an update does not make every sensor read its tables.
        fields = {"nothing_at": self.idle_state, "because": self.skip_reason, "seen": self.seen.to_json()}
        return json.dumps({name: value for name, value in fields.items() if value})


def state_of(lake: Lake, tables: Iterable[Table], contracts: Iterable[SourceContract | MetricContract], *more: str) -> str:
    """The fingerprint of everything that determines a sensor's result: tables, contracts, the code, and ``more`` texts.

    A log that is gone is written again from ``ops/journal`` when it is read, so that the journal determines the result, too. On
    an object store the journal is read once per process, see ``ledger.log_table``.
    """
    tables = list(tables)
    if "://" not in lake.root and any(table.open() is None for table in tables):
        tables.append(locations.journal(lake))
    return commit_log.state_of(tables, provenance.code(), *map(provenance.of_contract, contracts), *more)


Answer = dg.RunRequest | dg.SkipReason | Ready


@dataclass
class LookContext:
    """What a look may use of its sensor's tick.

    :param before: what the look kept at an earlier tick; empty if it had nothing to do.
    :param idle: the digest of the look with the state at which it had nothing to do; None if there is none.
    :param suspects: returns the tables that failed in a shared run not long ago; read once in a tick.
    """

    tick: dg.SensorEvaluationContext | dg.ScheduleEvaluationContext
    name: str
    before: Cursor
    idle: str | None
    suspects: Callable[[], Collection[dg.AssetKey]]
    kept: Cursor | None = None
    is_taken: bool = False

    @property
    def instance(self) -> dg.DagsterInstance:
        return self.tick.instance

    @property
    def at(self) -> datetime | None:
        """When the tick of a schedule was due; None for a sensor."""
        return self.tick.scheduled_execution_time if isinstance(self.tick, dg.ScheduleEvaluationContext) else None

    def is_idle(self, state: str) -> bool:
        """Whether an earlier tick has found nothing to do at this state.

        :param state: the fingerprint of everything that the look depends on.
        """
        return self.before.idle_state == state or _digest(self.name, state) == self.idle

    def reason_at(self, state: str) -> str:
        """What the look has answered at this idle state; empty for its usual answer."""
        return self.before.skip_reason if self.before.idle_state == state else ""

    def newest(self, state: Callable[[], str]) -> tuple[str, bool]:
        """The state, and whether it is idle. If not, tables are looked up again: a tick otherwise sees each table once.

        The state is read before what it stands for: a write in between changes it, so that the next tick looks again.
        """
        now = state()
        if self.is_idle(now):
            return now, True
        look_again()
        return state(), False

    def keep(self, cursor: Cursor) -> None:
        """Remember a cursor until the look keeps another one."""
        self.kept = cursor


@dataclass(frozen=True)
class Look:
    """What a sensor does for one source or one table of a metric.

    :param name: the name of its sensor in earlier releases, such as ``landing_sales``; its runs have it in :data:`LOOK_TAG`.
    :param subject: the asset that it is about, such as ``bronze/sales``.
    :param contract: what is paused with it, as in ``operations.pauses``; None if it looks on during a pause.
    :param nothing: what it answers if there is nothing to do.
    :param take: answers with requests of runs, or with reasons why there are none.
    :param waits_for: the sources during whose planned backfills it requests nothing.
    """

    name: str
    subject: str
    contract: str | None
    nothing: str
    take: Callable[[LookContext, Lake], Iterable[Answer]]
    waits_for: Sequence[str] = ()


@dataclass
class LooksCursor:
    """The cursor of a sensor with many looks.

    :param idle: a digest of each look that had nothing to do, with its state, by the part that tells the look.
    :param kept: the cursors of other looks, by name.
    :param failed: the looks that failed, by name.
    :param paused: the pauses that held, by contract.
    :param following: the look with which the next tick begins; None for the first one.
    """

    idle: dict[str, str] = field(default_factory=dict)
    kept: dict[str, Cursor] = field(default_factory=dict)
    failed: dict[str, FailedLook] = field(default_factory=dict)
    paused: dict[str, str] = field(default_factory=dict)
    following: str | None = None

    @staticmethod
    def read(text: str | None) -> LooksCursor | None:
        """Parse the cursor of an earlier tick; None if it is none."""
        try:
            fields = json.loads(text or "")
            text, size, kept = fields["idle"], _OF_LOOK + _OF_STATE, fields.get("looks", {})
            digests = [text[begin : begin + size] for begin in range(0, len(text), size)]
            return LooksCursor(
                {digest[:_OF_LOOK]: digest for digest in digests},
                {name: Cursor.read(json.dumps(cursor)) for name, cursor in kept.items()},
                {name: _failed(one) for name, one in fields.get("failed", {}).items()},
                dict(fields.get("paused", {})),
                fields.get("next"),
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    def __str__(self) -> str:
        kept = {name: json.loads(f"{cursor}") for name, cursor in sorted(self.kept.items())}
        failed = {name: {**asdict(one), "since": one.since.isoformat()} for name, one in sorted(self.failed.items())}
        fields: dict[str, Any] = {"looks": kept, "failed": failed, "paused": self.paused, "next": self.following}
        return json.dumps(
            {"idle": "".join(sorted(self.idle.values()))} | {name: value for name, value in fields.items() if value}
        )


@dataclass(frozen=True)
class LookKind:
    """All looks of a kind, which share a sensor or a schedule.

    :param name: the name of the sensor or schedule.
    :param seconds: for a sensor, the least number of seconds between two ticks.
    :param jobs: the jobs that its runs are of; by default runs materialize assets.
    :param cron: for a schedule, its times.
    """

    name: str
    description: str
    looks: Sequence[Look]
    seconds: int = 30
    jobs: Sequence[dg.JobDefinition] = ()
    cron: str | None = None
    timezone: str = "UTC"

    def of(self, look: str) -> LookKind:
        """The same kind with a single look."""
        return replace(self, looks=[one for one in self.looks if one.name == look])


def sensor_of(lake: Lake, kind: LookKind) -> dg.SensorDefinition:
    """The sensor of all looks of a kind."""
    kept, looks, taking = KeptTables(lake), kind.looks, _Taking()

    @dg.sensor(
        name=kind.name,
        minimum_interval_seconds=kind.seconds + len(looks) // _LOOKS_A_SECOND,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=kind.description,
        **({"jobs": list(kind.jobs)} if kind.jobs else {"job_name": IMPLICIT_ASSET_JOB_NAME}),
    )
    def sense(context: dg.SensorEvaluationContext, tables: LakeTables) -> dg.SensorResult:
        with kept.reading(tables, context.instance) as reading:
            earlier = LooksCursor.read(context.cursor)
            if earlier is None:
                take_over_pauses(context.instance, reading, contracts_of(looks), InstigatorType.SENSOR)
                earlier = _taken_over(context.instance, looks)
            tick = Tick(context, earlier, taking=taking)
            tick.take(reading, looks, _TICK_SECONDS)
            tick.divide(share=lake.settings.shared_runs)
        reason = None if tick.requests else tick.reason(looks)
        return dg.SensorResult(run_requests=tick.requests, skip_reason=reason, cursor=f"{tick.cursor(looks)}")

    return sense


class _Taking:
    """The looks that a process is taking for a sensor, so that the next tick passes over those that hang."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        self._since[name] = time.monotonic()
        try:
            yield
        finally:
            self._since.pop(name, None)

    def hanging(self) -> set[str]:
        """The looks that do not return."""
        now = time.monotonic()
        return {name for name, since in list(self._since.items()) if now - since >= _HANGS_SECONDS}


@dataclass
class Tick:
    """Looks, taken one after the other for some seconds."""

    context: dg.SensorEvaluationContext | dg.ScheduleEvaluationContext
    earlier: LooksCursor
    requests: list[dg.RunRequest] = field(default_factory=list)
    ready: list[tuple[str, Ready]] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    contexts: dict[str, LookContext] = field(default_factory=dict)
    failed: dict[str, FailedLook] = field(default_factory=dict)
    paused: dict[str, str] = field(default_factory=dict)
    following: str | None = None
    taking: _Taking = field(default_factory=_Taking)

    def take(self, reading: Lake, looks: Sequence[Look], seconds: float = math.inf) -> None:
        """Take the looks in turn for so many seconds, but at least one."""
        end = time.monotonic() + seconds
        with reading.step():
            paused, hanging = self._pauses(reading), self.taking.hanging()
            for look in _in_turn(looks, self.earlier.following):
                if look.name in hanging:
                    self._context_of(look)
                    self._fail(look.name, look.subject, TimeoutError("a look has not ended for a minute or longer"))
                    continue
                if self.contexts and (time.monotonic() >= end or len(self.requests) + len(self.ready) >= _REQUESTS):
                    self.following = look.name
                    return
                if look.contract in paused:
                    self._context_of(look)
                    self.reasons[look.name] = paused[look.contract]
                else:
                    self._take(reading, look)

    def _pauses(self, reading: Lake) -> dict[str, str]:
        """The pauses that hold, as texts by contract; those of the tick before if they cannot be read, which is reported."""
        try:
            self.paused = {contract: f"{pause}" for contract, pause in pauses.paused(reading).items()}
        except Exception as problem:
            if isinstance(self.context, dg.ScheduleEvaluationContext):
                raise  # it remembers none: it starts nothing that a person may have paused
            self.paused = self.earlier.paused
            self._fail(PAUSES, "ops/pauses", problem)
        return self.paused

    def _fail(self, name: str, subject: str, problem: Exception) -> None:
        earlier = self.earlier.failed.get(name)
        since = earlier.since if earlier else datetime.now(timezone.utc)
        self.failed[name] = FailedLook(name, subject, f"{type(problem).__name__}: {problem}"[:_LONGEST_ERROR], since)
        self.context.log.error("%s failed", name, exc_info=problem)

    def _take(self, reading: Lake, look: Look) -> None:
        context = self._context_of(look)
        try:
            if any(plan_runs.is_backfill_running(reading, source) for source in look.waits_for):
                self.reasons[look.name] = plan_runs.BACKFILL_RUNNING
                return
            with self.taking.of(look.name):
                answers = list(look.take(context, reading))
            context.is_taken = True
        except Exception as problem:  # noqa: BLE001 - whatever is wrong with one contract or table, the others go on
            context.kept = None
            self._fail(look.name, look.subject, problem)
            return
        requests = [answer for answer in answers if isinstance(answer, dg.RunRequest)]
        self.requests += [request.with_replaced_attrs(tags={**request.tags, LOOK_TAG: look.name}) for request in requests]
        self.ready += [(look.name, answer.without(self.paused)) for answer in answers if isinstance(answer, Ready)]
        reasons = [answer.skip_message or "" for answer in answers if isinstance(answer, dg.SkipReason)]
        if reasons:
            self.reasons[look.name] = reasons[-1]

    @cached_property
    def suspects(self) -> set[dg.AssetKey]:
        """The tables that failed in a shared run not long ago."""
        return ready.suspects(self.context.instance)

    def divide(self, *, share: bool) -> None:
        """Request the runs for what is ready; what waits for a place is found again by the next tick.

        :param share: whether several tables share a run.
        """
        if self.ready:
            runs = self.context.instance.get_runs(dg.RunsFilter(statuses=plan_runs.RUNNING))
            active = launcher.still_alive(self.context.instance, runs)
            work = [(look, each.suspected(self.suspects) if share else each) for look, each in self.ready]
            division = ready.divide(work, active, plan_runs.places(self.context.instance), share=share)
            self.requests += division.requests
            self.reasons |= division.waiting
            no_place = [look for look, why in division.waiting.items() if why == ready.NO_PLACE]
            self.following = self.following or next(iter(no_place), None)
            selected = {key for request in division.requests for key in request.asset_selection or ()}
            launcher.limit_pools(self.context.instance, map(run_events.pool_of, selected))

    def _context_of(self, look: Look) -> LookContext:
        before, idle = self.earlier.kept.get(look.name, Cursor()), self.earlier.idle.get(_hash(look.name, _OF_LOOK))
        self.contexts[look.name] = LookContext(self.context, look.name, before, idle, lambda: self.suspects)
        return self.contexts[look.name]

    def cursor(self, looks: Sequence[Look]) -> LooksCursor:
        """What the next tick has to know: of a look that was not taken, what is known already."""
        kept = {look.name: self.earlier.kept[look.name] for look in looks if look.name in self.earlier.kept}
        idle: dict[str, str] = {}
        for look in looks:
            of_look, context = _hash(look.name, _OF_LOOK), self.contexts.get(look.name)
            if context is None or not context.is_taken:
                idle |= {of_look: self.earlier.idle[of_look]} if of_look in self.earlier.idle else {}
                continue
            cursor = context.kept
            if cursor and cursor.idle_state is not None and cursor.skip_reason in {"", look.nothing} and not cursor.seen.since:
                idle[of_look] = _digest(look.name, cursor.idle_state)
                kept.pop(look.name, None)
            elif cursor:
                kept[look.name] = cursor
        untaken = {look.name for look in looks} - self.contexts.keys()
        failed = {name: one for name, one in self.earlier.failed.items() if name in untaken} | self.failed
        return LooksCursor(idle, kept, failed, self.paused, self.following)

    def reason(self, looks: Sequence[Look]) -> str:
        """Why nothing is requested: what failed, and the reasons of looks that have one of their own."""
        if len(looks) == 1 and not self.failed:
            return self.reasons.get(looks[0].name, looks[0].nothing)
        subjects: dict[str, list[str]] = defaultdict(list)
        for look in looks:
            failed = self.failed.get(look.name)
            text = failed.error.splitlines()[0] if failed else self.reasons.get(look.name, look.nothing)
            if look.name in self.contexts and text != look.nothing:
                subjects[text].append(look.subject)
        if PAUSES in self.failed:
            subjects[self.failed[PAUSES].error.splitlines()[0]].append("ops/pauses")
        texts = [f"{join_limited(names, _SHOWN)}: {text}" for text, names in subjects.items()]
        idle = len(self.contexts) - sum(map(len, subjects.values())) + (PAUSES in self.failed)
        if idle:
            texts.append(f"nothing to do for {idle} of {len(looks)}" if texts else f"nothing to do for all {len(looks)}")
        return join_limited(texts, _SHOWN, " remarks")


def _failed(fields: dict[str, str]) -> FailedLook:
    return FailedLook(fields["look"], fields["subject"], fields["error"], datetime.fromisoformat(fields["since"]))


def _in_turn(looks: Sequence[Look], first: str | None) -> Iterator[Look]:
    """The looks from the first one on, then those before it."""
    begin = next((number for number, look in enumerate(looks) if look.name == first), 0)
    yield from looks[begin:]
    yield from looks[:begin]


def _digest(name: str, state: str) -> str:
    """Tells the look, and its state."""
    return _hash(name, _OF_LOOK) + _hash(f"{name}|{state}", _OF_STATE)


def _hash(text: str, size: int) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())[:size].decode()


def contracts_of(looks: Iterable[Look]) -> dict[str, str]:
    """The contract of each look that has one."""
    return {look.name: look.contract for look in looks if look.contract is not None}


def _taken_over(instance: dg.DagsterInstance, looks: Sequence[Look]) -> LooksCursor:
    """The cursors that the sensors of an earlier release have left, one for each look."""
    earlier = _instigators(instance, [look.name for look in looks], InstigatorType.SENSOR)
    return LooksCursor(kept={name: Cursor.read(getattr(data, "cursor", None)) for name, data in earlier.items()})


def take_over_pauses(instance: dg.DagsterInstance, lake: Lake, contracts: Mapping[str, str], kind: InstigatorType) -> None:
    """Pause what the stopped sensors or schedules of an earlier release were about, once.

    :param contracts: what each of them was about.
    """
    stopped = _instigators(instance, contracts, kind, {InstigatorStatus.STOPPED})
    known = {entry.contract for entry in pauses.log(lake).read()} if stopped else set()
    for contract in sorted({contracts[name] for name in stopped} - known):
        names = [name for name in stopped if contracts[name] == contract]
        with suppress(pauses.PauseError):  # another sensor's tick was faster
            pauses.pause(lake, contract, "Dagster", f"a person had stopped {join_limited(names, _SHOWN)}")


def running_sensors(instance: dg.DagsterInstance, names: Collection[str]) -> dict[str, InstigatorData | None]:
    """What Dagster knows of sensors that nobody has stopped, such as the cursor and the last tick, by name."""
    return _instigators(instance, names, InstigatorType.SENSOR, {InstigatorStatus.RUNNING, InstigatorStatus.DECLARED_IN_CODE})


def _instigators(
    instance: dg.DagsterInstance, names: Collection[str], kind: InstigatorType, statuses: set[InstigatorStatus] | None = None
) -> dict[str, InstigatorData | None]:
    """Sensors or schedules that have ticked, or that a person has started or stopped, by name."""
    if instance.schedule_storage is None:
        return {}
    states = instance.all_instigator_state(instigator_type=kind, instigator_statuses=statuses)
    states = sorted(states, key=lambda state: getattr(state.instigator_data, "last_tick_timestamp", None) or 0)
    known = {state.instigator_name: state.instigator_data for state in states}  # of several code locations the one that ticks
    return {name: known[name] for name in sorted(known) if name in names}
