"""Undo a backfill: the numbers that it restated go back to those before it, and the log of backfills says so.

Which numbers these are, and what forbids to go back, belongs to ``gold.restatement.undo``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.gold.restatement import undo as restatement_undo
from lakehouse.operations.backfills import log, verification
from lakehouse.operations.backfills.log import BackfillEvent

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.gold.publication.write_audit_publish import Run
    from lakehouse.gold.restatement.undo import UndoneSeries
    from lakehouse.operations.backfills.plan import BackfillPlan
    from lakehouse.settings import Settings


def undo(settings: Settings, catalog: Catalog, plan: BackfillPlan, run: Run, reason: str) -> list[UndoneSeries]:
    """Put the days that a backfill restated back to their numbers before it; calling it again changes nothing.

    :param run: names the person.
    :raises UndoError: if one of the numbers has changed since, or the plan has restated none.
    """
    dailies = verification.series_of(settings, catalog, plan)
    done = restatement_undo.undo(settings, catalog.sources[plan.source], dailies, plan.plan_id, run, reason)
    said = {"by": run.by, "reason": reason, "days": {undone.daily.name: len(undone.result.published) for undone in done}}
    log.record(settings, BackfillEvent(plan.plan_id, "undone", "undone", said=said, recorded_at=settings.clock()))
    return done
