"""``lakehouse revert``, ``held`` and ``release``, as people use them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from lakehouse.cli.program import app
from lakehouse.contracts import load_catalog
from lakehouse.lake import Lake
from lakehouse.settings import Settings
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, without_spark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SOURCE = """dataset: events
primary_key: [id]
model: {fields: [{name: id, type: string}, {name: amount, type: int}]}
clocks: {event: at, arrival: seen}
"""
METRIC = """metric: total
source: events
measures: [{name: total, sql: sum(amount), type: long, additive: true}]
publication: {rollups: [week]}
"""
BY = ("--by", "anna", "--reason", "the partner withdrew it")


@pytest.fixture(name="run")
def _run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The command line of a lake in which 2024-01-01 was published as 10 and then as 100."""
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "events.yaml").write_text(SOURCE)
    (tmp_path / "contracts" / "total.yaml").write_text(METRIC)
    monkeypatch.setenv("LAKEHOUSE_ROOT", str(tmp_path / "lake"))
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(tmp_path / "contracts"))
    catalog = load_catalog(tmp_path / "contracts")
    with without_spark():
        numbers = ScriptedNumbers(
            Lake(Settings(root=str(tmp_path / "lake"))), catalog.metrics["total"], source=catalog.sources["events"]
        )
        for hour, value in ((0, 10), (2, 100)):
            numbers.at(1, hour)
            numbers.set(1, value)
            numbers.publish()

    def run(*arguments: str, fails: bool = False) -> str:
        done = CliRunner().invoke(app, [*([] if arguments[0] == "rollback" else ["gold"]), *arguments])
        assert (done.exit_code != 0) == fails, done.output
        return " ".join((done.output or f"{done.exception}").split()) + (f" {done.exception}" if fails else "")

    return run


@pytest.mark.merge
def test_a_number_is_put_back_listed_and_released(run: Callable[..., str]) -> None:
    text = run("revert", "total", "2024-01-01", "--to", "r1", *BY)
    assert "total_v2024-01-01.r3 is published, final: the partner withdrew it" in text
    assert "Later changes wait until 'lakehouse gold release total 2024-01-01'." in text
    assert "gold/total_weekly: 1 period pending, for the sensor 'restate' or --restate." in text
    again = run("revert", "total", "2024-01-01", "--to", "1", *BY)
    assert "2024-01-01: already the earlier number; nothing was published." in again
    held = run("held")
    assert "total 2024-01-01 put back to r1 by anna: the partner withdrew it" in held
    assert "later changes wait until 'lakehouse gold release total 2024-01-01'" in held
    assert json.loads(run("held", "total", "--json"))["reverted_to"] == "r1"
    assert "put back to r1 by anna: the partner withdrew it" in run("history", "total", "2024-01-01")
    assert "total follows silver again: 2024-01-01." in run("release", "total", "2024-01-01", *BY)
    assert run("held") == "Nothing is held."


@pytest.mark.merge
def test_a_metric_that_was_never_promoted_goes_back_to_a_time(run: Callable[..., str]) -> None:
    assert "'--to 2024-11-08T06:00:00Z' goes back to a time" in run("rollback", "total", *BY, fails=True)
    done = run("rollback", "total", "--to", "2024-01-01T01:00:00Z", *BY)
    assert "gold/total shows the numbers of 2024-01-01 01:00 UTC: 1 period put back." in done
    assert "They keep these numbers until 'lakehouse gold release total PERIOD'." in done
    assert "moved `latest` of total from the numbers of" in done, "with release notes for readers"
    assert "lakehouse gold release total PERIOD --by YOU --reason WHY" in done
    assert "total 10" in run("show", "total", "2024-01-01")
    assert "0 periods put back." in run("rollback", "total", "--to", "2024-01-01T01:00:00Z", *BY)
    early = run("rollback", "total", "--to", "2023-12-31", *BY)
    assert "0 periods put back. First published since, and left as they are: 1 period." in early


@pytest.mark.merge
def test_what_cannot_be_done_is_said_in_a_sentence(run: Callable[..., str]) -> None:
    unknown = run("revert", "total", "2024-01-01", "--to", "r7", *BY, fails=True)
    assert "total has no version r7 of 2024-01-01" in unknown
    assert "no day of total 2024-01-01 was reverted" in run("release", "total", "2024-01-01", *BY, fails=True)
    assert "'soon' is not the name of a version" in run("revert", "total", "2024-01-01", "--to", "soon", *BY, fails=True)
    assert "No contract has 'metric: sales'" in run("revert", "sales", "2024-01-01", "--to", "r1", *BY, fails=True)
