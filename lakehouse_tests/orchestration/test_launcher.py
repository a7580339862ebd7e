"""Whether a run's process is alive: real processes, and the events in which Dagster's runs report theirs."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import psutil
import pytest
import yaml
from dagster._core.events import EngineEventData
from dagster._core.launcher.base import WorkerStatus

from lakehouse.orchestration.launcher import LocalRunLauncher

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """An instance with the settings that the project comes with."""
    lake = yaml.safe_load((CHECKOUT / "dagster_home" / "dagster.yaml").read_text())
    with dg.instance_for_test(temp_dir=str(tmp_path), overrides=lake) as instance:
        yield instance


def health(instance: dg.DagsterInstance, run: dg.DagsterRun) -> WorkerStatus:
    return instance.run_launcher.check_run_worker_health(run).status


def started(instance: dg.DagsterInstance, *pids: int) -> dg.DagsterRun:
    run = instance.add_run(dg.DagsterRun(job_name="job", status=dg.DagsterRunStatus.STARTED))
    for pid in pids:
        instance.report_engine_event("Started", run, EngineEventData.in_process(pid))
    return run


def test_the_projects_settings_name_it_and_monitoring_may_ask(home: dg.DagsterInstance) -> None:
    assert isinstance(home.run_launcher, LocalRunLauncher)
    assert home.run_launcher.supports_check_run_worker_health
    assert home.run_monitoring_enabled


def test_a_run_lives_as_long_as_its_process(home: dg.DagsterInstance) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    run = started(home, process.pid)
    assert health(home, run) is WorkerStatus.RUNNING
    process.kill()
    while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert health(home, run) is WorkerStatus.FAILED
    process.wait()
    assert health(home, run) is WorkerStatus.FAILED


def test_a_run_of_which_no_process_is_known_is_left_alone(home: dg.DagsterInstance) -> None:
    run = started(home)
    home.report_engine_event("a word of the daemon", run)
    assert health(home, run) is WorkerStatus.RUNNING


def test_another_process_with_the_same_number_is_another(home: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    run = started(home, psutil.Process().pid)
    assert health(home, run) is WorkerStatus.RUNNING
    later = (datetime.now(timezone.utc) + timedelta(hours=1)).timestamp()
    monkeypatch.setattr(psutil.Process, "create_time", lambda _: later)
    assert health(home, run) is WorkerStatus.FAILED
