"""SIGKILL right after every single commit: the same command, again and again, ends where an unkilled one does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.ledger import store
from lakehouse_tests.acceptance.test_automation import FIRST, LATE

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.acceptance, pytest.mark.slow]

#: Runs the command line with every function that commits followed by a kill of this very process.
KILLED_AFTER_A_COMMIT = """
import json, os, pathlib, signal, sys
from lakehouse.ledger import store
from lakehouse.tables import delta

def changed_rows(commit):
    # A MERGE of which no clause fires copies the files it matched and commits that: killed after it, it would do so for ever.
    info = next((line["commitInfo"] for line in map(json.loads, commit.open()) if "commitInfo" in line), {})
    metrics = info.get("operationMetrics", {})
    kinds = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
    return info.get("operation") != "MERGE" or any(int(metrics.get(kind, 0)) for kind in kinds)

def commits():
    root = pathlib.Path(os.environ["LAKEHOUSE_ROOT"])
    return sum(changed_rows(commit) for commit in root.glob("*/*/_delta_log/*.json"))

def deadly(commit):
    def wrapped(*arguments, **options):
        before = commits()
        done = commit(*arguments, **options)
        if commits() > before:  # not after one that wrote nothing
            os.kill(os.getpid(), signal.SIGKILL)
        return done
    return wrapped

for module, names in ((delta, ("create", "append_once", "merge", "replace_days")), (store, ("append",))):
    for name in names:
        setattr(module, name, deadly(getattr(module, name)))

from lakehouse.cli import main
sys.argv = ["lakehouse", "replay", "sales"]
main()
"""


@pytest.mark.timeout(1800)
def test_killed_after_every_commit(tmp_path: Path) -> None:
    lakes = {}
    for name in ("killed", "unkilled"):
        landing = tmp_path / name / "landing" / "sales"
        landing.mkdir(parents=True)
        for day, text in ((5, FIRST), (6, LATE)):
            file = landing / f"arrival_date=2024-11-0{day}.csv"
            file.write_text(text)
            os.utime(file, (1_700_000_000, 1_700_000_000))
        lakes[name] = tmp_path / name

    assert _run(lakes["unkilled"], ["-m", "lakehouse", "replay", "sales"]) == 0
    kills = 0
    while (code := _run(lakes["killed"], ["-c", KILLED_AFTER_A_COMMIT])) == -signal.SIGKILL:
        kills += 1
        assert kills < 40
    assert code == 0
    assert kills >= 14
    for layer, table in (("bronze", "sales"), ("silver", "sales"), ("gold", "revenue"), ("ops", "sales_keys")):
        assert _rows(lakes["killed"], layer, table) == _rows(lakes["unkilled"], layer, table)
    ledgers = [_rows(lakes[name], "ops", "ingestions", ["ingestion_id", "status", "rows", "touched_days"]) for name in lakes]
    assert ledgers[0] == ledgers[1]


def _run(root: Path, arguments: list[str]) -> int:
    home = root / "dagster_home"
    home.mkdir(exist_ok=True)
    environment = os.environ | {"LAKEHOUSE_ROOT": str(root), "DAGSTER_HOME": str(home)}
    return subprocess.run([sys.executable, *arguments], env=environment, cwd=root, check=False).returncode


def _rows(root: Path, layer: str, table: str, columns: list[str] | None = None) -> list[Any]:
    rows = store.read(str(root / layer / table), columns)
    return sorted(repr(sorted(row.items())) for row in rows.to_pylist()) if rows is not None else []
