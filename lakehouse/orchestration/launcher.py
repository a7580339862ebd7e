"""What the project needs of a Dagster instance, and how runs are detected whose process has ended.

A launcher reports such runs to Dagster's run monitoring, and waiting runs free their pool slots.

A run whose machine lost power would otherwise stay *started* and keep its slot in the pool of its table, so that nothing could
write there until a person intervenes. With a daemon, run monitoring gives such a run up. ``dagster.yaml`` names the launcher,
which starts runs like Dagster's default launcher. Without a daemon, a run that has to wait for its pool checks the processes of
the runs before it: it gives up runs whose process has ended, and waits for the others, which it names.

Both are for runs on this machine; cluster launchers (Kubernetes, Docker, ECS) check their runs themselves.

An instance without the project's ``dagster.yaml`` gets a limit of one run for each table that is about to be written, and its
dead runs are given up by whoever would wait for them. :func:`missing_settings` names what else it lacks.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet

import dagster as dg
import psutil

from lakehouse.orchestration.dagster_internals import CheckRunHealthResult, WorkerStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakehouse.orchestration.dagster_internals import ConcurrencyKeyInfo

#: The clocks of the log and of the kernel differ by less.
_SECOND = 1.0


@dataclass(frozen=True)
class Worker:
    """A process that has reported to work on a run.

    :param reported: the time of its last report, in seconds since 1970.
    """

    pid: int
    reported: float

    def __str__(self) -> str:
        """The process and the time of its last report, for a sentence."""
        return f"process {self.pid}, since {datetime.fromtimestamp(self.reported, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"

    @property
    def lives(self) -> bool:
        """Whether the process is alive; a later process with the same number does not count."""
        try:
            process = psutil.Process(self.pid)
            return process.status() != psutil.STATUS_ZOMBIE and process.create_time() <= self.reported + _SECOND
        except psutil.NoSuchProcess:
            return False


def workers(instance: dg.DagsterInstance, run_id: str) -> list[Worker]:
    """The processes that have reported to work on a run; empty before the first report."""
    return list({worker.pid: worker for worker in _reports(instance, run_id)}.values())


def _reports(instance: dg.DagsterInstance, run_id: str) -> Iterator[Worker]:
    for entry in instance.all_logs(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
        pid = entry.get_dagster_event().engine_event_data.metadata.get("pid")
        if pid is not None:
            yield Worker(int(str(pid.value)), entry.timestamp)


def why_given_up(known: list[Worker]) -> str | None:
    """The reason for giving up a run: all processes that have reported to work on it have ended. None before a report."""
    if not known or any(worker.lives for worker in known):
        return None
    return f"its process ({', '.join(f'{worker.pid}' for worker in known)}) has ended without reporting"


class LocalRunLauncher(dg.DefaultRunLauncher):
    """Dagster's default launcher; runs whose process has ended are reported as failed."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        """True: run monitoring may check runs."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Whether a process that has reported to work on a run is alive; before any report, the run counts as alive."""
        reason = why_given_up(workers(self._instance, run.run_id))
        return CheckRunHealthResult(WorkerStatus.FAILED if reason else WorkerStatus.RUNNING, reason)


_LOG = logging.getLogger(__name__)


def give_up_dead_runs(
    instance: dg.DagsterInstance, pool: ConcurrencyKeyInfo, waiting: str = "", *, anyhow: bool = True
) -> dict[str, Worker | None]:
    """Free the slots of runs that have ended or whose process is gone.

    :param pool: the pool, with claimed slots and waiting steps.
    :param waiting: the waiting run, which is not checked.
    :param anyhow: False to give up dead runs only if nobody else does it, as :func:`still_alive`.
    :returns: the runs before it that continue, each with a process that works on it; None if no process has reported yet.
    """
    places = [slot.run_id for slot in pool.claimed_slots]
    places += [step.run_id for step in pool.pending_steps if step.assigned_timestamp is not None]
    alive: dict[str, Worker | None] = {}
    for run_id in dict.fromkeys(places):
        if run_id == waiting:
            continue
        run = instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            instance.event_log_storage.free_concurrency_slots_for_run(run_id)
            continue
        known = workers(instance, run_id)
        if not ((anyhow or _nobody_else_does(instance)) and _is_given_up(instance, run, known)):
            alive[run_id] = next((worker for worker in reversed(known) if worker.lives), None)
    return alive


