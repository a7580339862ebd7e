"""A number that cannot be computed is held by itself: the others are published, and it follows once it can be.

No Spark: the numbers are given by hand; the tables, the checks and the commits are real.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.gold.restatement import closing, reconciliation
from lakehouse.gold.restatement.pending import find_due, find_pending
from lakehouse.ledger import failures
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, day, lawful_versions, metric, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakehouse.lake import Lake


@pytest.fixture(autouse=True)
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def scripted(lake: Lake, **changes: object) -> ScriptedNumbers:
    numbers = ScriptedNumbers(lake, metric(**changes))
    numbers.at(1)
    for number in (1, 2, 3):
        numbers.set(number, 10 * number)
    return numbers


def test_it_is_held_with_measure_and_reason_and_the_others_are_published(lake: Lake) -> None:
    numbers = scripted(lake)
    numbers.poisoned = {day(2)}
    done = numbers.publish()
    assert (done.held, [one.start for one in done.revisions]) == ([day(2)], [day(1), day(3)])
    [outcome] = [one for one in done.outcomes if not one.passed]
    assert outcome.check == "computed"
    assert "total of 2024-01-02 cannot be computed (measure total: sum(amount) as bigint): the sum of" in (
        outcome.explanation or ""
    )
    assert "does not fit. Correct the rows, or the measure in the contract of total" in (outcome.explanation or "")
    assert numbers.history(2) == []


def test_once_it_can_be_computed_it_is_published_and_nothing_stays_recorded(lake: Lake) -> None:
    numbers = scripted(lake)
    numbers.poisoned = {day(2)}
    numbers.publish()
    numbers.poisoned = set()
    done = numbers.publish(2)
    assert [(one.check, one.passed) for one in done.outcomes if one.check == "computed"] == [("computed", True)]
    assert numbers.history(2) == [("r1", 20, "live", True)]
    assert failures.failing(lake, "total") == {}


def test_a_number_that_comes_out_as_it_was_ends_the_hold_too(lake: Lake) -> None:
    numbers = scripted(lake)
    numbers.publish()
    numbers.poisoned = {day(2)}
    assert numbers.publish(2).held == [day(2)]
    numbers.poisoned = set()
    done = numbers.publish(2)
    assert (done.revisions, done.held) == ([], [])
    assert failures.failing(lake, "total") == {}


def test_under_another_contract_it_is_tried_again_by_itself_and_under_the_same_it_is_not(lake: Lake) -> None:
    numbers = scripted(lake)
    numbers.poisoned = {day(2)}
    numbers.publish()
    before = find_pending(lake, numbers.series)
    assert before.starts == frozenset()
    numbers.metric = metric(type="decimal(38,2)")
    pending = find_pending(lake, numbers.series)
    assert (pending.starts, pending.cause != before.cause) == ({day(2)}, True)


def test_meanwhile_it_is_not_due_and_what_it_waits_for_says_why(lake: Lake) -> None:
    numbers = scripted(lake)
    numbers.publish()
    numbers.poisoned = {day(2)}
    numbers.publish(2)
    numbers.at(20)
    assert day(2) not in find_due(lake, numbers.source, numbers.series)
    [waits] = closing.waits_for(lake, numbers.source, numbers.series, [numbers.series.period(day(2))]).values()
    assert waits[0].startswith("total of 2024-01-02 cannot be computed")
    numbers.poisoned = set()
    numbers.publish(2)
    assert numbers.history(2)[-1] == ("r2", 20, "final", True), "it makes up for the states that it has missed"


def test_a_longer_period_waits_for_the_day_and_says_so(lake: Lake) -> None:
    numbers = scripted(lake, publication={"rollups": ["week"]})
    numbers.poisoned = {day(2)}
    numbers.publish()
    numbers.at(60)
    numbers.close()
    numbers.roll_up()
    week = Series(numbers.metric, Kind.WEEK)
    assert numbers.history(1, week)[-1][1:3] == (40, "preliminary")
    [waits] = closing.waits_for(lake, numbers.source, week, [week.period(day(1))]).values()
    assert waits == ["the new number is held: 2024-01-02"]
    numbers.poisoned = set()
    numbers.publish(2)
    numbers.roll_up()
    assert numbers.history(1, week)[-1][1:3] == (60, "final")


def test_the_difference_to_silver_is_explained(lake: Lake) -> None:
    numbers = scripted(lake)
    numbers.publish()
    numbers.poisoned = {day(2)}
    numbers.publish(2)
    [outcome] = reconciliation.check_published(lake, numbers.series, [day(2)])
    assert outcome.passed
    assert "the new number is held: total of 2024-01-02 cannot be computed" in (outcome.explanation or "")


_DAYS = st.sets(st.integers(1, 9), max_size=6)
_STEPS = st.lists(st.tuples(_DAYS, _DAYS, st.integers(0, 3)), min_size=1, max_size=4)


@law(60, in_each_run=5)
@given(_STEPS)
def test_poisoned_days_change_nothing_of_what_others_publish(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[set[int], set[int], int]]
) -> None:
    """Each step sets the poisoned days, changes some days, and lets days pass; a twin without poison does the same."""
    poisoned, clean = (_begun(tmp_path_factory.mktemp(name)) for name in ("poisoned", "clean"))
    ever = set[int]()
    now = 1
    for bad, changed, passed in steps:
        now += passed
        ever |= bad
        poisoned.poisoned = {day(number) for number in bad}
        for sample in (poisoned, clean):
            sample.at(now)
            for number in changed:
                sample.set(number, 10 * now + number)
            sample.publish()
    for number in set(range(1, 10)) - ever:
        assert poisoned.history(number) == clean.history(number)
    assert {(start - day(1)).days + 1 for start in failures.failing(poisoned.lake, "total")} == {
        number for number in steps[-1][0] if day(number) in poisoned.by_day or day(number) in poisoned.starts()
    }
    poisoned.poisoned = set()
    poisoned.publish()
    totals = [
        {line[0]: line[2] for line in lawful_versions(sample.lake, sample.series) if line[4]} for sample in (poisoned, clean)
    ]
    assert totals[0] == totals[1]
    assert failures.failing(poisoned.lake, "total") == {}


def _begun(root: Path) -> ScriptedNumbers:
    numbers = ScriptedNumbers(lake_in(root), metric())
    numbers.at(1)
    return numbers
