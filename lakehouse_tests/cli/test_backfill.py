"""``lakehouse backfill plan`` as people type it: which days, and the rows that the watermark holds. No Spark."""

from __future__ import annotations

import json
from datetime import date
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.operations.backfills import commands
from lakehouse.operations.backfills.verification import BackfillVerification
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.forked_cli import lakehouse_command
from lakehouse_tests.support.sales_files import deliver_sales

if TYPE_CHECKING:
    from pathlib import Path

HISTORY = ("--from", "2024-11-01", "--through", "2024-11-05", "--reason", "the harbour shop was bought", "--by", "bob")


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deployment")
    deliver_sales(lake_in(folder), date(2024, 11, 20), "h1@2024-11-01", "h2@2024-11-02", "s1@2024-11-19")
    return folder


def plan(folder: Path, *words: str) -> tuple[int, str]:
    landing = {"LAKEHOUSE_LANDING": str(folder / "landing")}
    done = lakehouse_command(folder, "backfill", "plan", "sales", *words, **landing)
    assert "Traceback" not in done.stderr
    return done.returncode, " ".join((done.stdout + done.stderr).replace("│", " ").split())


@pytest.mark.merge
def test_the_plan_says_what_the_watermark_holds_and_who_admits_it(folder: Path) -> None:
    code, text = plan(folder, *HISTORY)
    assert code == 0, text
    assert "backfill of sales, event days 2024-11-01 to 2024-11-05" in text
    assert (
        "2 rows of 1 file came later after the event than the cutoff allows, which holds or drops them; "
        "to admit them as history, plan again with --admit-history" in text
    )
    code, text = plan(folder, *HISTORY, "--admit-history")
    assert code == 0, text
    assert "2 rows of 1 file came later after the event than the cutoff allows: bob admits them as history" in text
    code, text = plan(
        folder, "--start-date", "2024-11-01", "--end-date", "2024-11-05", "--reason", "x", "--runner-id", "eve", "--json"
    )
    made = json.loads(text)
    assert (made["clock"], made["runner_id"], [file["beyond"] for file in made["files"]]) == ("event", "eve", [2])


@pytest.mark.merge
@pytest.mark.parametrize(
    ("days", "message"),
    [
        (("--arrival-from", "2024-11-01", "--end-date", "2024-11-05"), "not both"),
        (("--arrival-from", "2024-11-01"), "a plan needs the first and the last day: --arrival-from and --arrival-through"),
        ((), "a plan needs the first and the last day: --start-date and --end-date"),
        (("--start-date", "2024-11-05", "--end-date", "2024-11-01"), "--end-date is before --start-date"),
        (
            ("--arrival-from", "2024-11-01", "--arrival-through", "2024-11-05", "--where", "store = 'north'"),
            "here give event days: --start-date, --end-date",
        ),
    ],
)
def test_the_days_are_one_range_of_one_clock(folder: Path, days: tuple[str, ...], message: str) -> None:
    code, text = plan(folder, *days, "--reason", "x")
    assert (code, message in text) == (2, True), text


def test_a_finished_backfill_counts_the_rows_that_the_contract_does_not_admit(capsys: pytest.CaptureFixture[str]) -> None:
    plan: Any = SimpleNamespace(plan_id="b1", metric=None, source="sales", consumers=[], reason="the harbour shop")
    before = {
        "files": 1,
        "rows": 5,
        "malformed": 1,
        "unread_reason": "amount: x is not a decimal",
        "event_days": 2,
        "published": {},
    }
    now = before | {"not_admitted": [["quarantined", "rule small", 2], ["rejected", "rule positive", 1]]}
    commands.print_verdict(BackfillVerification(), now, plan)
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        "1 files with 5 rows ingested, 2 event days affected, 1 malformed: amount: x is not a decimal; 'lakehouse rows sales "
        "--malformed' lists them; 2 waiting for a steward (rule small), 1 rejected (rule positive); 'lakehouse quarantine list "
        "sales' lists those that wait"
    ) in printed
    commands.print_verdict(BackfillVerification(), before, plan)
    assert "'lakehouse rows sales --malformed' lists them" in capsys.readouterr().out, "as an earlier release recorded it"
