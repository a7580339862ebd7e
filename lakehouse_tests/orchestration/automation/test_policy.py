"""The policy of late partitions, evaluated as the daemon does it; no run is made."""

import dagster as dg
import pytest

from lakehouse.contracts import load_catalog
from lakehouse.lake import Lake
from lakehouse.orchestration.build import build_definitions
from lakehouse.orchestration.run_events import ALONE, SHARED

SILVER = dg.AssetKey(["silver", "sales"])


class Policy:
    """Tick after tick, with what the tick before has remembered."""

    def __init__(self, lake: Lake, instance: dg.DagsterInstance) -> None:
        self.definitions, self.instance = build_definitions(lake.settings, load_catalog(None)), instance
        self.cursor = None

    def announced(self, *days: str) -> None:
        for day in days:
            self.instance.report_runless_asset_event(dg.AssetMaterialization(["arrivals", "sales"], partition=day))

    def announced_by_a_run(self, tags: dict[str, str], *days: str) -> None:
        """Bronze announces days in a run."""

        @dg.asset(key=["bronze", "sales"])
        def bronze(context: dg.AssetExecutionContext) -> None:
            for day in days:
                context.log_event(dg.AssetMaterialization(["arrivals", "sales"], partition=day))

        dg.materialize([bronze], instance=self.instance, tags=tags)

    def tick(self) -> set[str]:
        """The days of silver that are requested."""
        found = dg.evaluate_automation_conditions(
            self.definitions, self.instance, dg.AssetSelection.assets(SILVER), cursor=self.cursor
        )
        self.cursor = found.cursor
        return set(found.get_requested_partitions(SILVER))


@pytest.fixture
def policy(deployment: Lake, instance: dg.DagsterInstance) -> Policy:
    made = Policy(deployment, instance)
    assert made.tick() == set()
    return made


def test_exactly_the_announced_days_however_old_and_once(policy: Policy) -> None:
    policy.announced("2024-11-01", "2024-11-04")
    assert policy.tick() == {"2024-11-01", "2024-11-04"}
    assert [policy.tick() for _ in range(3)] == [set()] * 3


@pytest.mark.merge
def test_an_arrival_right_after_a_request_is_not_lost(policy: Policy) -> None:
    """The requested run may have read the ledger before it."""
    policy.announced("2024-11-04")
    assert policy.tick() == {"2024-11-04"}
    policy.announced("2024-11-04")
    assert policy.tick() == {"2024-11-04"}
    assert [policy.tick() for _ in range(3)] == [set()] * 3


def test_an_arrival_between_others_is_asked_for_each_time(policy: Policy) -> None:
    for _ in range(3):
        policy.announced("2024-11-04")
        assert policy.tick() == {"2024-11-04"}
    policy.announced("2024-11-03")
    assert policy.tick() == {"2024-11-03"}
    assert policy.tick() == set()


@pytest.mark.parametrize("shared", [SHARED, ALONE])
def test_days_that_a_shared_run_has_announced_are_its_own(policy: Policy, shared: dict[str, str]) -> None:
    """All of them, not only the one announced last. (Dagster compares runs from the first event of an instance on.)"""
    policy.announced("2024-11-05")
    assert policy.tick() == {"2024-11-05"}
    policy.announced_by_a_run(shared, "2024-11-01", "2024-11-02", "2024-11-04")
    assert policy.tick() == set()
    policy.announced_by_a_run({}, "2024-11-02", "2024-11-03")
    policy.announced_by_a_run(shared, "2024-11-02", "2024-11-04")
    assert policy.tick() == {"2024-11-02", "2024-11-03"}
    assert [policy.tick() for _ in range(2)] == [set()] * 2
