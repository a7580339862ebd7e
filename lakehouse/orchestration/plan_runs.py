"""Planned runs: those of a backfill or a stage, with their tags and the lock on their source, and those that sensors request.

A planned backfill updates all layers itself, and sensors request no runs for its source in the meantime. The lock is an operating
system lock, which is released whenever the process ends. It is visible on one machine only. Sensors on another machine continue
during the backfill; the numbers are the same, but other runs produce them.

The tags are the name, the reason, and the code and contract versions of a backfill plan.

Here is also which runs a sensor requests: new ones, and failed ones up to a number of attempts. A tag on each run names its
*cause*. The daemon never starts a run key twice, even if its run has failed. So the key contains the number of the attempt, and a
repeated tick requests the same keys.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

import dagster as dg
from filelock import FileLock, Timeout
from platformdirs import user_state_path

from lakehouse.delta import provenance
from lakehouse.errors import LakehouseError
from lakehouse.operations.backfills import plan as backfill_plan
from lakehouse.orchestration.dagster_internals import MAX_RETRIES_TAG, SHARED_TAG, StepEventStatus

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake
    from lakehouse.operations.backfills.plan import BackfillPlan


PLAN_TAG = "lakehouse/backfill"
REASON_TAG = "lakehouse/reason"
_RUNNER_TAG = "lakehouse/runner"
_PINS_TAG = "lakehouse/pins"
_SOURCE_TAG = "lakehouse/source"
_STAGE_TAG = "lakehouse/stage"
_SIGN_OFF_TAG = "lakehouse/sign_off"


class OtherVersionError(LakehouseError):
    """A run of a backfill has loaded code or contracts that differ from the plan's."""


def tags_of(plan: BackfillPlan) -> dict[str, str]:
    """The tags of every run of a plan."""
    pins = {"code_version": plan.code_version, "contracts": dict(plan.contracts)}
    about = {PLAN_TAG: plan.plan_id, REASON_TAG: plan.reason, _RUNNER_TAG: plan.runner_id}
    return about | {_SOURCE_TAG: plan.source, _PINS_TAG: json.dumps(pins)}


def tags_of_stage(name: str, run_name: str, by: str, reason: str, sign_off: str | None) -> dict[str, str]:
    """The tags of every run that promotes a stage.

    :param run_name: the name in its commits, audit rows and publications.
    :param sign_off: the reason for accepting exceeded thresholds and failed checks.
    """
    about = {PLAN_TAG: run_name, REASON_TAG: reason, _RUNNER_TAG: by, _STAGE_TAG: name}
    return about | ({_SIGN_OFF_TAG: sign_off} if sign_off else {})


def is_of_stage(tags: Mapping[str, str]) -> bool:
    """Whether a run promotes a stage, which readers must see in one step per table."""
    return _STAGE_TAG in tags


def sign_off(tags: Mapping[str, str]) -> str | None:
    """The reason for which this run publishes numbers that fail a check; None if such numbers are held."""
    return tags.get(_SIGN_OFF_TAG)


def runner(tags: Mapping[str, str]) -> str | None:
    """The person who runs the plan or promotes the stage; None for other runs."""
    return tags.get(_RUNNER_TAG)


def is_planned_run(tags: Mapping[str, str]) -> bool:
    """Whether a run belongs to a plan."""
    return PLAN_TAG in tags


def plan_of(tags: Mapping[str, str]) -> str | None:
    """The id of the backfill plan to which a run belongs; None for other runs, including those that promote a stage."""
    return None if is_of_stage(tags) else tags.get(PLAN_TAG)


def commit_metadata(tags: Mapping[str, str]) -> dict[str, str]:
    """The commit metadata of silver for a run of a plan; empty for other runs."""
    named = {"backfill": PLAN_TAG, "reason": REASON_TAG, "by": _RUNNER_TAG}
    return {name: tags[tag] for name, tag in named.items() if tag in tags} if is_planned_run(tags) else {}


def verify_pinned_versions(tags: Mapping[str, str], catalog: Catalog) -> None:
    """:raises OtherVersionError: if a run of a plan would use code or contracts that differ from the plan's."""
    if _PINS_TAG not in tags:
        return
    pins = json.loads(tags[_PINS_TAG])
    now = provenance.of_contracts(catalog, tags[_SOURCE_TAG])
    differences = backfill_plan.moved_pins(pins["code_version"], pins["contracts"], provenance.code(), now)
    if differences:
        msg = f"{tags[PLAN_TAG]} was planned otherwise: {'; '.join(differences)}; reload the code location, or make a new plan"
        raise OtherVersionError(msg)


_PATIENCE_SECONDS = 5
#: The skip reason of sensors while a backfill runs.
BACKFILL_RUNNING = "a planned backfill is running on the source and updates all layers"


class BackfillRunningError(LakehouseError):
    """Another backfill holds the lock of the same source."""


@contextmanager
def backfill_lock(lake: Lake, source: str) -> Iterator[None]:
    """Hold the lock of a source.

    :raises BackfillRunningError: if another backfill holds it.
    """
    lock = _lock(lake, source)
    try:
        with lock.acquire(timeout=_PATIENCE_SECONDS):
            yield
    except Timeout:
        msg = f"another backfill is running on {source}; wait for it, or cancel it: 'lakehouse backfill status' lists it"
        raise BackfillRunningError(msg) from None


