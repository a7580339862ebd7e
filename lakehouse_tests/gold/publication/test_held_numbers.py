"""A number that fails its checks is held next to the published one until somebody decides, or silver gives another one (R8).

No Spark; the tables, the checks and the commits are real.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.calendar.periods import Kind
from lakehouse.gold.publication import candidates, held_numbers
from lakehouse.gold.publication.held_numbers import HoldError
from lakehouse.gold.publication.write_audit_publish import PublishResult, Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_due
from lakehouse.ledger import publications
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, columns_of_day, day, metric, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

AT_MOST_FIVE: dict[str, Any] = {"checks": {"change": [{"measure": "total", "absolute": 5}]}}


@pytest.fixture(autouse=True)
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def holding(lake, **changes: Any) -> ScriptedNumbers:
    """Day 1 is published as 10, and 100 is held for it; day 2 is published as 1."""
    numbers = ScriptedNumbers(lake, metric(**AT_MOST_FIVE, **changes))
    numbers.at(1)
    numbers.set(1, 10)
    numbers.set(2, 1)
    numbers.publish()
    numbers.set(1, 100)
    done = numbers.publish()
    assert (done.held, done.revisions) == ([day(1)], [])
    assert numbers.held() == [(1, 2, 100)]
    assert numbers.history(1) == [("r1", 10, "live", True)]
    return numbers


def test_a_number_that_is_proposed_again_beside_another_one_is_refused_again(lake) -> None:
    """Under ``adjust`` the revision of a closed number stays, so that both refusals name the same one."""
    numbers = ScriptedNumbers(lake, metric(**AT_MOST_FIVE, publication={"after_close": "adjust"}))
    numbers.at(9)
    numbers.set(1, 10)
    numbers.publish()
    for hour, value in enumerate((100, 12, 100), 1):
        numbers.at(9, hour)
        numbers.set(1, value)
        numbers.publish()
        if value == 100:
            assert numbers.held() == [(1, 1, 100)]
            numbers.drop(1, 1)
        assert numbers.publish().held == [], "the same number is not proposed again"
    assert [entry.revision for entry in held_numbers.rejected(lake, "total")] == [1, 1]
    assert [line[:2] for line in numbers.history(1)] == [("r1", 10), ("r1.a1", 2)]


def test_a_closed_number_is_compared_with_its_adjustments(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(**AT_MOST_FIVE, publication={"after_close": "adjust"}))
    numbers.at(9)
    numbers.set(1, 10)
    numbers.publish()
    for hour, value in enumerate((14, 18, 22), 1):
        numbers.at(9, hour)
        numbers.set(1, value)
        assert numbers.publish().held == [], "four more than what readers see"
    numbers.set(1, 10)
    assert numbers.publish().held == [day(1)], "twelve less, although the closed number is 10"


def test_only_the_number_that_failed_is_held(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(**AT_MOST_FIVE))
    numbers.at(1)
    for number in (1, 2, 3):
        numbers.set(number, 10)
    numbers.publish()
    for number, value in ((1, 15), (2, 16), (3, 5)):
        numbers.set(number, value)
    done = numbers.publish()
    assert [one.start for one in done.revisions] == [day(1), day(3)]
    assert numbers.held() == [(2, 2, 16)]
    [held] = candidates.held(lake, numbers.series)
    assert list(held.failed) == ["change"]
    assert "a restatement may move it by 5 at most" in held.failed["change"]
    assert [numbers.latest_total(number) for number in (1, 2, 3)] == [15, 10, 5]
    assert publications.of(lake, "total")[-1].validation == {"checks": 15, "failed": 1, "held": 1}


def test_it_is_held_again_and_shows_since_when(lake) -> None:
    numbers = holding(lake)
    [before] = candidates.held(lake, numbers.series)
    numbers.at(1, 9)
    assert numbers.publish().held == [day(1)]
    assert candidates.held(lake, numbers.series)[0].proposed_at == before.proposed_at
    numbers.set(1, 101)
    numbers.publish()
    [after] = candidates.held(lake, numbers.series)
    assert (after.revision, after.proposed_at) == (2, lake.now())
    assert numbers.held() == [(1, 2, 101)], "the newest only"


def test_signing_off(lake) -> None:
    numbers = holding(lake)
    numbers.at(3)
    done = numbers.sign_off(1, 2, "a big order")
    assert f"{done and done.name}" == "total_v2024-01-01.r2"
    assert numbers.history(1) == [("r1", 10, "live", False), ("r2", 100, "preliminary", True)]
    assert columns_of_day(numbers, 1, "signed_off_by", "sign_off_reason") == [(None, None), ("anna", "a big order")]
    assert numbers.held() == []
    entry = publications.of(lake, "total")[-1]
    assert (entry.signed_off_by, entry.sign_off_reason) == ("anna", "a big order")
    assert list(entry.trigger["overruled"]) == ["change"]
    assert numbers.publish(1).revisions == [], "it is what silver says"
    with pytest.raises(HoldError, match="no number of total is held for 2024-01-01"):
        numbers.sign_off(1, 2)


def test_signing_off_what_is_not_meant(lake) -> None:
    numbers = holding(lake)
    with pytest.raises(HoldError, match="the held number of total for 2024-01-01 is r2, not r3"):
        numbers.sign_off(1, 3)
    with pytest.raises(HoldError, match="no number of total is held for 2024-01-02"):
        numbers.sign_off(2, 2)
    with pytest.raises(HoldError, match="r2, not r1"):
        numbers.drop(1, 1)
    assert numbers.held() == [(1, 2, 100)]
    assert held_numbers.rejected(lake, "total") == []


def test_signing_off_a_number_that_has_been_overtaken(lake) -> None:
    """Such a candidate remains of a run that was stopped between publishing and removing its candidates."""
    numbers = holding(lake)
    [held] = candidates.held(lake, numbers.series)
    numbers.set(1, 12)
    numbers.publish()
    assert (numbers.latest_total(1), numbers.held()) == (12, [])
    candidates.propose(lake, numbers.series, [(held.draft, held.revision)], "run", lake.now())
    with pytest.raises(HoldError, match=r"the held number for 2024-01-01 would be r3 now, not r2"):
        numbers.sign_off(1, 2)
    assert numbers.latest_total(1) == 12
    numbers.publish()
    assert numbers.held() == [], "running the period again settles it"


def test_signing_off_what_readers_see_already(lake) -> None:
    numbers = holding(lake)
    [held] = candidates.held(lake, numbers.series)
    numbers.sign_off(1, 2)
    candidates.propose(lake, numbers.series, [(held.draft, held.revision)], "run", lake.now())
    assert numbers.sign_off(1, 2) is None
    assert len(numbers.history(1)) == 2
    assert numbers.held() == []


def test_a_held_number_that_silver_no_longer_gives_is_removed(lake) -> None:
    numbers = holding(lake)
    numbers.set(1, 10)
    assert numbers.publish() == PublishResult()
    assert numbers.held() == []
    assert numbers.history(1) == [("r1", 10, "live", True)]
    numbers.set(1, 100)
    numbers.publish()
    numbers.set(2, 2)
    numbers.set(1, 10)
    numbers.publish()
    assert numbers.held() == [], "also where another day is published in the same run"
    assert numbers.latest_total(2) == 2


def test_other_days_are_published_while_one_is_held(lake) -> None:
    numbers = holding(lake)
    numbers.set(2, 3)
    numbers.publish(2)
    assert numbers.latest_total(2) == 3
    assert numbers.held() == [(1, 2, 100)]


def test_a_held_day_goes_through_its_states_only_once_it_is_decided(lake) -> None:
    numbers = holding(lake)
    for number in (2, 8):
        numbers.at(number)
        assert day(1) in find_due(lake, contract(), numbers.series)
        assert numbers.close().held == [day(1)]
    assert numbers.history(1) == [("r1", 10, "live", True)]
    numbers.drop(1, 2)
    numbers.close()
    assert numbers.history(1) == [("r1", 10, "live", False), ("r2", 10, "final", True)]


def test_what_was_dropped_is_not_proposed_again_and_the_state_moves_on(lake) -> None:
    numbers = holding(lake)
    numbers.drop(1, 2)
    assert numbers.held() == []
    assert [(one.revision, one.by) for one in held_numbers.rejected(lake, "total")] == [(2, "anna")]
    assert numbers.publish() == PublishResult()
    numbers.at(2)
    numbers.close()
    assert numbers.held() == []
    assert numbers.history(1) == [("r1", 10, "live", False), ("r2", 10, "preliminary", True)]
    numbers.set(1, 101)
    numbers.publish()
    assert numbers.held() == [(1, 3, 101)], "another number is"
    numbers.set(1, 12)
    numbers.publish()
    assert numbers.latest_total(1) == 12


def test_the_number_after_a_drop_keeps_its_inputs(lake) -> None:
    """The number is the old one: its inputs are too, or it could not be reproduced (R10)."""
    numbers = holding(lake)
    names = ("inputs", "inputs_without", "silver_version", "known_through", "undecided_rows")
    [earlier] = columns_of_day(numbers, 1, *names)
    numbers.drop(1, 2)
    numbers.at(2)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(restatement_days.restatement_lineage, "record", lambda *_: "of silver now")
        patched.setattr(restatement_days.restatement_lineage, "undecided", lambda *_: {day(1): 7})
        numbers.close()
    assert columns_of_day(numbers, 1, *names) == [earlier, earlier]


def test_dropping_the_first_number_of_a_day(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(checks={"row_count": {"min": 2}}))
    numbers.at(1)
    numbers.set(1, 3)
    numbers.publish()
    assert numbers.held() == [(1, 1, 3)]
    numbers.drop(1, 1)
    for number in (1, 8):
        numbers.at(number)
        numbers.publish()
        assert (numbers.history(1), numbers.held()) == ([], [])


def test_dropping_twice_is_dropping_once(lake) -> None:
    numbers = holding(lake)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(candidates, "remove", lambda *_: None)  # stopped before it
        numbers.drop(1, 2)
    numbers.drop(1, 2)
    assert numbers.held() == []
    assert len(held_numbers.rejected(lake, "total")) == 1


@pytest.mark.parametrize("signed", [True, False])
def test_an_adjustment_may_be_held_too(lake, signed: bool) -> None:
    numbers = ScriptedNumbers(lake, metric(**AT_MOST_FIVE, publication={"after_close": "adjust", "rollups": ["week"]}))
    numbers.at(8)
    numbers.set(1, 10)
    numbers.publish()
    numbers.set(1, 12)
    numbers.publish()
    numbers.set(1, 100)
    numbers.publish()
    assert numbers.held() == [(1, 1, 100)]
    settled = [("r1", 10, "final", True), ("r1.a1", 2, "final", False)]
    assert numbers.history(1) == settled
    if signed:
        numbers.at(9)
        numbers.sign_off(1, 1)
        assert numbers.history(1) == [*settled, ("r1.a2", 88, "final", False)]
        assert [row[0] for row in columns_of_day(numbers, 1, "booked_on")] == [None, day(8), day(9)]
    else:
        numbers.drop(1, 1)
        assert numbers.publish() == PublishResult(), "the number stands with what was booked to it"
        assert numbers.history(1) == settled
    assert numbers.held() == []


def test_a_contract_that_is_relaxed_lets_it_through(lake) -> None:
    numbers = holding(lake)
    numbers.metric = metric()
    numbers.publish(1)
    assert (numbers.latest_total(1), numbers.held()) == (100, [])


def test_a_contract_that_measures_more_by_now(lake) -> None:
    numbers = holding(lake)
    two = [*numbers.metric.measures, numbers.metric.measures[0].model_copy(update={"name": "other"})]
    numbers.metric = numbers.metric.model_copy(update={"measures": two})
    assert numbers.held() == [(1, 2, 100)]
    numbers.set(1, 100)
    numbers.publish(1)
    assert numbers.held() == [(1, 2, 100)]
    numbers.sign_off(1, 2)
    assert columns_of_day(numbers, 1, "total", "other") == [(10, None), (100, 100)]


def test_each_roll_up_keeps_its_own(lake) -> None:
    """The held number of a day is not in the week: it is the sum of the published days."""
    numbers = holding(lake, publication={"rollups": ["week"]})
    week = replace(numbers.series, kind=Kind.WEEK)
    numbers.roll_up()
    assert numbers.history(1, week) == [("r1", 11, "live", True)]
    numbers.sign_off(1, 2)
    numbers.roll_up()
    assert numbers.history(1, week) == [("r1", 11, "live", False), ("r2", 101, "live", True)]


def test_the_run_that_signs_is_recorded(lake) -> None:
    numbers = holding(lake)
    numbers.sign_off(1, 2)
    assert columns_of_day(numbers, 1, "run_id")[-1] == (Run("signed").run_id,)
