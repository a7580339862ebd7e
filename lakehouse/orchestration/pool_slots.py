"""Places in pools that runs keep although nobody works on them any more.

A killed run keeps its place in the pool of a table. With a daemon, run monitoring gives the run up; without one, every later run
would wait for ever. So a run that finds its pool taken looks at the processes of the runs before it: it gives up those that are
gone, and waits for the others, which it names. What a process is, and whether it lives, is decided in ``launcher``.
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
    """Free the places of runs that have ended or whose process is gone.

    :param pool: who has, and waits for, a place.
    :param waiting: the run that waits; it is not looked at.
    :returns: the runs before it that go on, each with a process that works on it, None where none has reported yet.
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
    """Say in the log for which runs a run waits."""
    for run_id, worker in alive.items():
        _LOG.warning("%s is in use: waits for run %s (%s).", pool, run_id[:8], worker or "which has yet to begin")
