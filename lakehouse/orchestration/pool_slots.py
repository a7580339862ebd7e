"""Frees pool slots of runs whose process has ended.

A killed run keeps its slot in the pool of a table. With a daemon, run monitoring gives the run up; without one, every later run
would wait forever. So a run that has to wait for its pool checks the processes of the runs before it: it gives up runs whose
process has ended, and waits for the others, which it names. Processes and their detection belong to ``launcher``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lakehouse.orchestration.launcher import Worker, why_given_up, workers

if TYPE_CHECKING:
    import dagster as dg

    from lakehouse.orchestration.common.dagster_internals import ConcurrencyKeyInfo

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
