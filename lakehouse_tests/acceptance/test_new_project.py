"""A newcomer in an empty folder: six lines from nothing to a number, its history after a second file, and the page."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from lakehouse_tests.support.cli import environment_of, lakehouse_command

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import CompletedProcess

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), pytest.mark.merge]
OWN = "sale,shop,when,amount\nA-1,north,2024-11-05 10:00,1.50\nA-2,south,2024-11-05 11:00,2.00\nA-3,south,2024-11-06 09:00,4.00\n"
CORRECTED = "sale,shop,when,amount\nA-2,south,2024-11-05 11:00,2.50\n"


def command(folder: Path, *arguments: str, **environment: str) -> CompletedProcess[str]:
    done = lakehouse_command(folder, *arguments, **environment)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_the_example_of_a_new_project_runs_twice(tmp_path: Path) -> None:
    command(tmp_path, "init")
    first = command(tmp_path, "run", "contracts/orders.yaml", "samples/orders.csv").stdout
    assert "5 rows ingested." in first
    assert "orders_daily_v2024-11-04.r1  live: orders 2 (new), amount 200.00 (new)  [initial]" in first
    second = command(tmp_path, "run", "orders", "samples/orders_corrected.csv").stdout
    assert "3 rows ingested." in second
    assert "orders_daily_v2024-11-04.r2  live: orders 2 -> 3 (+1, +50.00 %), amount 200.00 -> 262.00 (+62.00, +31.00 %)" in second
    assert "orders_daily_v2024-11-05.r2  live: orders 2 -> 1" in second
    assert "2024-11-06" not in second, "an unchanged day is not restated"
    again = command(tmp_path, "run", "orders", "samples/orders_corrected.csv").stdout
    assert "0 rows ingested; 1 known already." in again
    assert "No number changed." in again
    history = command(tmp_path, "gold", "history", "orders_daily", "2024-11-04").stdout
    assert "r2" in history
    assert "amount: 200.00 -> 262.00 (+62.00, +31.00 %)" in history


def test_the_example_of_a_day_that_is_sent_again_does_what_its_page_says(tmp_path: Path) -> None:
    command(tmp_path, "init", "--example", "late_arriving_reprocess")
    page = (tmp_path / "README.md").read_text()
    typed = [line.removeprefix("$ lakehouse ").split() for line in page.split("\n") if line.startswith("$ lakehouse run ")]
    assert typed == [["run", "contract.yaml", "events_run1.csv"], ["run", "contract.yaml", "events_run2.csv"]]
    first = command(tmp_path, *typed[0], LAKEHOUSE_CONTRACTS=".").stdout
    assert "2024-01-14: 2 rows, new\n2024-01-15: 2 rows, new\n" in first
    second = in_python(tmp_path, 'print(lakehouse.run("contract.yaml", ["events_run2.csv"]).replaced)')
    assert "(2, 3)" in second, "the same call in Python"
    again = command(tmp_path, *typed[0], LAKEHOUSE_CONTRACTS=".").stdout
    assert "2024-01-15: overwritten, 3 rows before, 2 now" in again
    assert "1 other event day: untouched" in again
    history = command(tmp_path, "gold", "history", "events_daily", "2024-01-15", LAKEHOUSE_CONTRACTS=".").stdout
    assert "amount: 49.90 -> 63.90 (+14.00, +28.06 %)" in history
    assert "amount: 63.90 -> 49.90" in history, "a third run by hand is a delivery of its own"


def in_python(folder: Path, line: str) -> str:
    environment = environment_of(folder, {"LAKEHOUSE_CONTRACTS": "."})
    script = [sys.executable, "-c", f"import lakehouse\n{line}"]
    return subprocess.run(script, capture_output=True, text=True, cwd=folder, env=environment, check=True).stdout


def test_an_own_file_gets_a_contract_and_a_number(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text(OWN)
    (tmp_path / "sales_corrected.csv").write_text(CORRECTED)
    command(tmp_path, "init")
    command(tmp_path, "infer", "sales.csv")
    first = command(tmp_path, "run", "contracts/sales.yaml", "sales.csv").stdout
    assert "sales_daily_v2024-11-05.r1  live: records 2 (new), amount 3.5000 (new)" in first
    second = command(tmp_path, "run", "contracts/sales.yaml", "sales_corrected.csv").stdout
    assert "amount 3.5000 -> 4.0000" in second
