"""``lakehouse audit`` and ``rebuild`` in this process, on a lake that delta-rs wrote. No Spark."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from lakehouse.cli.program import app
from lakehouse.contracts import load_catalog
from lakehouse.lake import Lake
from lakehouse.settings import Settings
from lakehouse.silver import audit
from lakehouse.silver.commands import _print_preview
from lakehouse.silver.rebuild import DayDifference, RebuildPreview
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.silver_log import append_to_silver

if TYPE_CHECKING:
    from pathlib import Path


def run(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*words])
    assert done.exit_code == code, done.output
    return done.output


def test_the_audit_shows_the_newest_rows_and_counts_those_that_it_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEHOUSE_ROOT", str(tmp_path / "lake"))
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(tmp_path))
    lake, sales = Lake(Settings(root=str(tmp_path / "lake"))), load_catalog(None).sources["sales"]
    append_to_silver(lake, *((f"s{number}", number + 1, 1) for number in range(3)), source=sales)
    audit.follow(lake, sales, [])
    newest = run("audit", "sales", "--limit", "1")
    assert [key for key in ("s0 on", "s1 on", "s2 on") if key in newest] == ["s2 on"]
    assert newest.endswith("3 rows, 2 older ones not shown (--limit).\n")
    every = run("audit", "sales")
    assert [key for key in ("s0 on", "s1 on", "s2 on") if key in every] == ["s0 on", "s1 on", "s2 on"]
    assert every.endswith("\n3 rows.\n")
    listed = [json.loads(line)["event_id"] for line in run("audit", "sales", "--json").splitlines()]
    assert listed == ["s0", "s1", "s2"]
    assert [json.loads(run("audit", "sales", "--json", "--limit", "1"))["event_id"]] == ["s2"]


@pytest.mark.parametrize("left_out", ["--start-date", "--end-date", "--reason"])
def test_a_rebuild_needs_both_days_and_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_out: str) -> None:
    monkeypatch.setenv("LAKEHOUSE_ROOT", str(tmp_path / "lake"))
    words = {"--start-date": "2024-02-01", "--end-date": "2024-02-02", "--reason": "a bug was fixed"}
    given = [word for name, value in words.items() if name != left_out for word in (name, value)]
    assert "pass --start-date, --end-date and --reason" in run("rebuild", "sales", *given, code=2)


def test_a_dry_run_counts_the_days_that_would_change(capsys: pytest.CaptureFixture[str]) -> None:
    _print_preview(contract(), RebuildPreview(3, 1, []), ["total"])
    evaluated = "3 event days of events evaluated: none would change; 1 row would be judged differently. Nothing was written.\n"
    assert capsys.readouterr().out == evaluated
    differing = [DayDifference(date(2024, 2, day), (5, 6), 2) for day in (1, 4)]
    _print_preview(contract(), RebuildPreview(3, 1, differing), ["total"])
    printed = capsys.readouterr().out
    assert printed.startswith(evaluated.replace("none would", "2 would"))
    assert "lakehouse change impact events --from 2024-02-01 --to 2024-02-04\n" in printed
    assert "lakehouse rebuild events --start-date 2024-02-01 --end-date 2024-02-04 --reason WHY\n" in printed
