"""SIGKILL right after every single commit: the same command, again and again, ends where an unkilled one does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.lake import Table
from lakehouse_tests.support import tried
from lakehouse_tests.support.sales_files import FIRST_SALES, LATE_SALES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), pytest.mark.merge, pytest.mark.proof]

#: Runs the command line in a process that is killed behind one of its commits.
KILLED_AFTER_A_COMMIT = """
import os
from lakehouse_tests.support.killed_command import signalled_after
signalled_after(int(os.environ["COMMITS_TO_LIVE"]))
from lakehouse.cli import main
main()
"""

#: A sale with a negative amount waits for a steward.
REFUND = "s22,north,2024-11-02T10:05:00Z,-4.00,2,2024-11-06T06:00:00Z,insert,0,\n"
COMMANDS = [
    ["replay", "sales"],
    ["quarantine", "accept", "sales", "--all", "--by", "anna", "--reason", "a refund"],
    ["redact", "sales", "--key", "s11", "--fields", "customer_id", "--by", "dora", "--reason", "asked to"],
    [
        "rebuild",
        "sales",
        "--start-date",
        "2024-11-01",
        "--end-date",
        "2024-11-04",
        "--reason",
        "to be sure",
        "--runner-id",
        "eve",
    ],
]


@pytest.mark.timeout(5400)
def test_killed_after_every_commit(tmp_path: Path) -> None:
    lakes = {}
    for name in ("killed", "unkilled"):
        landing = tmp_path / name / "landing" / "sales"
        landing.mkdir(parents=True)
        for day, text in ((5, FIRST_SALES), (6, LATE_SALES + REFUND)):
            file = landing / f"arrival_date=2024-11-0{day}.csv"
            file.write_text(text)
            os.utime(file, (1_700_000_000, 1_700_000_000))
        lakes[name] = tmp_path / name

    kills = []
    for command in COMMANDS:
        assert _run(lakes["unkilled"], ["-m", "lakehouse", *command]) == 0
        kills.append(0)
        again = command[0] == "rebuild"
        while (code := _run(lakes["killed"], ["-c", KILLED_AFTER_A_COMMIT, *command], 1 + again * kills[-1])) == -signal.SIGKILL:
            kills[-1] += 1
            tried.count("kills")
            assert kills[-1] < 120
            assert not again or _run(lakes["killed"], ["-m", "lakehouse", *command]) == 0
        assert code == 0
    assert kills[0] >= 16
    assert kills[1] >= 6
    assert kills[2] >= 4
    assert kills[3] >= 2
    compared = [("bronze", "sales", None), ("silver", "sales", None), ("ops", "sales_keys", None)]
    said = ["revenue", "revision", "is_latest", "state", "reason", "inputs", "content"]
    compared += [("gold", "revenue", ["event_date", *said]), ("gold", "revenue_weekly", ["period_start", *said])]
    compared += [("ops", "sales_dispositions", None)]
    compared += [("bronze", "sales_decisions", ["ingestion_id", "line_number", "verdict", "by", "reason", "number"])]
    compared += [("silver", "sales_quarantine", ["ingestion_id", "line_number", "quarantine_status", "quarantine_decided_by"])]
    compared += [("ops", "ingestions", ["ingestion_id", "status", "rows", "touched_days"])]
    compared += [("ops", "late_arrival_audit", ["event_id", "action_type", "original_value", "new_value", "actor"])]
    for layer, table, columns in compared:
        assert _rows(lakes["killed"], layer, table, columns) == _rows(lakes["unkilled"], layer, table, columns), table
    words = [row for row in _rows(lakes["unkilled"], "ops", "late_arrival_audit", ["action_type"]) if "late_merge" not in row]
    assert [sum(kind in row for row in words) for kind in ("steward", "redaction", "correction")] == [1, 1, 1]


def _run(root: Path, arguments: list[str], commits_to_live: int = 0) -> int:
    home = root / "dagster_home"
    home.mkdir(exist_ok=True)
    environment = os.environ | {"LAKEHOUSE_ROOT": str(root), "DAGSTER_HOME": str(home), "COMMITS_TO_LIVE": f"{commits_to_live}"}
    return subprocess.run([sys.executable, *arguments], env=environment, cwd=root, check=False).returncode


def _rows(root: Path, layer: str, table: str, columns: list[str] | None = None) -> list[Any]:
    rows = Table(str(root / layer / table)).read(columns)
    return sorted(repr(sorted(row.items())) for row in rows.to_pylist()) if rows is not None else []
