"""``lakehouse gold`` in this process, on numbers that were published without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from lakehouse.cli.program import app
from lakehouse.contracts import load_catalog
from lakehouse.gold.numbers import history
from lakehouse.gold.numbers.commands import _print_origin
from lakehouse.gold.numbers.page_views import completeness
from lakehouse.gold.numbers.published_table import RollupInputs
from lakehouse.lake import Lake
from lakehouse.lateness.completeness import Estimate
from lakehouse.settings import Settings
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, day, without_spark

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """dataset: events
primary_key: [id]
model: {fields: [{name: id, type: string}, {name: amount, type: int}]}
clocks: {event: at, arrival: seen}
"""
METRIC = """metric: total_of_all_tills_of_the_region
source: events
measures: [{name: total, sql: sum(amount), type: long, additive: true}]
checks: {change: [{measure: total, percent: 50}]}
"""
NAME = "total_of_all_tills_of_the_region"


@pytest.fixture(name="numbers")
def _numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedNumbers:
    """2024-01-01 was published as 10 and then as 12."""
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "events.yaml").write_text(SOURCE)
    (tmp_path / "contracts" / "total.yaml").write_text(METRIC)
    monkeypatch.setenv("LAKEHOUSE_ROOT", str(tmp_path / "lake"))
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(tmp_path / "contracts"))
    catalog = load_catalog(tmp_path / "contracts")
    lake = Lake(Settings(root=str(tmp_path / "lake")))
    numbers = ScriptedNumbers(lake, catalog.metrics[NAME], source=catalog.sources["events"])
    with without_spark():
        for hour, value in ((0, 10), (2, 12)):
            numbers.at(1, hour)
            numbers.set(1, value)
            numbers.publish()
    return numbers


def run(*words: str, fails: bool = False) -> tuple[list[str], str]:
    """The lines that a command prints, and its error."""
    done = CliRunner().invoke(app, ["gold", *words])
    assert (done.exit_code != 0) == fails, done.output
    return done.output.splitlines(), f"{done.exception}"


def test_a_version_that_was_never_published_is_answered_with_the_number_that_is_held(numbers: ScriptedNumbers) -> None:
    _, unknown = run("show", NAME, "2024-01-01", "--version", "r7", fails=True)
    assert f"{NAME} has no version r7 of 2024-01-01" in unknown
    assert "held" not in unknown
    numbers.set(1, 100)
    with without_spark():
        numbers.publish()
    assert numbers.held() == [(1, 3, 100)]
    _, refused = run("show", NAME, "2024-01-01", "--version", "r7", fails=True)
    assert f"{NAME} has no version r7 of 2024-01-01" in refused
    assert refused.count("a number is held: ") == 1
    lines, _ = run("drop", NAME, "2024-01-01", "--revision", "3", "--by", "anna", "--reason", "the till was broken")
    assert lines == [f"r3 of {NAME} for 2024-01-01 is dropped; the published number is kept."]
    assert numbers.held() == []


@pytest.mark.usefixtures("numbers")
def test_the_history_has_a_line_for_each_change_and_no_more() -> None:
    lines, _ = run("history", NAME, "2024-01-01")
    assert [line.split("  ")[0] for line in lines if not line.startswith(" ")] == ["r1", "r2"]
    assert not any("waited" in line or "booked" in line for line in lines), "no row waited, and nothing is an adjustment"
    assert [line.strip() for line in lines if line.startswith("    total:")] == [
        "total: 10 (new)",
        "total: 10 -> 12 (+2, +20.00 %)",
    ]


@pytest.mark.usefixtures("numbers")
def test_a_written_report_is_named_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "the differences of all days between the first and the latest version.md"
    lines, _ = run("diff", NAME, "2024-01-01", "--markdown", str(file))
    assert lines == [f"written: {file}"]
    assert "10" in file.read_text()
    assert "12" in file.read_text()


def test_a_number_that_was_made_from_others_names_them(numbers: ScriptedNumbers, capsys: pytest.CaptureFixture[str]) -> None:
    (first, _) = history.history(numbers.lake, numbers.series)[day(1)]
    _print_origin(first, None)
    assert "made from" not in capsys.readouterr().out
    days = RollupInputs({day(1): "r2", day(2): "r1"}, ["orders_v2024-01-01.r1.a1"])
    of_a_week = replace(first, row={**first.row, "made_from": f"{days}"})
    _print_origin(of_a_week, "c0ffee")
    printed = capsys.readouterr().out
    assert "  made from 2024-01-01 r2, 2024-01-02 r1; booked in it: orders_v2024-01-01.r1.a1\n" in printed
    assert printed.endswith(f", contract {first.row['contract_version']}, commit c0ffee\n")
    of_orders = RollupInputs(of_metrics={"orders": RollupInputs({day(1): "r3"})})
    _print_origin(replace(first, row={**first.row, "made_from": f"{of_orders}"}), None)
    assert "  made from orders r3\n" in capsys.readouterr().out


def test_a_share_of_all_rows_is_said_in_a_word() -> None:
    estimate = Estimate(share=0.975, low=0.9, high=1.0, coverage=0.9, periods=28, age_hours=5, horizon_hours=72)
    assert completeness(estimate) == (
        "About 97.5% of the rows that arrive within 3 days of the period's end are known "
        "(90.0% to 100.0% in 90% of cases, estimated from 28 earlier periods)."
    )
    assert completeness(replace(estimate, share=1)).startswith("All of the rows that arrive within 3 days")
