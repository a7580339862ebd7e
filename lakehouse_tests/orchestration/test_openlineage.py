"""OpenLineage events of a shared run, as a receiver gets them."""

from __future__ import annotations

import os
import uuid
from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.orchestration import openlineage
from lakehouse.orchestration.assets import source_assets
from lakehouse_tests.support.empty_deployment import instance_on_disk  # noqa: F401 (a fixture)
from lakehouse_tests.support.shared_fleet import FIRST, LATER, Fleet, line
from lakehouse_tests.support.webhook_server import webhook_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import dagster as dg

    from lakehouse_tests.support.webhook_server import Receiver

pytestmark = pytest.mark.merge


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No client of an earlier test, and none of what it notes in the environment."""
    monkeypatch.setattr(openlineage, "_silent_until", [0.0])
    openlineage._client.cache_clear()
    yield
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE__")]:
        del os.environ[name]
    openlineage._client.cache_clear()


@pytest.fixture(name="receiver")
def _receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with webhook_server() as receiver:
        monkeypatch.setenv("OPENLINEAGE_URL", receiver.url)
        monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "shop")
        yield receiver


def by_job(receiver: Receiver) -> dict[str, list[dict[str, Any]]]:
    events: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in receiver.taken:
        events[event["job"]["name"]].append(event)
    receiver.taken.clear()
    return events


def names(datasets: list[dict[str, Any]], root: str) -> list[str]:
    assert {dataset["namespace"] for dataset in datasets} == {"file"}
    return [dataset["name"].removeprefix(f"{root}/") for dataset in datasets]


def check_form(event: dict[str, Any]) -> None:
    """What the specification demands of a run event, and of each of its facets."""
    assert uuid.UUID(event["run"]["runId"])
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    assert event["producer"].startswith("https://")
    assert {"namespace", "name"} <= event["job"].keys()
    for owner in (event["run"], event["job"], *event["inputs"], *event["outputs"]):
        for facet in owner.get("facets", {}).values():
            assert all(facet[name].startswith("https://") for name in ("_producer", "_schemaURL"))


def test_each_table_of_a_run_is_a_job_with_its_tables_their_versions_and_what_was_restated(
    tmp_path: Path, instance: dg.DagsterInstance, receiver: Receiver
) -> None:
    fleet = Fleet(tmp_path, instance)
    root = fleet.lake.root
    fleet.land("a", FIRST, line("1", 1), line("2", 10, day=3))
    fleet.follow()
    events = by_job(receiver)
    assert sorted(events) == ["bronze/a", "gold/total_a", "gold/total_a_weekly", "silver/a"]
    [run] = fleet.runs
    for job, of_job in events.items():
        assert [event["eventType"] for event in of_job] == ["START", "COMPLETE"], job
        assert len({event["run"]["runId"] for event in of_job}) == 1
        assert {event["run"]["facets"]["parent"]["run"]["runId"] for event in of_job} == {run.run_id}
        assert {event["job"]["namespace"] for event in of_job} == {"shop"}
        for event in of_job:
            check_form(event)
    ends = {job: of_job[-1] for job, of_job in events.items()}
    assert names(ends["bronze/a"]["inputs"], root) == ["landing/a"]
    assert names(ends["silver/a"]["inputs"], root) == ["bronze/a"]
    assert names(ends["gold/total_a"]["inputs"], root) == ["silver/a"]
    assert names(ends["gold/total_a_weekly"]["inputs"], root) == ["gold/total_a"]
    [gold] = ends["gold/total_a"]["outputs"]
    assert names([gold], root) == ["gold/total_a"]
    version = fleet.lake.table("gold", "total_a").version()
    assert gold["facets"]["version"]["datasetVersion"] == f"{version}"
    assert {"name": "total", "type": "long"} in [
        {"name": field["name"], "type": field["type"]} for field in gold["facets"]["schema"]["fields"]
    ]
    [source] = gold["facets"]["columnLineage"]["fields"]["total"]["inputFields"]
    assert (source["name"], source["field"]) == (f"{root}/silver/a", "amount")
    assert gold["facets"]["lakehouse_restatement"]["restated"] == 0
    fleet.land("a", LATER, line("3", 5, arrival=6))
    fleet.follow()
    [again] = by_job(receiver)["gold/total_a"][-1]["outputs"]
    facet = again["facets"]["lakehouse_restatement"]
    assert facet["periods"] == [
        {
            "period": "2024-01-04",
            "revision": "total_a_v2024-01-04.r2",
            "state": "final",
            "reason": "late_data",
            "restates": True,
        }
    ]
    assert (facet["published"], facet["restated"]) == (1, 1)
    assert facet["_producer"]
    assert facet["_schemaURL"]


def test_a_step_that_fails_says_why_and_a_receiver_that_fails_stops_nothing(
    tmp_path: Path, instance: dg.DagsterInstance, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(tmp_path, instance)
    with monkeypatch.context() as broken:

        def fails(*_: object) -> None:
            msg = "no space left on device"
            raise OSError(msg)

        broken.setattr(source_assets, "update", fails)
        fleet.land("a", FIRST, line("1", 1))
        [request] = fleet.tick("landing")
        fleet.run(request)
    end = by_job(receiver)["silver/a"][-1]
    assert end["eventType"] == "FAIL"
    assert end["run"]["facets"]["errorMessage"]["message"] == "OSError: no space left on device"
    receiver.answers.extend([400] * 100)
    received = len(receiver.requests)
    monkeypatch.setattr(openlineage, "_silent_until", [0.0])
    fleet.follow()
    assert fleet.numbers()["total_a"]
    assert len(receiver.requests) == received + 1, "after an event that was refused, none is sent for some minutes"


def test_settings_that_the_client_does_not_accept_stop_no_step(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "localhost:5000")
    openlineage._client.cache_clear()
    assert openlineage._client() is None
    openlineage._client.cache_clear()
    assert "no OpenLineage events: its settings are not accepted" in caplog.text


def test_without_the_environment_of_openlineage_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in ({}, {"OPENLINEAGE_URL": "http://localhost:1", "OPENLINEAGE_DISABLED": "true"}):
        with monkeypatch.context() as environment:
            environment.delenv("OPENLINEAGE_URL", raising=False)
            for name, value in given.items():
                environment.setenv(name, value)
            openlineage._client.cache_clear()
            assert openlineage._client() is None
    openlineage._client.cache_clear()
