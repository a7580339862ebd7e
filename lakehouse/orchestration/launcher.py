"""A launcher that starts runs as Dagster's default launcher does, and reports whether the process of a run is alive.

Without that, a run whose machine lost power stays *started* and keeps the pool of its table, so that nothing writes there
until somebody intervenes. ``dagster.yaml`` names this launcher, and Dagster's run monitoring calls it. It is for runs on the
machine of the daemon; the launchers of clusters (Kubernetes, Docker, ECS) check their runs themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import psutil

from lakehouse.orchestration.common.dagster_internals import CheckRunHealthResult, WorkerStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Clocks of the log and of the kernel differ by less.
_SECOND = 1.0


class LocalRunLauncher(dg.DefaultRunLauncher):
    """Dagster's default launcher; runs whose process has ended are reported as failed."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        """True: run monitoring may check runs."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Whether a process that has reported to work on a run is alive; before any has reported, the run counts as alive."""
        workers = dict(self._workers(run))
        if not workers or any(_lives(pid, reported) for pid, reported in workers.items()):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        gone = ", ".join(map(str, workers))
        return CheckRunHealthResult(WorkerStatus.FAILED, f"its process ({gone}) has ended without reporting")

    def _workers(self, run: dg.DagsterRun) -> Iterator[tuple[int, float]]:
        """The processes that have reported to work on a run, each with the time of its last report (seconds since 1970)."""
        for entry in self._instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
            pid = entry.get_dagster_event().engine_event_data.metadata.get("pid")
            if pid is not None:
                yield int(str(pid.value)), entry.timestamp


def _lives(pid: int, reported: float) -> bool:
    """Whether the process that reported is alive; a later process with the same number does not count."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() <= reported + _SECOND
    except psutil.NoSuchProcess:
        return False
