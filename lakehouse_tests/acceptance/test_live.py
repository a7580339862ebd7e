"""The stream as people run it: a process that is killed and started again, asked for its status, and stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lakehouse.bronze.ingest import Ingest
from lakehouse.live import batches
from lakehouse.live import status as live_status
from lakehouse_tests.support import tried
from lakehouse_tests.support.cli import lakehouse_command
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.live_lake import LiveLake, windows_of
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import ARRIVES, TUMBLING, Event, source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.merge]

_ENVIRONMENT = {"LAKEHOUSE_CONTRACTS": "contracts", "LAKEHOUSE_BUNDLED_CONTRACTS": "false"}


def session() -> Any:
    """Small files are ingested without Spark."""
    raise AssertionError


def lake_with_contracts(folder: Path) -> LiveLake:
    live = metric(TUMBLING, live={"trigger": "PT0S", "max_files_per_trigger": 1})
    sample = LiveLake(lake_in(folder), None, metrics=[live], sources={"orders": source()})
    (folder / "contracts").mkdir()
    for name, contract in (("orders", sample.sources["orders"]), ("hourly", sample.metrics[0])):
        content = contract.model_dump(mode="json", exclude_unset=True, exclude={"publication"})
        (folder / "contracts" / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return sample


def deliver(sample: LiveLake, *events: Event) -> None:
    sample.land_events(*events)
    Ingest(sample.lake, sample.sources["orders"], session, "run").day(ARRIVES)


def wait_for(what: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 120
    while not what():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)


def started(folder: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"LAKEHOUSE_ROOT": str(folder / "lake"), **_ENVIRONMENT}
    command = [sys.executable, "-m", "lakehouse", "live", "start", "hourly"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment)


def test_a_stream_that_is_killed_goes_on_without_loss_or_double_count(tmp_path: Path) -> None:
    sample = lake_with_contracts(tmp_path)
    events = [Event(f"{number}", 7 * number, number) for number in range(60)]
    deliver(sample, *events[:5])
    process = started(tmp_path)
    wait_for(lambda: bool(sample.live_numbers()), process)
    for number in range(5, 30, 5):  # it is in the midst of these
        deliver(sample, *events[number : number + 5])
    wait_for(lambda: len(batches.log(sample.lake).read()) > 2, process)
    process.kill()
    tried.count("kills")
    process.wait()
    assert "killed" in lakehouse_command(tmp_path, "live", "status", "hourly", **_ENVIRONMENT).stdout

    again = started(tmp_path)
    for number in range(30, 60, 5):
        deliver(sample, *events[number : number + 5])
    wait_for(lambda: sum(count for _, count in sample.live_numbers().values()) == len(events), again)
    expected: dict[Any, tuple[int, int]] = {}
    for event in events:
        ((start, _),) = windows_of(event, 60, 60)
        total, count = expected.get(start, (0, 0))
        expected[start] = (total + event.amount, count + 1)
    assert sample.live_numbers() == expected
    read = [entry.ingestion_id for entry in batches.log(sample.lake).read()]
    assert len(read) == len(set(read)) == 12
    known = live_status.of(sample.lake, "hourly")
    assert known is not None
    assert known.state == "running"
    shown = json.loads(lakehouse_command(tmp_path, "live", "status", "hourly", "--json", **_ENVIRONMENT).stdout)
    opened = shown["window_state"]
    assert (shown["state"], opened["events"]["created"], opened["windows"]["created"]) == ("running", len(events), len(expected))
    assert 0 < opened["open_windows"] <= opened["rows"]
    running = lakehouse_command(tmp_path, "live", "start", "hourly", **_ENVIRONMENT)
    assert (running.returncode, "stop it with 'lakehouse live stop hourly'" in running.stderr) == (1, True)
    assert "has stopped" in lakehouse_command(tmp_path, "live", "stop", "hourly", **_ENVIRONMENT).stdout
    out, errors = again.communicate(timeout=60)
    assert (again.returncode, "Stopped after batch" in out) == (0, True), errors
    assert "stopped" in lakehouse_command(tmp_path, "live", "status", **_ENVIRONMENT).stdout


@pytest.mark.proof
def test_sigterm_stops_a_stream_between_two_batches(tmp_path: Path) -> None:
    sample = lake_with_contracts(tmp_path)
    deliver(sample, Event("a", 1))
    process = started(tmp_path)
    wait_for(lambda: bool(sample.live_numbers()), process)
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, "Stopped after batch" in out) == (0, True), errors
    deliver(sample, Event("b", 2))
    drained = lakehouse_command(tmp_path, "live", "start", "hourly", "--drain", **_ENVIRONMENT)
    assert (drained.returncode, "Stopped after batch" in drained.stdout) == (0, True), drained.stderr
    assert [count for _, count in sample.live_numbers().values()] == [2]