def is_backfill_running(lake: Lake, source: str) -> bool:
    """Whether a backfill holds the lock of a source, on this machine."""
    if not _lock_file(lake.root, source).is_file():
        return False
    try:
        with _lock(lake, source).acquire(blocking=False):
            return False
    except Timeout:
        return True


def _lock(lake: Lake, source: str) -> FileLock:
    return FileLock(_lock_file(lake.root, source))


@lru_cache(10_000)  # a tick of a sensor asks for each source
def _lock_file(root: str, source: str) -> Path:
    name = short_hash(f"{root}\n{source}")
    return _folder() / f"backfill-{name}.lock"


def _folder() -> Path:
    """The folder of the lock files: the user's state folder, or the temporary folder if the former is not writable."""
    folder = user_state_path("lakehouse", appauthor=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(gettempdir())
    return folder


def short_hash(text: str) -> str:
    """A hash of 16 characters for a tag or a name."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def newest_end(instance: dg.DagsterInstance) -> str:
    """The newest ended run, as a text that changes when another run ends; one query."""
    records = instance.get_run_records(dg.RunsFilter(statuses=_ENDED), limit=1, order_by="update_timestamp")
    return " ".join(f"{record.dagster_run.run_id} {record.update_timestamp}" for record in records)


def between_runs(instance: dg.DagsterInstance) -> str | None:
    """A text that changes with each run, while none is in progress; None if one is."""
    if instance.get_runs(dg.RunsFilter(statuses=RUNNING), limit=1):  # first: what ends after it is the newest end
        return None
    return " ".join([*(run.run_id for run in instance.get_runs(limit=1)), newest_end(instance)])


RUNNING = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
#: Runs that wait for a place.
QUEUED = {dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.QUEUED}
#: The number of runs for each cause.
ATTEMPTS = 3
_PLACES = 4
#: Set on requested runs: the sensor requests further attempts, and Dagster itself never retries.
NO_RETRIES = {MAX_RETRIES_TAG: "0"}
#: The greatest number of a look's active runs: the cost of a tick must not grow with the number of pending runs.
AT_ONCE = 100


@dataclass
class RunRequestPlan:
    """The requests of a sensor at a tick.

    :param attempts: the causes for which to request a run, each with the number of its earlier runs.
    :param on_their_way: the causes with a run that has not ended.
    :param given_up: the causes whose attempts have all failed.
    :param answered: the causes that a run has settled.
    :param later: the number of causes left for later ticks, because enough runs are active.
    """

    attempts: dict[str, int] = field(default_factory=dict)
    on_their_way: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    later: int = 0

    @property
    def run_keys(self) -> dict[str, str]:
        """The key of the run to request, by cause."""
        return {cause: run_key(cause, attempt) for cause, attempt in self.attempts.items()}

    @property
    def enough(self) -> bool:
        """Whether the maximum number of runs is active."""
        return len(self.attempts) + len(self.on_their_way) >= AT_ONCE


def run_key(cause: str, attempt: int) -> str:
    """The key of a run. The daemon never starts one twice, even if its run has failed."""
    return f"{cause}:{attempt}"


def plan_run_requests(
    instance: dg.DagsterInstance,
    tag: str,
    causes: Sequence[str],
    settled_by_success: Collection[str] = (),
    asset: dg.AssetKey | None = None,
) -> RunRequestPlan:
    """Decide for which of ``causes`` to request a run, in their order.

    :param tag: the tag that names the cause of a run.
    :param settled_by_success: the causes that a successful run settles.
    :param asset: the asset that the causes are about: a shared run may have failed in another one.
    """
    plan = RunRequestPlan()
    for begin in range(0, len(causes), AT_ONCE):
        some = causes[begin : begin + AT_ONCE]
        earlier = {} if plan.enough else _runs(instance, tag, some, asset)
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
                plan.attempts[cause] = len(statuses)
    return plan


def places(instance: dg.DagsterInstance) -> int:
    """How many runs Dagster runs at once; a few where it does not say."""
    queue = instance.get_concurrency_config().run_queue_config
    return queue.max_concurrent_runs if queue and queue.max_concurrent_runs >= 0 else _PLACES


def _runs(
    instance: dg.DagsterInstance, tag: str, causes: Sequence[str], asset: dg.AssetKey | None
) -> dict[str, list[dg.DagsterRunStatus]]:
    """The states of the runs for each cause, from a single query; of a failed shared run, the state of the asset's step."""
    statuses: dict[str, list[dg.DagsterRunStatus]] = defaultdict(list)
    for run in instance.get_runs(dg.RunsFilter(tags={tag: list(causes)})):
        is_done = run.is_failure and SHARED_TAG in run.tags and asset in _succeeded(instance, run)
        statuses[run.tags[tag]].append(dg.DagsterRunStatus.SUCCESS if is_done else run.status)
    return statuses


def _succeeded(instance: dg.DagsterInstance, run: dg.DagsterRun) -> set[dg.AssetKey]:
    """The assets whose step of a run has succeeded, however the run ended."""
    return {key for key, status in step_statuses(instance, run).items() if status is StepEventStatus.SUCCESS}


def step_statuses(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dict[dg.AssetKey, StepEventStatus | None]:
    """The states of the assets' steps of a run, by one query; None for a step that has not begun."""
    known = {stats.step_key: stats.status for stats in instance.get_run_step_stats(run.run_id)}
    return {key: known.get(key.to_python_identifier()) for key in run.asset_selection or ()}


#: The states of steps that have left something undone.
UNDONE = {StepEventStatus.FAILURE, StepEventStatus.IN_PROGRESS}
