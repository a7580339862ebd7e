"""Detects runs whose process has ended: a launcher reports them to Dagster's run monitoring, waiting runs free their pool slots.

A run whose machine lost power would otherwise stay *started* and keep its slot in the pool of its table, so that nothing could
write there until a person intervenes. With a daemon, run monitoring gives such a run up. ``dagster.yaml`` names the launcher,
which starts runs like Dagster's default launcher. Without a daemon, a run that has to wait for its pool checks the processes of
the runs before it: it gives up runs whose process has ended, and waits for the others, which it names.

Both are for runs on this machine; cluster launchers (Kubernetes, Docker, ECS) check their runs themselves.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import dagster as dg
import psutil

from lakehouse.orchestration.dagster_internals import CheckRunHealthResult, WorkerStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def give_up_dead_runs(instance: dg.DagsterInstance, pool: ConcurrencyKeyInfo, waiting: str) -> dict[str, Worker | None]:
    """Free the slots of runs that have ended or whose process is gone.

    :param pool: the pool, with claimed slots and waiting steps.
    :param waiting: the waiting run, which is not checked.
    :returns: the runs before it that continue, each with a process that works on it; None if no process has reported yet.
    """
    places = [slot.run_id for slot in pool.claimed_slots]
    places += [step.run_id for step in pool.pending_steps if step.assigned_timestamp is not None]
    alive: dict[str, Worker | None] = {}
    for run_id in dict.fromkeys(places):
        if run_id == waiting:
            continue
        run = instance.get_run_by_id(run_id)
        known = workers(instance, run_id) if run is not None and not run.is_finished else []
        reason = why_given_up(known)
        if run is not None and reason is not None:
            _LOG.warning("Run %s was not finished: %s. It counts as failed; its work is taken up.", run_id[:8], reason)
            instance.report_run_failed(run, reason)
        if run is None or run.is_finished or reason is not None:
            instance.event_log_storage.free_concurrency_slots_for_run(run_id)
        else:
            alive[run_id] = next((worker for worker in reversed(known) if worker.lives), None)
    return alive


def say_for_whom(pool: str, alive: dict[str, Worker | None]) -> None:
    """Log a warning for each run that a run waits for."""
    for run_id, worker in alive.items():
        _LOG.warning("%s is in use: waits for run %s (%s).", pool, run_id[:8], worker or "which has yet to begin")
