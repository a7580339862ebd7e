"""The numbers that a backfill restated go back to those before it, unless they have changed since. No Spark; real tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from lakehouse.cli.program import app
from lakehouse.contracts import Catalog
from lakehouse.gold.publication import held_numbers
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import revert
from lakehouse.gold.restatement.revert import UndoError
from lakehouse.operations.backfills import log as backfill_log
from lakehouse.operations.backfills import verification
from lakehouse.operations.backfills.plan import BackfillPlan
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, columns_of_day, day, metric, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.lake import Lake


@dataclass
class Filled:
    """Days 1 and 2 are published; a backfill restates day 1 and publishes day 3 first."""

    numbers: ScriptedNumbers
    plan: BackfillPlan

    def backfill(self) -> None:
        numbers = self.numbers
        run = Run("fill", backfill=self.plan.plan_id)
        days = [day(number) for number in (1, 2, 3)]
        restatement_days.restate(numbers.lake, numbers.source, numbers.series, numbers.session, days, run)

    def undo(self) -> dict[str, tuple[int, int, list[Any]]]:
        numbers = self.numbers
        catalog = Catalog({"events": numbers.source}, {numbers.metric.name: numbers.metric})
        done = verification.undo(numbers.lake, catalog, self.plan, Run("back", by="anna"), "wrong file")
        return {one.daily.name: (len(one.result.published), len(one.result.unchanged), list(one.first)) for one in done}


@pytest.fixture(name="filled")
def _filled(lake: Lake) -> Iterator[Filled]:
    with without_spark():
        numbers = ScriptedNumbers(lake, metric(publication={"final_after": 3, "after_close": "adjust"}))
        numbers.at(1)
        numbers.set(1, 10)
        numbers.set(2, 20)
        numbers.publish()
        numbers.set(1, 11)
        numbers.set(3, 30)
        plan = BackfillPlan(
            plan_id="backfill-1",
            target="total",
            source="events",
            metric="total",
            first_day=day(1),
            last_day=day(3),
            reason="why",
            runner_id="ben",
            code_version="c",
            contracts={},
            created_at=datetime(2024, 1, 1, tzinfo=timezone.utc),
        )
        backfill_log.store_plan(lake, plan)
        filled = Filled(numbers, plan)
        filled.backfill()
        yield filled


def test_the_days_go_back_and_those_published_first_stay(filled: Filled) -> None:
    numbers = filled.numbers
    assert filled.undo() == {"total": (1, 0, [day(3)])}
    assert [line[:2] for line in numbers.history(1)] == [("r1", 10), ("r2", 11), ("r3", 10)]
    assert [line[:2] for line in numbers.history(2)] == [("r1", 20)], "the backfill left it alone"
    told = columns_of_day(numbers, 1, "reason", "restatement_reason")[-1]
    assert told == ("rollback", "rollback: put back to r1 by anna: undo of backfill-1: wrong file")
    assert list(held_numbers.kept_periods(numbers.lake, "total")) == [day(1)]
    assert [entry.kind for entry in backfill_log.events(numbers.lake, "backfill-1")] == ["undone"]
    assert filled.undo() == {"total": (0, 1, [day(3)])}, "again, it changes nothing"
    assert len(numbers.history(1)) == 3


def test_numbers_that_have_changed_since_are_listed_and_nothing_goes_back(filled: Filled) -> None:
    numbers = filled.numbers
    numbers.set(1, 12)
    numbers.publish()
    with pytest.raises(UndoError, match=r"numbers have changed since: total_v2024-01-01\.r3 \(manual\); revert days with"):
        filled.undo()
    assert held_numbers.revert_log(numbers.lake).read() == []
    assert numbers.latest_total(1) == 12


def test_a_close_meanwhile_is_no_change_and_a_closed_day_gets_an_adjustment(filled: Filled) -> None:
    numbers = filled.numbers
    numbers.at(9)
    numbers.close()
    assert filled.undo() == {"total": (1, 0, [day(3)])}
    assert [line[:2] for line in numbers.history(1)] == [("r1", 10), ("r2", 11), ("r3", 11), ("r3.a1", -1)]


def test_of_two_backfills_the_later_one_is_undone_first(filled: Filled) -> None:
    numbers, first = filled.numbers, filled.plan
    numbers.at(9)
    numbers.close()
    filled.plan = first.model_copy(update={"plan_id": "backfill-2"})
    for total in (15, 16):  # a run that was repeated with newer rows
        numbers.set(1, total)
        filled.backfill()
    second, filled.plan = filled.plan, first
    with pytest.raises(UndoError, match=r"total_v2024-01-01\.r3\.a2 \(manual\)"):
        filled.undo()
    filled.plan = second
    assert filled.undo()["total"][:2] == (1, 0)
    assert [line[:2] for line in numbers.history(1)][-3:] == [("r3.a1", 4), ("r3.a2", 1), ("r3.a3", -5)]


def test_after_the_release_the_undone_number_is_computed_again(filled: Filled) -> None:
    numbers = filled.numbers
    filled.undo()
    revert.release(numbers.lake, numbers.series, numbers.series.period(day(1)), "ben", "right after all")
    numbers.publish()
    assert numbers.latest_total(1) == 11
    with pytest.raises(UndoError, match="numbers have changed since"):
        filled.undo()


def test_a_backfill_that_restated_nothing_has_nothing_to_undo(filled: Filled) -> None:
    filled.plan = filled.plan.model_copy(update={"plan_id": "backfill-3"})
    with pytest.raises(UndoError, match="backfill-3 has restated no number: there is nothing to undo"):
        filled.undo()


@pytest.mark.merge
def test_the_command_says_what_it_put_back(filled: Filled, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    lake = filled.numbers.lake
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "events.yaml").write_text(
        "dataset: events\nprimary_key: [id]\nclocks: {event: at, arrival: seen}\n"
        "model: {fields: [{name: id, type: string}, {name: amount, type: int}]}\n"
    )
    (tmp_path / "contracts" / "total.yaml").write_text(
        "metric: total\nsource: events\nmeasures: [{name: total, sql: sum(amount), type: long, additive: true}]\n"
    )
    monkeypatch.setenv("LAKEHOUSE_ROOT", str(lake.root))
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(tmp_path / "contracts"))
    done = CliRunner().invoke(app, ["backfill", "undo", "newest", "--by", "anna", "--reason", "wrong file"])
    assert done.exit_code == 0, done.output
    text = " ".join(done.output.split())
    assert "gold/total: put back 2024-01-01. first published by the backfill, without a number to go back to: 2024-01-03" in text
    status = CliRunner().invoke(app, ["backfill", "status", "newest"])
    assert "undone by anna: wrong file" in status.output
