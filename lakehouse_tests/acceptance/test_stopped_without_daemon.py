"""``lakehouse run`` stopped in the middle of a step, with what ``init`` makes and without a daemon: the same command again."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from dagster._core.instance.ref import InstanceRef

from lakehouse_tests.support.cli import environment_of, lakehouse_command

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.merge]
CORRECTED = ("run", "orders", "samples/orders_corrected.csv")
SECONDS = 120


def in_a_step(folder: Path) -> bool:
    """Whether a run holds a place in a pool."""
    ref = InstanceRef.from_dir(str(folder / "dagster_home"))
    with dg.DagsterInstance.from_ref(ref) as instance:
        events = instance.event_log_storage
        return any(events.get_concurrency_info(key).claimed_slots for key in events.get_concurrency_keys())


@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGKILL, id="killed"), pytest.param(signal.SIGHUP, id="terminal closed", marks=pytest.mark.proof)],
)
def test_the_same_command_again_ends_with_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_remote: dict[str, str], number: signal.Signals
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster_home"))
    assert lakehouse_command(tmp_path, "init").returncode == 0
    first = lakehouse_command(tmp_path, "run", "contracts/orders.yaml", "samples/orders.csv", **spark_remote)
    assert first.returncode == 0, first.stderr
    command = [sys.executable, "-m", "lakehouse", *CORRECTED]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment_of(tmp_path, {}), stderr=subprocess.PIPE, text=True)
    while not in_a_step(tmp_path):
        assert process.poll() is None, "it ended before it could be stopped"
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(SECONDS) != 0
    again = lakehouse_command(tmp_path, *CORRECTED)
    assert again.returncode == 0, again.stderr
    history = lakehouse_command(tmp_path, "gold", "history", "orders_daily", "2024-11-04")
    assert "amount: 200.00 -> 262.00 (+62.00, +31.00 %)" in history.stdout
