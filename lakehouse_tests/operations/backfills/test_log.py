"""Plans are kept as they were made; their events are written once, and show their progress."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse.operations.backfills import log as backfill_log
from lakehouse.operations.backfills.log import BackfillEvent, UnknownPlanError
from lakehouse.operations.backfills.plan import BackfillPlan, BackfillStatus, Layer, Wave

if TYPE_CHECKING:
    from lakehouse.lake import Lake

NOW = datetime(2024, 11, 20, 12, tzinfo=timezone.utc)


def plan(plan_id: str = "bf-1", reason: str = "a disk was lost") -> BackfillPlan:
    return BackfillPlan(
        plan_id=plan_id,
        target="sales",
        source="sales",
        first_day=date(2024, 11, 1),
        last_day=date(2024, 11, 3),
        reason=reason,
        runner_id="anna",
        code_version="1",
        contracts={"sales": "x"},
        waves=(Wave(layer=Layer.BRONZE, table="bronze/sales", partitions=(date(2024, 11, 1),)),),
        created_at=NOW,
    )


def event(kind: str, minutes: int, name: str = "") -> BackfillEvent:
    return BackfillEvent("bf-1", name or f"{kind}:{minutes}", kind, NOW + timedelta(minutes=minutes), said={"at": minutes})


def test_a_plan_is_kept_once_as_it_was(lake: Lake) -> None:
    for _ in range(2):
        backfill_log.store_plan(lake, plan())
    assert backfill_log.plans(lake) == [plan()]


def test_the_same_plan_made_again_is_the_one_that_waits_until_it_has_begun(lake: Lake) -> None:
    """A command that was killed before it printed the plan's name is given again."""
    backfill_log.store_plan(lake, plan())
    assert backfill_log.store_plan(lake, plan("bf-2")) == plan()
    assert backfill_log.store_plan(lake, plan("bf-3", "another disk")).plan_id == "bf-3"
    backfill_log.record(lake, event("started", 1))
    assert backfill_log.store_plan(lake, plan("bf-4")).plan_id == "bf-4"
    assert [known.plan_id for known in backfill_log.plans(lake)] == ["bf-1", "bf-3", "bf-4"]


def test_a_plan_is_found_by_the_beginning_of_its_name(lake: Lake) -> None:
    with pytest.raises(UnknownPlanError, match="the newest are none"):
        backfill_log.plan_named(lake, "bf")
    for name in ("bf-1", "bf-12", "bf-2"):
        backfill_log.store_plan(lake, plan(name, f"for {name}"))
    assert backfill_log.plan_named(lake, "bf-1").plan_id == "bf-1"
    assert backfill_log.plan_named(lake, "bf-2").plan_id == "bf-2"
    assert backfill_log.plan_named(lake, "newest").plan_id == "bf-2"
    with pytest.raises(UnknownPlanError, match="3 plans begin with bf; they are bf-1, bf-12, bf-2"):
        backfill_log.plan_named(lake, "bf")
    with pytest.raises(UnknownPlanError, match="no plan is called x"):
        backfill_log.plan_named(lake, "x")


def test_an_event_is_written_once(lake: Lake) -> None:
    assert backfill_log.record(lake, event("wave", 1, "bronze"))
    assert not backfill_log.record(lake, event("wave", 2, "bronze"))
    [told] = backfill_log.events(lake, "bf-1")
    assert told == event("wave", 1, "bronze")


@pytest.mark.parametrize(
    ("kinds", "status"),
    [
        ([], BackfillStatus.PLANNED),
        (["started"], BackfillStatus.RUNNING),
        (["started", "wave"], BackfillStatus.RUNNING),
        (["started", "failed"], BackfillStatus.FAILED),
        (["started", "failed", "started"], BackfillStatus.RUNNING),
        (["started", "cancelled", "wave"], BackfillStatus.CANCELLED),
        (["started", "finished"], BackfillStatus.FINISHED),
        (["started", "cancelled", "finished"], BackfillStatus.FINISHED),
    ],
)
def test_events_say_how_far_it_has_come(kinds: list[str], status: BackfillStatus) -> None:
    assert backfill_log.status([event(kind, minutes) for minutes, kind in enumerate(kinds)]) is status
