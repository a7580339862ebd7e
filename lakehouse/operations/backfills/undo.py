"""Undoes a backfill: restores the numbers from before it, and records this in the log of backfills.

The affected numbers, and the conditions for restoring them, belong to ``gold.restatement.undo``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.gold.restatement import revert as restatement_revert
from lakehouse.operations.backfills import log, verification
from lakehouse.operations.backfills.log import BackfillEvent

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.gold.publication.write_audit_publish import Run
    from lakehouse.gold.restatement.revert import UndoneSeries
    from lakehouse.lake import Lake
    from lakehouse.operations.backfills.plan import BackfillPlan


def undo(lake: Lake, catalog: Catalog, plan: BackfillPlan, run: Run, reason: str) -> list[UndoneSeries]:
    """Restore the days that a backfill restated to their numbers before it. Idempotent.

    :param run: the run, which names the person.
    :raises UndoError: if one of the numbers has changed since, or the plan restated no number.
    """
    dailies = verification.series_of(lake, catalog, plan)
    done = restatement_revert.undo(lake, catalog.sources[plan.source], dailies, plan.plan_id, run, reason)
    said = {"by": run.by, "reason": reason, "days": {undone.daily.name: len(undone.result.published) for undone in done}}
    log.record(lake, BackfillEvent(plan.plan_id, "undone", "undone", said=said, recorded_at=lake.now()))
    return done
