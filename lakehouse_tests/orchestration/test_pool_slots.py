"""Places in pools of runs that were killed: freed by the next run that needs one, without a daemon."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import psutil
import pytest
import yaml
from dagster._core.events import EngineEventData

from lakehouse.orchestration import event_storage

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).parents[2]
POOL = "silver_orders"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """An instance with the settings that the project comes with, and its pools of one."""
    lake = yaml.safe_load((CHECKOUT / "dagster_home" / "dagster.yaml").read_text())
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.setattr(event_storage, "_SECONDS_BETWEEN_LOOKS", 0.0)
    with dg.instance_for_test(temp_dir=str(tmp_path), overrides=lake) as instance:
        instance.event_log_storage.set_concurrency_slots(POOL, 1)
        yield instance


def started(instance: dg.DagsterInstance, *pids: int) -> str:
    run = instance.add_run(dg.DagsterRun(job_name="job", status=dg.DagsterRunStatus.STARTED))
    for pid in pids:
        instance.report_engine_event("Started", run, EngineEventData.in_process(pid))
    return str(run.run_id)


def claims(instance: dg.DagsterInstance, run_id: str) -> bool:
    return bool(instance.event_log_storage.claim_concurrency_slot(POOL, run_id, "step").is_claimed)


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_killed_run_gives_its_place_to_the_next_one(home: dg.DagsterInstance, caplog: pytest.LogCaptureFixture) -> None:
    pid = ended_process()
    killed, following = started(home, pid), started(home, psutil.Process().pid)
    assert claims(home, killed)
    assert not claims(home, following), "the place is freed, and claimed when it is asked for again"
    assert claims(home, following)
    assert home.get_run_by_id(killed).status is dg.DagsterRunStatus.FAILURE
    assert f"its process ({pid}) has ended without reporting" in caplog.text


def test_a_killed_run_that_waited_holds_up_nobody(home: dg.DagsterInstance) -> None:
    living = psutil.Process().pid
    first, waited, following = started(home, living), started(home, ended_process()), started(home, living)
    assert claims(home, first)
    assert not claims(home, waited)
    home.event_log_storage.free_concurrency_slots_for_run(first)
    assert not claims(home, following)
    assert claims(home, following)


def test_a_run_that_has_ended_keeps_no_place(home: dg.DagsterInstance) -> None:
    living = psutil.Process().pid
    done, following = started(home, living), started(home, living)
    assert claims(home, done)
    home.report_run_failed(home.get_run_by_id(done))
    assert not claims(home, following)
    assert claims(home, following)


def test_a_run_that_goes_on_is_waited_for_and_named_once(home: dg.DagsterInstance, caplog: pytest.LogCaptureFixture) -> None:
    living = psutil.Process().pid
    working, waiting = started(home, living), started(home, living)
    assert claims(home, working)
    with caplog.at_level(logging.WARNING):
        assert not any(claims(home, waiting) for _ in range(3))
    assert caplog.text.count(f"{POOL} is in use: waits for run {working[:8]} (process {living}, since ") == 1
    assert home.get_run_by_id(working).status is dg.DagsterRunStatus.STARTED
    home.event_log_storage.free_concurrency_slots_for_run(working)
    assert claims(home, waiting)
