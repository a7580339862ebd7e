"""A stream that Dagster runs, in a real deployment: started by itself, started again when it is killed, stopped by a person."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lakehouse.bronze.ingest import Ingest
from lakehouse.live import status as live_status
from lakehouse_tests.support import tried
from lakehouse_tests.support.cli import lakehouse_command
from lakehouse_tests.support.deployment import Deployment
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.live_lake import LiveLake
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import ARRIVES, TUMBLING, Event, source

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.merge, pytest.mark.proof]

_PATIENCE = 300


def session() -> Any:
    """Small files are ingested without Spark."""
    raise AssertionError


@pytest.mark.timeout(1800)
def test_a_managed_stream_runs_until_somebody_stops_it(tmp_path: Path) -> None:
    sample = LiveLake(lake_in(tmp_path), None, metrics=[metric(TUMBLING, live={"managed": True})], sources={"orders": source()})
    (tmp_path / "contracts").mkdir()
    for name, contract in (("orders", sample.sources["orders"]), ("hourly", sample.metrics[0])):
        content = contract.model_dump(mode="json", exclude_unset=True, exclude={"publication"})
        (tmp_path / "contracts" / f"{name}.yaml").write_text(yaml.safe_dump(content))
    contracts = {"LAKEHOUSE_CONTRACTS": f"{tmp_path / 'contracts'}", "LAKEHOUSE_BUNDLED_CONTRACTS": "false"}
    deployment = Deployment(tmp_path, **contracts)

    def deliver(*events: Event) -> None:
        sample.land_events(*events)
        Ingest(sample.lake, sample.sources["orders"], session, "run").day(ARRIVES)

    def total() -> int:
        return sum(total for total, _ in sample.live_numbers().values())

    def known() -> live_status.StreamStatus:
        found = live_status.of(sample.lake, "hourly")
        assert found is not None
        return found

    def streams(*statuses: str) -> list[str]:
        runs = [run for run in deployment.runs() if any(tag["key"] == "lakehouse/live" for tag in run["tags"])]
        return [run["runId"] for run in runs if run["status"] in statuses]

    deliver(Event("a", 1, 5))
    with deployment.running():
        deployment.until(lambda: total() == 5, _PATIENCE, "the first live number")
        first = known().pid
        os.kill(first, signal.SIGKILL)
        tried.count("kills")
        deliver(Event("b", 2, 7))
        deployment.until(lambda: total() == 12, _PATIENCE, "the number of the stream that was started again")
        assert (known().state, known().pid != first, len(streams("FAILURE"))) == ("running", True, 1)

        [run] = streams("STARTED")
        terminate = "mutation($id: String!) {terminateRun(runId: $id) {__typename}}"
        assert deployment.graphql(terminate, id=run)["terminateRun"]["__typename"] == "TerminateRunSuccess"
        deployment.until(lambda: streams("CANCELED") == [run], _PATIENCE, "the end of the run")
        assert (known().state, known().problem) == ("stopped", None)
        deliver(Event("c", 3, 11))
        deployment.until(lambda: total() == 23, _PATIENCE, "the stream after a run was terminated")

        out = lakehouse_command(tmp_path, "live", "stop", "hourly", **contracts).stdout
        assert "has stopped" in out
        deployment.until(lambda: len(streams("SUCCESS")) == 1, _PATIENCE, "the end of the last run")
        deliver(Event("d", 4, 13))
        drained = lakehouse_command(tmp_path, "live", "start", "hourly", "--drain", **contracts)
        assert (drained.returncode, "Dagster does not start it until" in drained.stdout) == (0, True), drained.stderr
        assert (total(), known().state, live_status.is_to_stop(sample.lake, "hourly")) == (36, "stopped", True)
