"""``ops/backfills``: the plans as created; ``ops/backfill_events``: the steps of each plan.

An event has a name within its plan and is written once, however often a resumed run repeats it, so a plan has a single history.
The status of a backfill is derived from its events. The plan itself is defined in ``plan``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.errors import LakehouseError
from lakehouse.ledger.log_table import LogTable
from lakehouse.operations.backfills.plan import BackfillPlan, BackfillStatus

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from lakehouse.lake import Lake

_BECOMES = {
    "started": BackfillStatus.RUNNING,
    "failed": BackfillStatus.FAILED,
    "cancelled": BackfillStatus.CANCELLED,
    "finished": BackfillStatus.FINISHED,
}

#: The alias of the newest plan.
NEWEST = "newest"


class UnknownPlanError(LakehouseError):
    """A plan that is not stored. The message lists the stored plans."""


@dataclass(frozen=True)
class BackfillEvent:
    """An event in the execution of a plan.

    ``kind`` is started, asked (pending partitions were detected), attempt (a run of a wave failed), wave (partitions of a table
    are complete), failed, cancelled, finished or undone; ``event`` is its name within the plan, and ``said`` contains the
    details.
    """

    plan_id: str
    event: str
    kind: str
    said: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    recorded_at: datetime


@dataclass(frozen=True)
class StoredPlan:
    """A plan as JSON, with the columns by which it is selected."""

    plan_id: str
    target: str
    reason: str
    runner_id: str
    created_at: datetime
    plan: str


def plan_log(lake: Lake) -> LogTable[StoredPlan]:
    """The table of plans."""
    return LogTable(StoredPlan, lake, locations.backfills(lake), journaled=True)


def event_log(lake: Lake) -> LogTable[BackfillEvent]:
    """The table of events."""
    return LogTable(BackfillEvent, lake, locations.backfill_events(lake), partition_by="plan_id")


def store_plan(lake: Lake, plan: BackfillPlan) -> BackfillPlan:
    """Store a plan once, and return the plan that is stored: an equal one that nobody has begun keeps its id."""
    for known in plans(lake):
        named = {"plan_id": known.plan_id, "created_at": known.created_at}
        if plan.model_copy(update=named) == known and not events(lake, known.plan_id):
            return known
    stored = StoredPlan(plan.plan_id, plan.target, plan.reason, plan.runner_id, plan.created_at, plan.model_dump_json())
    plan_log(lake).append([stored], app_id=f"backfill:{plan.plan_id}")
    return plan


def plans(lake: Lake) -> list[BackfillPlan]:
    """All plans, oldest first."""
    texts = plan_log(lake).select(["plan"])["plan"].to_pylist()
    return sorted(map(BackfillPlan.model_validate_json, texts), key=lambda plan: (plan.created_at, plan.plan_id))


def plan_named(lake: Lake, plan_id: str) -> BackfillPlan:
    """The plan with an id, or the only plan whose id begins with it; ``newest`` is the newest plan.

    :raises UnknownPlanError: if no plan matches, or more than one.
    """
    every = plans(lake)
    if plan_id == NEWEST and every:
        return every[-1]
    matches = [plan for plan in every if plan.plan_id == plan_id] or [plan for plan in every if plan.plan_id.startswith(plan_id)]
    if len(matches) != 1:
        names = ", ".join(plan.plan_id for plan in (matches or every[-5:])) or "none"
        how = f"{len(matches)} plans begin with" if matches else "no plan is called"
        msg = f"{how} {plan_id}; {'they are' if matches else 'the newest are'} {names}"
        raise UnknownPlanError(msg)
    return matches[0]


def record(lake: Lake, entry: BackfillEvent) -> bool:
    """Append an event once.

    :returns: whether the event was new.
    """
    return event_log(lake).append([entry], app_id=f"backfill:{entry.plan_id}:{entry.event}")


def events(lake: Lake, plan_id: str) -> list[BackfillEvent]:
    """The events of a plan, oldest first."""
    return sorted(
        event_log(lake).read({"plan_id": [plan_id]}),
        key=lambda entry: (entry.recorded_at, _RANK.get(entry.kind, 0), entry.event),
    )


_RANK = {
    kind: number
    for number, kind in enumerate(("started", "asked", "attempt", "wave", "failed", "cancelled", "finished", "undone"))
}


def status(entries: list[BackfillEvent]) -> BackfillStatus:
    """The status of a plan according to its events: finished and cancelled are final, a failure lasts until the next start."""
    kinds = [entry.kind for entry in entries]
    for last in ("finished", "cancelled"):
        if last in kinds:
            return _BECOMES[last]
    turns = [kind for kind in kinds if kind in _BECOMES]
    return _BECOMES[turns[-1]] if turns else BackfillStatus.PLANNED