def still_alive(instance: dg.DagsterInstance, runs: Sequence[dg.DagsterRun]) -> list[dg.DagsterRun]:
    """Those of some active runs that go on. Where no run monitoring does it, runs whose process has ended are given up.

    Only for runs that Dagster's own launcher has started on this machine.
    """
    if not _nobody_else_does(instance):
        return list(runs)
    return [run for run in runs if not _is_given_up(instance, run, workers(instance, run.run_id))]


def _nobody_else_does(instance: dg.DagsterInstance) -> bool:
    return not instance.run_monitoring_enabled and isinstance(instance.run_launcher, dg.DefaultRunLauncher)


def _is_given_up(instance: dg.DagsterInstance, run: dg.DagsterRun, known: list[Worker]) -> bool:
    """Whether the processes of an active run have ended; it then counts as failed, and its slots are freed."""
    reason = why_given_up(known)
    if reason is None:
        return False
    _LOG.warning("Run %s was not finished: %s. It counts as failed; its work is taken up.", run.run_id[:8], reason)
    # First: if this process is killed in between, the run is found again, which a failed one would not be.
    instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    instance.report_run_failed(run, reason)
    return True


def limit_pools(instance: dg.DagsterInstance, pools: Iterable[str]) -> None:
    """Let one run at a time write a table, on an instance whose settings do not, and give up dead runs, which it would wait for.

    :param pools: the pools of the tables that are about to be written.
    """
    storage = instance.event_log_storage
    if instance.is_ephemeral or _has_default_limit(instance) or not storage.supports_global_concurrency_limits:
        return
    still_alive(instance, instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])))
    pools = [*pools]
    for pool in pools:
        give_up_dead_runs(instance, storage.get_concurrency_info(pool), anyhow=False)
    known = _limited.setdefault(instance, set())
    if missing := {*pools} - known:
        known |= storage.get_concurrency_keys() | missing
        for pool in sorted(missing - {limit.name for limit in storage.get_pool_limits()}):
            storage.set_concurrency_slots(pool, 1)


#: The pools that are known to have a limit, by instance.
_limited: WeakKeyDictionary[dg.DagsterInstance, set[str]] = WeakKeyDictionary()


def _has_default_limit(instance: dg.DagsterInstance) -> bool:
    return instance.get_concurrency_config().pool_config.default_pool_limit is not None


def missing_settings(instance: dg.DagsterInstance) -> list[str]:
    """What an instance lacks, each with the line to add to its ``dagster.yaml``."""
    missing = []
    if not _has_default_limit(instance):
        missing.append("a limit of one run for each table: add 'concurrency: {pools: {default_limit: 1}}'")
    if not instance.run_monitoring_enabled:
        missing.append("run monitoring, without which a killed run stays started: add 'run_monitoring: {enabled: true}'")
        if type(instance.run_launcher) is dg.DefaultRunLauncher:
            missing.append(
                "a launcher that sees whether the process of a run lives: "
                "add 'run_launcher: {module: lakehouse.orchestration.launcher, class: LocalRunLauncher}'"
            )
    if not instance.get_settings("retention"):
        missing.append(
            "a limit for the ticks of sensors that are kept: add 'retention: {sensor: {purge_after_days: {skipped: 1}}}'"
        )
    return missing


def warn_of_missing_settings(instance: dg.DagsterInstance) -> None:
    """Log what an instance lacks, once in a process; nothing about one that ends with the process."""
    if instance.is_ephemeral or instance in _warned_of:
        return
    _warned_of.add(instance)
    if missing := missing_settings(instance):
        _LOG.warning("Dagster's instance lacks %s. See 'Any Dagster instance' in docs/operations.md.", "; ".join(missing))


_warned_of: WeakSet[dg.DagsterInstance] = WeakSet()


def say_for_whom(pool: str, alive: dict[str, Worker | None]) -> None:
    """Log a warning for each run that a run waits for."""
    for run_id, worker in alive.items():
        _LOG.warning("%s is in use: waits for run %s (%s).", pool, run_id[:8], worker or "which has yet to begin")
