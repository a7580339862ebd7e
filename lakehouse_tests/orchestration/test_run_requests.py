"""Which of many run requests are made: none twice at a time, none more than three times, not too many at once."""

from __future__ import annotations

import dagster as dg
import pytest

from lakehouse.orchestration.plan_runs import AT_ONCE, ATTEMPTS, RUNNING, plan_run_requests

TAG = "lakehouse/test"
FAILURE, SUCCESS = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS


def ran(instance: dg.DagsterInstance, cause: str, *statuses: dg.DagsterRunStatus) -> None:
    for status in statuses:
        instance.add_run(dg.DagsterRun(job_name="job", tags={TAG: cause}, status=status))


def test_the_key_counts_the_attempts_and_stays_until_there_is_a_run(instance: dg.DagsterInstance) -> None:
    for number in range(ATTEMPTS):
        assert (
            plan_run_requests(instance, TAG, ["a"]).run_keys
            == plan_run_requests(instance, TAG, ["a"]).run_keys
            == {"a": f"a:{number}"}
        )
        ran(instance, "a", FAILURE)
    made = plan_run_requests(instance, TAG, ["a"])
    assert (made.run_keys, made.given_up) == ({}, ["a"])


@pytest.mark.parametrize("status", [one for one in RUNNING if one is not dg.DagsterRunStatus.QUEUED])
def test_what_is_on_its_way_is_left(instance: dg.DagsterInstance, status: dg.DagsterRunStatus) -> None:
    ran(instance, "a", FAILURE, status)
    assert plan_run_requests(instance, TAG, ["a"]).on_their_way == ["a"]


def test_a_success_answers_what_was_known_and_nothing_else(instance: dg.DagsterInstance) -> None:
    """Where the records of a success were lost, it is requested again."""
    ran(instance, "a", SUCCESS)
    assert plan_run_requests(instance, TAG, ["a"], settled_by_success=["a"]).answered == ["a"]
    assert plan_run_requests(instance, TAG, ["a"]).run_keys == {"a": "a:1"}
    ran(instance, "b", FAILURE)
    assert plan_run_requests(instance, TAG, ["b"], settled_by_success=["b"]).run_keys == {"b": "b:1"}


def test_runs_of_other_tags_and_causes_do_not_count(instance: dg.DagsterInstance) -> None:
    ran(instance, "a", FAILURE, FAILURE, FAILURE)
    instance.add_run(dg.DagsterRun(job_name="job", tags={"lakehouse/other": "b"}, status=FAILURE))
    assert plan_run_requests(instance, TAG, ["a", "b"]).run_keys == {"b": "b:0"}


def test_the_first_are_asked_for_and_given_up_ones_take_nobodys_place(instance: dg.DagsterInstance) -> None:
    causes = [f"{number:04}" for number in range(3 * AT_ONCE)]
    for cause in causes[:AT_ONCE:2]:
        ran(instance, cause, *[FAILURE] * ATTEMPTS)
    made = plan_run_requests(instance, TAG, causes)
    wanted = [cause for cause in causes if cause not in causes[:AT_ONCE:2]]
    assert list(made.run_keys) == wanted[:AT_ONCE]
    assert made.given_up == causes[:AT_ONCE:2]
    assert made.later == len(wanted) - AT_ONCE
    for cause in wanted[:10]:
        ran(instance, cause, dg.DagsterRunStatus.STARTED)
    assert list(plan_run_requests(instance, TAG, causes).run_keys) == wanted[10:AT_ONCE], "they are among those at once"


def test_without_requests_nothing_is_planned(instance: dg.DagsterInstance) -> None:
    made = plan_run_requests(instance, TAG, [])
    assert (made.run_keys, made.on_their_way, made.later) == ({}, [], 0)
