"""Detects whether the process of a run is alive, and reports it to Dagster's run monitoring by a launcher.

Otherwise, a run whose machine lost power would stay *started* and keep the pool of its table, so that nothing could write there
until a person intervenes. ``dagster.yaml`` names the launcher, which starts runs like Dagster's default launcher. Without a
daemon, ``pool_slots`` uses the same detection. Both are for runs on this machine; cluster launchers (Kubernetes, Docker, ECS)
check their runs themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import dagster as dg
import psutil

from lakehouse.orchestration.common.dagster_internals import CheckRunHealthResult, WorkerStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

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
