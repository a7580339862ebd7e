"""Sensors and schedules by kind: one for all contracts, whose part for one source or one table of a metric is a *look*.

A deployment has as many looks as contracts, and a handful of sensors. A tick takes the looks in turn for some seconds, and the
next tick continues with the next look. A look that fails is reported and taken again, and the others are taken as usual. What
looks look for is in other modules (``landing_sensor``, ``follow_sensors``, ...); how they share a tick and a cursor, and which
runs they request, belongs here.

The cursor of a sensor holds a short digest for each look that had nothing to do, and what looks have to remember otherwise.
Earlier releases had a sensor for each look, of the look's name; the first tick takes over their cursors.

A look requests new runs, and failed ones up to a number of attempts. A tag on each run names its *cause*. The daemon never starts
a run key twice, even if its run has failed. So the key contains the number of the attempt, and a repeated tick requests the same
keys.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import dagster as dg

from lakehouse import locations
from lakehouse.bronze.file_completeness import Observations
from lakehouse.delta import commit_log, provenance
from lakehouse.errors import LakehouseError
from lakehouse.lake.table_cache import look_again
from lakehouse.operations import pauses
from lakehouse.operations.alerts.run_rules import FailedLook
from lakehouse.orchestration.dagster_internals import IMPLICIT_ASSET_JOB_NAME, MAX_RETRIES_TAG, InstigatorStatus, InstigatorType
from lakehouse.orchestration.plan_runs import BACKFILL_RUNNING, is_backfill_running
from lakehouse.orchestration.resources import KeptTables, LakeTables
from lakehouse.text import join_limited

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from lakehouse.contracts import MetricContract, SourceContract
    from lakehouse.lake import Lake, Table

#: How long a tick takes looks, in seconds: the daemon waits a minute for a tick.
_TICK_SECONDS = 20.0
#: Ticks of a sensor with many looks are further apart, a second for so many: an idle daemon then has little to do.
_LOOKS_A_SECOND = 200
_SHOWN = 5
_DIGEST = 8


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


Answer = dg.RunRequest | dg.SkipReason


@dataclass
class LookContext:
    """What a look may use of its sensor's tick.

    :param before: what the look kept at an earlier tick; empty if it had nothing to do.
    :param at: when the tick of a schedule was due.
    """

    tick: dg.SensorEvaluationContext | dg.ScheduleEvaluationContext
    name: str
    before: Cursor
    idle: frozenset[str]
    at: datetime | None = None
    kept: Cursor | None = None

    @property
    def instance(self) -> dg.DagsterInstance:
        return self.tick.instance

    @property
    def log(self) -> logging.Logger:
        return self.tick.log

    def is_idle(self, state: str) -> bool:
        """Whether an earlier tick has found nothing to do at this state.

        :param state: the fingerprint of everything that the look depends on.
        """
        return self.before.idle_state == state or _digest(self.name, state) in self.idle

    @staticmethod
    def look_again() -> None:
        """Look at each table once more, before deciding what to start: a tick otherwise sees each table once."""
        look_again()

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

    :param idle: digests of the looks that had nothing to do, each with its state.
    :param kept: the cursors of other looks, by name.
    :param failed: the looks that failed, by name.
    :param following: the look with which the next tick begins; None for the first one.
    """

    idle: frozenset[str] = frozenset()
    kept: dict[str, Cursor] = field(default_factory=dict)
    failed: dict[str, FailedLook] = field(default_factory=dict)
    following: str | None = None

    @staticmethod
    def read(text: str | None) -> LooksCursor | None:
        """Parse the cursor of an earlier tick; None if it is none."""
        try:
            fields = json.loads(text or "")
            digests, kept = fields["idle"], fields.get("looks", {})
            idle = frozenset(digests[begin : begin + _DIGEST] for begin in range(0, len(digests), _DIGEST))
            return LooksCursor(
                idle,
                {name: Cursor.read(json.dumps(cursor)) for name, cursor in kept.items()},
                {name: _failed(one) for name, one in fields.get("failed", {}).items()},
                fields.get("next"),
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    def __str__(self) -> str:
        kept = {name: json.loads(f"{cursor}") for name, cursor in sorted(self.kept.items())}
        failed = {name: {**asdict(one), "since": one.since.isoformat()} for name, one in sorted(self.failed.items())}
        fields: dict[str, Any] = {"looks": kept, "failed": failed, "next": self.following}
        return json.dumps({"idle": "".join(sorted(self.idle))} | {name: value for name, value in fields.items() if value})


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
    kept, looks = KeptTables(lake), kind.looks

    @dg.sensor(
        name=kind.name,
        minimum_interval_seconds=kind.seconds + len(looks) // _LOOKS_A_SECOND,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=kind.description,
        **({"jobs": list(kind.jobs)} if kind.jobs else {"job_name": IMPLICIT_ASSET_JOB_NAME}),
    )
    def sense(context: dg.SensorEvaluationContext, tables: LakeTables) -> dg.SensorResult:
        with kept.reading(tables) as reading:
            tick = _Tick(context, LooksCursor.read(context.cursor) or _taken_over(context.instance, reading, looks))
            tick.take(reading, looks, _TICK_SECONDS)
        reason = None if tick.requests else tick.reason(looks)
        return dg.SensorResult(run_requests=tick.requests, skip_reason=reason, cursor=f"{tick.cursor(looks)}")

    return sense


@dataclass
class _Tick:
    """Looks, taken one after the other for some seconds."""

    context: dg.SensorEvaluationContext | dg.ScheduleEvaluationContext
    earlier: LooksCursor
    requests: list[dg.RunRequest] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    contexts: dict[str, LookContext] = field(default_factory=dict)
    failed: dict[str, FailedLook] = field(default_factory=dict)
    following: str | None = None
    at: datetime | None = None

    def take(self, reading: Lake, looks: Sequence[Look], seconds: float | None = None) -> None:
        """Take the looks in turn, for so many seconds if there is a limit, but at least one."""
        end = time.monotonic() + (seconds if seconds is not None else math.inf)
        with reading.step():
            paused = pauses.paused(reading)
            for look in _in_turn(looks, self.earlier.following):
                if self.contexts and time.monotonic() >= end:
                    self.following = look.name
                    return
                is_backfilled = any(is_backfill_running(reading, source) for source in look.waits_for)
                if is_backfilled or look.contract in paused:
                    self.contexts[look.name] = LookContext(self.context, look.name, Cursor(), self.earlier.idle)
                    self.reasons[look.name] = BACKFILL_RUNNING if is_backfilled else f"{paused[look.contract or '']}"
                else:
                    self._take(reading, look)

    def _take(self, reading: Lake, look: Look) -> None:
        before = self.earlier.kept.get(look.name, Cursor())
        context = LookContext(self.context, look.name, before, self.earlier.idle, self.at)
        self.contexts[look.name] = context
        try:
            answers = list(look.take(context, reading))
        except Exception as problem:  # whatever is wrong with one contract or table, the others go on
            earlier = self.earlier.failed.get(look.name)
            since = earlier.since if earlier else datetime.now(timezone.utc)
            self.failed[look.name] = FailedLook(look.name, look.subject, f"{type(problem).__name__}: {problem}", since)
            self.context.log.exception("%s failed", look.name)
            return
        requests = [answer for answer in answers if isinstance(answer, dg.RunRequest)]
        self.requests += [request.with_replaced_attrs(tags={**request.tags, LOOK_TAG: look.name}) for request in requests]
        reasons = [answer.skip_message or "" for answer in answers if isinstance(answer, dg.SkipReason)]
        if reasons:
            self.reasons[look.name] = reasons[-1]

    def cursor(self, looks: Sequence[Look]) -> LooksCursor:
        """What the next tick has to know."""
        kept = {look.name: self.earlier.kept[look.name] for look in looks if look.name in self.earlier.kept}
        idle = set[str]()
        for look in looks:
            cursor = self.contexts[look.name].kept if look.name in self.contexts else None
            if cursor is None:
                continue
            if cursor.idle_state is not None and cursor.skip_reason in {"", look.nothing} and not cursor.seen.since:
                idle.add(_digest(look.name, cursor.idle_state))
                kept.pop(look.name, None)
            else:
                kept[look.name] = cursor
        if len(idle) + len(kept) < len(looks):  # of looks that were not taken, or kept nothing; a digest stays true for good
            idle |= set(sorted(self.earlier.idle)[: 4 * len(looks)])
        untaken = {look.name for look in looks} - self.contexts.keys()
        failed = {name: one for name, one in self.earlier.failed.items() if name in untaken} | self.failed
        return LooksCursor(frozenset(idle), kept, failed, self.following)

    def reason(self, looks: Sequence[Look]) -> str:
        """Why nothing is requested: what failed, and what is said of looks that have something to say."""
        if len(looks) == 1 and not self.failed:
            return self.reasons.get(looks[0].name, looks[0].nothing)
        subjects: dict[str, list[str]] = defaultdict(list)
        for look in looks:
            failed = self.failed.get(look.name)
            said = failed.error.splitlines()[0] if failed else self.reasons.get(look.name, look.nothing)
            if look.name in self.contexts and said != look.nothing:
                subjects[said].append(look.subject)
        texts = [f"{join_limited(names, _SHOWN, ' more')}: {said}" for said, names in subjects.items()]
        idle = len(self.contexts) - sum(map(len, subjects.values()))
        if idle:
            texts.append(f"nothing to do for {idle} of {len(looks)}" if texts else f"nothing to do for all {len(looks)}")
        return join_limited(texts, _SHOWN, " remarks")


def schedule_of(lake: Lake, kind: LookKind) -> dg.ScheduleDefinition:
    """The schedule of all looks of a kind."""

    @dg.schedule(
        name=kind.name,
        job_name=IMPLICIT_ASSET_JOB_NAME,
        cron_schedule=kind.cron or "",
        execution_timezone=kind.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=kind.description,
    )
    def look(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        return _requests_of(kind.looks, context, lake.cached())

    return look


def _requests_of(
    looks: Sequence[Look], context: dg.ScheduleEvaluationContext, reading: Lake
) -> list[dg.RunRequest] | dg.SkipReason:
    """The runs that looks request at a tick of a schedule, which has no cursor; or the reason why there are none.

    :raises LooksFailedError: if looks failed, and none requests a run.
    """
    tick = _Tick(context, LooksCursor(), at=context.scheduled_execution_time)
    tick.take(reading, looks)
    if tick.requests:
        return tick.requests
    if tick.failed:
        raise LooksFailedError(tick.reason(looks))
    return dg.SkipReason(tick.reason(looks))


class LooksFailedError(LakehouseError):
    """Looks of a schedule failed. The message names each with its error."""


def failed_looks(instance: dg.DagsterInstance, kinds: Iterable[LookKind]) -> list[FailedLook]:
    """The looks of sensors that failed when they were last taken."""
    known = {kind.name: {look.name for look in kind.looks} for kind in kinds if kind.cron is None}
    failed: dict[str, FailedLook] = {}
    for kind, text in _sensors(instance, known).items():
        cursor = LooksCursor.read(text)
        if cursor is not None:
            failed |= {name: one for name, one in cursor.failed.items() if name in known[kind]}
    return [failed[name] for name in sorted(failed)]


def _failed(fields: dict[str, str]) -> FailedLook:
    return FailedLook(fields["look"], fields["subject"], fields["error"], datetime.fromisoformat(fields["since"]))


def _in_turn(looks: Sequence[Look], first: str | None) -> Iterator[Look]:
    """The looks from the first one on, then those before it."""
    begin = next((number for number, look in enumerate(looks) if look.name == first), 0)
    yield from looks[begin:]
    yield from looks[:begin]


def _digest(name: str, state: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(f"{name}|{state}".encode()).digest())[:_DIGEST].decode()


def _taken_over(instance: dg.DagsterInstance, lake: Lake, looks: Sequence[Look]) -> LooksCursor:
    """The cursors that the sensors of an earlier release have left, one for each look; a sensor that was stopped is a pause."""
    contracts = {look.name: look.contract for look in looks}
    stopped = _sensors(instance, contracts, {InstigatorStatus.STOPPED})
    for contract in sorted({contracts[name] or "" for name in stopped} - {"", *(pauses.paused(lake) if stopped else ())}):
        names = [name for name in stopped if contracts[name] == contract]
        pauses.pause(lake, contract, "Dagster", f"a person had stopped the sensor {join_limited(names, _SHOWN, ' sensors')}")
    return LooksCursor(kept={name: Cursor.read(text) for name, text in _sensors(instance, contracts).items()})


def _sensors(
    instance: dg.DagsterInstance, names: Collection[str], statuses: set[InstigatorStatus] | None = None
) -> dict[str, str | None]:
    """The cursors of sensors that have ticked, or that a person has started or stopped, by name."""
    if instance.schedule_storage is None:
        return {}
    states = instance.all_instigator_state(instigator_type=InstigatorType.SENSOR, instigator_statuses=statuses)
    known = {state.instigator_name: getattr(state.instigator_data, "cursor", None) for state in states}
    return {name: known[name] for name in sorted(known) if name in names}


def short_hash(text: str) -> str:
    """A hash of 16 characters for a tag."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


RUNNING = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
#: Set on the runs of sensors that look at all contracts: the look that requested them, such as ``restate_revenue``.
LOOK_TAG = "lakehouse/look"
#: The number of runs for each cause.
ATTEMPTS = 3
#: Set on requested runs: the sensor requests further attempts, and Dagster itself never retries.
NO_RETRIES = {MAX_RETRIES_TAG: "0"}
#: The greatest number of a sensor's active runs: the cost of a tick must not grow with the number of pending runs.
AT_ONCE = 100


@dataclass
class RunRequestPlan:
    """The requests of a sensor at a tick.

    :param run_keys: the key of the run to request, by cause.
    :param on_their_way: the causes with a run that has not ended.
    :param given_up: the causes whose attempts have all failed.
    :param answered: the causes that a run has settled.
    :param later: the number of causes left for later ticks, because enough runs are active.
    """

    run_keys: dict[str, str] = field(default_factory=dict)
    on_their_way: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    later: int = 0

    @property
    def enough(self) -> bool:
        """Whether the maximum number of runs is active."""
        return len(self.run_keys) + len(self.on_their_way) >= AT_ONCE


def plan_run_requests(
    instance: dg.DagsterInstance, tag: str, causes: Sequence[str], settled_by_success: Collection[str] = ()
) -> RunRequestPlan:
    """Decide for which of ``causes`` to request a run, in their order.

    :param tag: the tag that names the cause of a run.
    :param settled_by_success: the causes that a successful run settles.
    """
    plan = RunRequestPlan()
    for begin in range(0, len(causes), AT_ONCE):
        some = causes[begin : begin + AT_ONCE]
        earlier = {} if plan.enough else _runs(instance, tag, some)
        for cause in some:
            statuses = earlier.get(cause, [])
            if plan.enough:
                plan.later += 1
            elif any(status in RUNNING for status in statuses):
                plan.on_their_way.append(cause)
            elif cause in settled_by_success and dg.DagsterRunStatus.SUCCESS in statuses:
                plan.answered.append(cause)
            elif len(statuses) >= ATTEMPTS:
                plan.given_up.append(cause)
            else:
                plan.run_keys[cause] = f"{cause}:{len(statuses)}"
    return plan


def _runs(instance: dg.DagsterInstance, tag: str, causes: Sequence[str]) -> dict[str, list[dg.DagsterRunStatus]]:
    """The states of the runs for each cause, from a single query."""
    statuses: dict[str, list[dg.DagsterRunStatus]] = defaultdict(list)
    for run in instance.get_runs(dg.RunsFilter(tags={tag: list(causes)})):
        statuses[run.tags[tag]].append(run.status)
    return statuses
