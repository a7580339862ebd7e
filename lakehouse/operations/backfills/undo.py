"""Undo a backfill: the numbers that it restated go back to those before it, as new revisions.

Belongs here: which version each day had before a plan, and what forbids to go back to it. Putting days back, and keeping them
until they are released, belongs to ``gold.restatement.revert``. Silver keeps what the backfill ingested.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import history
from lakehouse.gold.publication import reverted_periods
from lakehouse.gold.restatement import revert
from lakehouse.operations.backfills import log, verification
from lakehouse.operations.backfills.log import BackfillEvent
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.gold.publication.write_audit_publish import Run
    from lakehouse.gold.restatement.revert import RevertResult
    from lakehouse.operations.backfills.plan import BackfillPlan
    from lakehouse.settings import Settings

_SHOWN = 10


class UndoError(LakehouseError):
    """A backfill that cannot be undone; nothing has changed. The message lists the days, and says what to do."""


@dataclass(frozen=True)
class UndoneSeries:
    """What the undo did to the days of a metric.

    :param first: the days that the backfill published first: there is no number to go back to, and they stay.
    """

    daily: Series
    result: RevertResult
    first: Sequence[date]


@dataclass(frozen=True)
class _Earlier:
    """What the days of a metric were before a plan: the label of each, the days without any, and those that changed since."""

    targets: Mapping[date, str]
    first: Sequence[date]
    later: Sequence[str]


def undo(settings: Settings, catalog: Catalog, plan: BackfillPlan, run: Run, reason: str) -> list[UndoneSeries]:
    """Put the days that a backfill restated back to their numbers before it; calling it again changes nothing.

    :param run: names the person.
    :raises UndoError: if one of the numbers has changed since, or the plan has restated none.
    """
    earlier = [(daily, _before(settings, daily, plan)) for daily in verification.series_of(settings, catalog, plan)]
    later = [sentence for _, before in earlier for sentence in before.later]
    if later:
        listed = join_limited(later, _SHOWN, " numbers")
        msg = f"{plan.plan_id} cannot be undone, numbers have changed since: {listed}; revert days with 'lakehouse gold revert'"
        raise UndoError(msg)
    if not any(before.targets for _, before in earlier):
        msg = f"{plan.plan_id} has restated no number: there is nothing to undo"
        raise UndoError(msg)
    why = f"undo of {plan.plan_id}: {reason}"
    source = catalog.sources[plan.source]
    done = [
        UndoneSeries(daily, revert.put_back(settings, source, daily, before.targets, run, why), before.first)
        for daily, before in earlier
        if before.targets
    ]
    said = {"by": run.by, "reason": reason, "days": {undone.daily.name: len(undone.result.published) for undone in done}}
    log.record(settings, BackfillEvent(plan.plan_id, "undone", "undone", said=said, recorded_at=settings.clock()))
    return done


def _before(settings: Settings, daily: Series, plan: BackfillPlan) -> _Earlier:
    names = verification.published_by(settings, daily, plan)
    known = history.history(settings, daily, sorted(names)) if names else {}
    kept = reverted_periods.kept(settings, daily.name, known)
    targets: dict[date, str] = {}
    first, later = [], []
    for start, versions in sorted(known.items()):
        positions = [
            number for number, version in enumerate(versions) if version.name in names[start] and _has_new_content(version)
        ]
        if not positions:
            continue  # the plan only closed it
        if positions[0] == 0:
            first.append(start)
            continue
        label = versions[positions[0] - 1].label
        newer = [version for version in versions[positions[-1] + 1 :] if _has_new_content(version)]
        if newer and not (start in kept and kept[start].version == label):
            later.append(f"{newer[-1].name} ({newer[-1].reason.value})")
        targets[start] = label
    return _Earlier(targets, first, later)


def _has_new_content(version: PublishedVersion) -> bool:
    """Whether a version is more than a change of state."""
    return version.revision == 1 or version.adjustment is not None or version.restated_on == version.published_at
