"""How a tick divides what is ready among runs; the law is compared with what the rules say, for any work."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING

import dagster as dg
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.orchestration import run_events
from lakehouse.orchestration.automation.ready import IN_PROGRESS, LARGE, NO_PLACE, Division, Ready, divide

if TYPE_CHECKING:
    from collections.abc import Mapping

DAY = date(2024, 1, 5)


def work(name: str, attempt: int = 0, size: int = 1, *more: str) -> tuple[str, Ready]:
    tables = {key(other): f"source/{other}" for other in (name, *more)}
    files = {f"{name}.csv": "state"}
    return f"landing_{name}", Ready("lakehouse/lands", name, f"{name}:1", attempt, key(name), [DAY], tables, files, size)


def key(name: str) -> dg.AssetKey:
    return dg.AssetKey(["bronze", name])


def active(
    *names: str, status: dg.DagsterRunStatus = dg.DagsterRunStatus.STARTED, tags: Mapping[str, str] | None = None
) -> dg.DagsterRun:
    return dg.DagsterRun("__ASSET_JOB", asset_selection=frozenset(map(key, names)), status=status, tags=dict(tags or {}))


def test_twenty_sources_with_a_file_are_as_many_runs_as_there_are_places() -> None:
    ready = [work(f"s{number:02}") for number in range(20)]
    for places, runs in ((1, 1), (2, 2), (10, 2)):
        requests = divide(ready, [], places, share=True).requests
        assert len(requests) == runs
        assert sorted(len(request.asset_selection or ()) for request in requests) == [20 // runs] * runs


def test_a_source_with_much_work_and_one_that_failed_have_runs_of_their_own() -> None:
    ready = [work("a"), work("huge", size=LARGE + 1), work("b"), work("broken", attempt=1)]
    assert requested(divide(ready, [], 2, share=True)) == [["a", "b"], ["huge"], ["broken"]]
    assert requested(divide(ready, [], 1, share=True)) == [["a", "b"], ["huge"]], "no more than there are places"
    waiting_alone = active("c", status=dg.DagsterRunStatus.NOT_STARTED, tags=run_events.ALONE)
    assert requested(divide(ready, [waiting_alone], 2, share=True)) == [["a", "b"]], "it holds up only its like"


def test_a_source_that_failed_in_a_shared_run_and_many_days_have_runs_of_their_own() -> None:
    suspect = work("a")[1].suspected([key("a")])
    days = [DAY + timedelta(days=number) for number in range(40)]
    many = replace(work("b")[1], files=None, days=days)
    ready = [("landing_a", suspect), ("restate_b", many), work("c")]
    assert requested(divide(ready, [], 4, share=True)) == [["c"], ["a"], ["b"]]


def test_a_table_that_another_run_is_at_work_on_is_left_out() -> None:
    [request] = divide([work("a", 0, 1, "total", "mean")], [active("total")], 4, share=True).requests
    assert request.asset_selection == [key("a"), key("mean")]


def test_files_of_many_bytes_are_divided_among_the_places() -> None:
    ready = [work(f"s{number}", size=LARGE * 2 // 3) for number in range(6)]
    division = divide(ready, [], 4, share=True)
    assert [len(names) for names in requested(division)] == [1] * 4
    assert len(division.waiting) == 2


def requested(division: Division) -> list[list[str]]:
    """The tables of each run."""
    return [[each.path[-1] for each in request.asset_selection or ()] for request in division.requests]


def test_a_table_with_a_run_waits_and_the_others_go_on() -> None:
    division = divide([work("a"), work("b")], [active("a")], 4, share=True)
    assert [request.asset_selection for request in division.requests] == [[key("b")]]
    assert division.waiting == {"landing_a": IN_PROGRESS}


def test_while_a_shared_run_waits_for_a_place_work_gathers() -> None:
    queued = active("c", status=dg.DagsterRunStatus.NOT_STARTED, tags=run_events.SHARED)
    division = divide([work("a"), work("b")], [queued], 2, share=True)
    assert (division.requests, division.waiting) == ([], {"landing_a": NO_PLACE, "landing_b": NO_PLACE})
    started = active("c", "d", tags=run_events.SHARED)
    assert len(divide([work("a"), work("b")], [started, started], 2, share=True).requests) == 1, "it is the next one"


def test_chains_with_a_common_table_share_a_run() -> None:
    ready = [work(f"s{number:02}", 0, 1, *(["total"] if number % 7 == 0 else [])) for number in range(20)]
    of_total = [
        request for request in divide(ready, [], 2, share=True).requests if key("total") in (request.asset_selection or ())
    ]
    assert len(of_total) == 1


def test_a_run_names_the_causes_of_all_its_work() -> None:
    [request] = divide([work("a"), work("b")], [], 2, share=True).requests
    assert {tag: value for tag, value in request.tags.items() if "lands" in tag} == {
        "lakehouse/lands/a": "a:1",
        "lakehouse/lands/b": "b:1",
    }
    assert request.tags["lakehouse/look"] == "landing_a, landing_b"
    assert request.run_config["ops"]["bronze__a"] == {"config": {"days": ["2024-01-05"], "files": {"a.csv": "state"}}}


def test_without_shared_runs_each_table_has_its_own() -> None:
    requests = divide([work("a"), work("b", 1)], [], 2, share=False).requests
    assert [(request.partition_key, request.asset_selection) for request in requests] == [
        ("2024-01-05", [key("a")]),
        ("2024-01-05", [key("b")]),
    ]
    assert [request.run_key for request in requests] == ["a:1:0", "b:1:1"]


WORK = st.builds(
    work,
    st.sampled_from([f"s{number}" for number in range(12)]),
    st.integers(0, 2),
    st.sampled_from([1, LARGE // 3, LARGE + 1]),
    st.sampled_from(["x", "y", "z"]),
)


@given(
    st.lists(WORK, max_size=12, unique_by=lambda each: each[0]),
    st.lists(st.sampled_from([f"s{number}" for number in range(12)]), max_size=3),
    st.integers(1, 5),
)
def test_work_is_requested_once_or_waits_with_a_reason(ready: list[tuple[str, Ready]], busy: list[str], places: int) -> None:
    division = divide(ready, [active(name) for name in busy], places, share=True)
    requested = Counter(name for request in division.requests for name in request.run_config["ops"])
    assert set(requested.values()) <= {1}
    assert requested.keys() | {f"bronze__{look.removeprefix('landing_')}" for look in division.waiting} == {
        f"bronze__{each.subject}" for _, each in ready
    }
    assert not any(f"bronze__{name}" in requested for name in busy)
    shared = [request for request in division.requests if len(request.run_config["ops"]) > 1]
    of_tables = Counter(table for request in shared for table in request.asset_selection or ())
    assert set(of_tables.values()) <= {1}, "a table is in one of them"
    alone = {each.subject for _, each in ready if each.is_alone}
    assert not any(f"bronze__{name}" in request.run_config["ops"] for request in shared for name in alone)
    assert all(
        sum(each.size for _, each in ready if f"bronze__{each.subject}" in run.run_config["ops"]) <= LARGE for run in shared
    )
    free = [look for look, each in ready if each.subject not in busy]
    assert not free or division.requests, "something goes on"
