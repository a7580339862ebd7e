"""The stream of a managed metric as a run of Dagster: when the sensor starts it, and how a run of it ends."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from lakehouse.contracts import Catalog
from lakehouse.live import status
from lakehouse.live.status import StreamStatus
from lakehouse.orchestration.automation import live_runs
from lakehouse.orchestration.automation.alert_sensor import RunLook
from lakehouse.orchestration.build import build_definitions
from lakehouse_tests.support.live_lake import LIVE, LiveLake
from lakehouse_tests.support.sensor_ticks import SensorTicks
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import TUMBLING, Event, source

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.lake import Lake

MANAGED = {"live": {**LIVE["live"], "trigger": "PT0S", "managed": True}}
CATALOG = Catalog({"orders": source()}, {"hourly": metric(TUMBLING, **MANAGED)})


def add_run(ticks: SensorTicks, run_status: dg.DagsterRunStatus) -> None:
    tags = {live_runs.LIVE_TAG: "hourly"}
    ticks.instance.add_run(dg.DagsterRun(job_name="live_hourly", status=run_status, tags=tags))


def test_only_a_managed_metric_has_a_sensor(deployment: Lake) -> None:
    plain = Catalog({"orders": source()}, {"hourly": metric(TUMBLING, **LIVE)})
    names = [{each.name for each in build_definitions(deployment.settings, known).sensors or ()} for known in (plain, CATALOG)]
    assert names[1] - names[0] == {"live"}


def test_a_stream_is_started_when_nothing_runs_it(deployment: Lake, instance: dg.DagsterInstance) -> None:
    ticks = SensorTicks(deployment, CATALOG, "live_hourly", instance)
    [request] = ticks.run_requests()
    assert request.tags["dagster/max_retries"] == "0", "the sensor starts it again, Dagster itself does not"
    with status.running(deployment, "hourly"):
        assert ticks.skip_message() == "a process outside Dagster runs the stream"
    now = deployment.now()
    status.write(deployment, StreamStatus("hourly", 1, now, now))
    assert len(ticks.run_requests()) == 1, "it was killed"
    status.ask_to_stop(deployment, "hourly")
    assert "somebody has stopped it" in ticks.skip_message()
    with status.running(deployment, "hourly"):  # somebody starts it again
        pass
    assert len(ticks.run_requests()) == 1
    add_run(ticks, dg.DagsterRunStatus.STARTED)
    assert ticks.skip_message() == "a run of the stream is in progress"


def test_runs_that_fail_soon_are_started_less_and_less_often(
    deployment: Lake, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = SensorTicks(deployment, CATALOG, "live_hourly", instance)
    pauses = []
    for _ in range(9):
        add_run(ticks, dg.DagsterRunStatus.FAILURE)
        pauses.append(live_runs._pause(instance, "live_hourly"))
    assert [round(pause, -1) for pause in pauses] == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert "its last run failed soon; another one starts in" in ticks.skip_message()
    now = time.time()
    monkeypatch.setattr(live_runs.time, "time", lambda: now + 3700)
    assert len(ticks.run_requests()) == 1
    outcomes = RunLook(instance, CATALOG, None).outcomes([])
    assert (outcomes.runs, outcomes.subjects) == ([], set()), "the alert live_stopped tells"
    add_run(ticks, dg.DagsterRunStatus.CANCELED)
    monkeypatch.undo()
    assert len(ticks.run_requests()) == 1, "it was terminated"


@pytest.mark.spark
@pytest.mark.own_spark
@pytest.mark.merge
def test_a_run_that_is_terminated_stops_the_stream_behind_a_batch(lake: Lake, spark: Any, tmp_path: Path) -> None:
    sample = LiveLake(lake, spark, metrics=[metric(TUMBLING, **MANAGED)])
    sample.land_events(Event("a", 1, 5))
    sample.update("orders")
    job = build_definitions(lake.settings, sample.catalog).resolve_job_def("live_hourly")
    handler = signal.getsignal(signal.SIGINT)

    def terminate(instance: dg.DagsterInstance) -> None:
        """As Dagster does it when somebody terminates a run."""
        until = time.monotonic() + 120
        while time.monotonic() < until and not sample.live_numbers():
            time.sleep(0.1)
        instance.report_run_canceling(instance.get_runs()[0])
        os.kill(os.getpid(), signal.SIGINT)

    with dg.DagsterInstance.local_temp(f"{tmp_path}") as instance:
        thread = threading.Thread(target=terminate, args=[instance])
        thread.start()
        with pytest.raises(dg.DagsterExecutionInterruptedError):
            job.execute_in_process(instance=instance)
        thread.join()
        [run] = instance.get_runs(dg.RunsFilter(job_name="live_hourly"))
        assert (run.status, run.tags[live_runs.LIVE_TAG]) == (dg.DagsterRunStatus.CANCELED, "hourly")
    known = status.of(lake, "hourly")
    assert known is not None
    assert (known.state, known.problem, status.is_running(lake, "hourly")) == ("stopped", None, False)
    assert signal.getsignal(signal.SIGINT) == handler
    sample.land_events(Event("b", 2, 7))
    sample.update("orders")
    sample.stream()
    assert [total for total, _ in sample.live_numbers().values()] == [12]
