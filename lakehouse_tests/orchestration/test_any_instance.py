"""An instance without the project's ``dagster.yaml``: one run for each table at a time, dead runs, and what it lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.events import EngineEventData

from lakehouse.orchestration import launcher
from lakehouse_tests.support.cli import inherited
from lakehouse_tests.support.empty_deployment import instance_on_disk  # noqa: F401 (a fixture)

CHECKOUT = Path(__file__).parents[2]
POOL = "silver_orders"


def test_each_table_that_is_written_gets_a_limit_of_one_run(instance: dg.DagsterInstance) -> None:
    instance.event_log_storage.set_concurrency_slots("mine", 5)
    for _ in range(2):
        launcher.limit_pools(instance, [POOL, "gold_revenue", "mine"])
    limits = {limit.name: limit.limit for limit in instance.event_log_storage.get_pool_limits()}
    assert limits == {POOL: 1, "gold_revenue": 1, "mine": 5}, "a limit that a person has set stays"


def test_a_dead_run_holds_up_nobody(instance: dg.DagsterInstance, caplog: pytest.LogCaptureFixture) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    dead, alive, unreported = (
        instance.add_run(dg.DagsterRun(job_name="job", status=dg.DagsterRunStatus.STARTED)) for _ in range(3)
    )
    for run, pid in ((dead, process.pid), (alive, os.getpid())):
        instance.report_engine_event("Started", run, EngineEventData.in_process(pid))
    storage = instance.event_log_storage
    storage.set_concurrency_slots(POOL, 1)
    assert storage.claim_concurrency_slot(POOL, dead.run_id, "step").is_claimed
    going_on = launcher.still_alive(instance, instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])))
    assert {run.run_id for run in going_on} == {alive.run_id, unreported.run_id}
    assert storage.claim_concurrency_slot(POOL, alive.run_id, "step").is_claimed
    assert f"its process ({process.pid}) has ended without reporting" in caplog.text


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE])
def test_the_slot_of_a_run_that_was_killed_after_its_end_is_freed(
    status: dg.DagsterRunStatus, instance: dg.DagsterInstance
) -> None:
    storage = instance.event_log_storage
    launcher.limit_pools(instance, [POOL])
    ended, next_run = (instance.add_run(dg.DagsterRun(job_name="job", status=of)) for of in (status, dg.DagsterRunStatus.STARTED))
    assert storage.claim_concurrency_slot(POOL, ended.run_id, "step").is_claimed
    assert not storage.claim_concurrency_slot(POOL, next_run.run_id, "step").is_claimed
    launcher.limit_pools(instance, [POOL])
    assert storage.claim_concurrency_slot(POOL, next_run.run_id, "step").is_claimed


def test_a_process_that_is_killed_while_it_gives_a_run_up_leaves_it_to_the_next_one(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    dead = instance.add_run(dg.DagsterRun(job_name="job", status=dg.DagsterRunStatus.STARTED))
    instance.report_engine_event("Started", dead, EngineEventData.in_process(process.pid))
    instance.event_log_storage.set_concurrency_slots(POOL, 1)
    assert instance.event_log_storage.claim_concurrency_slot(POOL, dead.run_id, "step").is_claimed

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(instance, "report_run_failed", killed)
        with pytest.raises(KeyboardInterrupt):
            launcher.still_alive(instance, [dead])
    assert instance.event_log_storage.claim_concurrency_slot(POOL, "another", "step").is_claimed
    assert launcher.still_alive(instance, [dead]) == []


def test_what_an_instance_lacks_is_named_with_the_lines_to_add(
    instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lacks = launcher.missing_settings(instance)
    assert [text.partition(":")[0].partition(",")[0] for text in lacks] == [
        "a limit of one run for each table",
        "run monitoring",
        "a launcher that sees whether the process of a run lives",
        "a limit for the ticks of sensors that are kept",
    ]
    added: dict[str, object] = {}
    for text in lacks:
        added |= yaml.safe_load(text.rpartition("add '")[2].removesuffix("'"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    with dg.instance_for_test(temp_dir=str(tmp_path / "home"), overrides=added) as mended:
        assert launcher.missing_settings(mended) == []
    ours = yaml.safe_load((CHECKOUT / "dagster_home" / "dagster.yaml").read_text())
    with dg.instance_for_test(temp_dir=str(tmp_path / "home"), overrides=ours) as project:
        assert launcher.missing_settings(project) == []
    for _ in range(2):
        launcher.warn_of_missing_settings(instance)
    assert caplog.text.count("Dagster's instance lacks a limit of one run for each table") == 1


SALES = """\
order_id,store,ordered_at,amount,op
{key},north,2024-11-04T09:12:00Z,120.00,insert
"""


@pytest.mark.merge
def test_two_commands_at_once_on_an_empty_home_end_as_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    environment = inherited() | {"DAGSTER_HOME": str(tmp_path / "home"), "LAKEHOUSE_ROOT": "lakehouse_data"}

    def command(*arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "lakehouse", *arguments],
            cwd=tmp_path / "project",
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    (tmp_path / "project").mkdir()
    assert command("init").wait(60) == 0
    files = []
    for key in range(4):
        files.append(tmp_path / "project" / f"orders_{key}.csv")
        files[-1].write_text(SALES.format(key=key))
    first = command("run", "contracts/orders.yaml", str(files[0]))  # Dagster's SQLite storage is made by one process at a time
    assert first.wait(100) == 0
    running = [command("run", "contracts/orders.yaml", str(file)) for file in files[1:]]
    for process in running:
        said, _ = process.communicate(timeout=200)
        assert process.returncode == 0, said
    shown = command("gold", "show", "orders_daily", "2024-11-04", "--json")
    answer, _ = shown.communicate(timeout=60)
    assert '"480.00"' in answer, answer
