"""A number that fails its checks stays beside the published one until somebody decides, or it is no longer what silver says (R8).

No Spark; the tables, the checks and the commits are real.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.calendar.periods import Kind
from lakehouse.gold.publication import candidates, rejected_candidates
from lakehouse.gold.publication.sign_off import HoldError
from lakehouse.gold.publication.write_audit_publish import PublishResult, Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_due
from lakehouse.ledger import publications
from lakehouse_tests.support.numbers_without_spark import Desk, day, metric, said_of, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

AT_MOST_FIVE: dict[str, Any] = {"checks": {"change": [{"measure": "total", "absolute": 5}]}}


@pytest.fixture(autouse=True)
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def holding(settings, **said: Any) -> Desk:
    """Day 1 says 10, and 100 is held for it; day 2 says 1."""
    desk = Desk(settings, metric(**AT_MOST_FIVE, **said))
    desk.at(1)
    desk.say(1, 10)
    desk.say(2, 1)
    desk.publish()
    desk.say(1, 100)
    done = desk.publish()
    assert (done.held, done.revisions) == ([day(1)], [])
    assert desk.held() == [(1, 2, 100)]
    assert desk.history(1) == [("r1", 10, "live", True)]
    return desk


def test_only_the_number_that_failed_is_held(settings) -> None:
    desk = Desk(settings, metric(**AT_MOST_FIVE))
    desk.at(1)
    for number in (1, 2, 3):
        desk.say(number, 10)
    desk.publish()
    for number, value in ((1, 15), (2, 16), (3, 5)):
        desk.say(number, value)
    done = desk.publish()
    assert [one.start for one in done.revisions] == [day(1), day(3)]
    assert desk.held() == [(2, 2, 16)]
    [held] = candidates.held(settings, desk.series)
    assert list(held.failed) == ["change"]
    assert "a restatement may move it by 5 at most" in held.failed["change"]
    assert [desk.shown(number) for number in (1, 2, 3)] == [15, 10, 5]
    assert publications.of(settings, "total")[-1].validation == {"checks": 9, "failed": 1, "held": 1}


def test_it_is_held_again_and_tells_since_when(settings) -> None:
    desk = holding(settings)
    [before] = candidates.held(settings, desk.series)
    desk.at(1, 9)
    assert desk.publish().held == [day(1)]
    assert candidates.held(settings, desk.series)[0].proposed_at == before.proposed_at
    desk.say(1, 101)
    desk.publish()
    [after] = candidates.held(settings, desk.series)
    assert (after.revision, after.proposed_at) == (2, settings.clock())
    assert desk.held() == [(1, 2, 101)], "the newest only"


def test_signing_off(settings) -> None:
    desk = holding(settings)
    desk.at(3)
    done = desk.sign_off(1, 2, "a big order")
    assert f"{done and done.name}" == "total_v2024-01-01.r2"
    assert desk.history(1) == [("r1", 10, "live", False), ("r2", 100, "preliminary", True)]
    assert said_of(desk, 1, "signed_off_by", "sign_off_reason") == [(None, None), ("anna", "a big order")]
    assert desk.held() == []
    entry = publications.of(settings, "total")[-1]
    assert (entry.signed_off_by, entry.sign_off_reason) == ("anna", "a big order")
    assert list(entry.trigger["overruled"]) == ["change"]
    assert desk.publish(1).revisions == [], "it is what silver says"
    with pytest.raises(HoldError, match="nothing of total is held for 2024-01-01"):
        desk.sign_off(1, 2)


def test_signing_off_what_is_not_meant(settings) -> None:
    desk = holding(settings)
    with pytest.raises(HoldError, match="what is held of total for 2024-01-01 is r2, not r3"):
        desk.sign_off(1, 3)
    with pytest.raises(HoldError, match="nothing of total is held for 2024-01-02"):
        desk.sign_off(2, 2)
    with pytest.raises(HoldError, match="r2, not r1"):
        desk.drop(1, 1)
    assert desk.held() == [(1, 2, 100)]
    assert rejected_candidates.of(settings, "total") == []


def test_signing_off_a_number_that_has_been_overtaken(settings) -> None:
    """Such a candidate is left behind by a run that was stopped between publishing and tidying up."""
    desk = holding(settings)
    [held] = candidates.held(settings, desk.series)
    desk.say(1, 12)
    desk.publish()
    assert (desk.shown(1), desk.held()) == (12, [])
    candidates.propose(settings, desk.series, [(held.draft, held.revision)], "run", settings.clock())
    with pytest.raises(HoldError, match=r"what is held for 2024-01-01 would be r3 now, not r2"):
        desk.sign_off(1, 2)
    assert desk.shown(1) == 12
    desk.publish()
    assert desk.held() == [], "running the period again settles it"


def test_signing_off_what_readers_see_already(settings) -> None:
    desk = holding(settings)
    [held] = candidates.held(settings, desk.series)
    desk.sign_off(1, 2)
    candidates.propose(settings, desk.series, [(held.draft, held.revision)], "run", settings.clock())
    assert desk.sign_off(1, 2) is None
    assert len(desk.history(1)) == 2
    assert desk.held() == []


def test_a_held_number_that_silver_does_not_say_any_more_vanishes(settings) -> None:
    desk = holding(settings)
    desk.say(1, 10)
    assert desk.publish() == PublishResult()
    assert desk.held() == []
    assert desk.history(1) == [("r1", 10, "live", True)]
    desk.say(1, 100)
    desk.publish()
    desk.say(2, 2)
    desk.say(1, 10)
    desk.publish()
    assert desk.held() == [], "also where another day is published in the same run"
    assert desk.shown(2) == 2


def test_other_days_are_published_beside_a_held_one(settings) -> None:
    desk = holding(settings)
    desk.say(2, 3)
    desk.publish(2)
    assert desk.shown(2) == 3
    assert desk.held() == [(1, 2, 100)]


def test_a_held_day_goes_through_its_states_only_once_it_is_decided(settings) -> None:
    desk = holding(settings)
    for number in (2, 8):
        desk.at(number)
        assert day(1) in find_due(settings, desk.series)
        assert desk.close().held == [day(1)]
    assert desk.history(1) == [("r1", 10, "live", True)]
    desk.drop(1, 2)
    desk.close()
    assert desk.history(1) == [("r1", 10, "live", False), ("r2", 10, "final", True)]


def test_what_was_dropped_is_not_proposed_again_and_the_state_moves_on(settings) -> None:
    desk = holding(settings)
    desk.drop(1, 2)
    assert desk.held() == []
    assert [(one.revision, one.by) for one in rejected_candidates.of(settings, "total")] == [(2, "anna")]
    assert desk.publish() == PublishResult()
    desk.at(2)
    desk.close()
    assert desk.held() == []
    assert desk.history(1) == [("r1", 10, "live", False), ("r2", 10, "preliminary", True)]
    desk.say(1, 101)
    desk.publish()
    assert desk.held() == [(1, 3, 101)], "another number is"
    desk.say(1, 12)
    desk.publish()
    assert desk.shown(1) == 12


def test_what_stands_after_a_drop_keeps_what_it_was_made_from(settings) -> None:
    """The number is the old one: its inputs are too, or it could not be made again (R10)."""
    desk = holding(settings)
    names = ("inputs", "inputs_without", "silver_version", "known_through", "undecided_rows")
    [earlier] = said_of(desk, 1, *names)
    desk.drop(1, 2)
    desk.at(2)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(restatement_days.restatement_lineage, "record", lambda *_: "of silver now")
        patched.setattr(restatement_days.restatement_lineage, "undecided", lambda *_: {day(1): 7})
        desk.close()
    assert said_of(desk, 1, *names) == [earlier, earlier]


def test_dropping_the_first_number_of_a_day(settings) -> None:
    desk = Desk(settings, metric(checks={"row_count": {"min": 2}}))
    desk.at(1)
    desk.say(1, 3)
    desk.publish()
    assert desk.held() == [(1, 1, 3)]
    desk.drop(1, 1)
    for number in (1, 8):
        desk.at(number)
        desk.publish()
        assert (desk.history(1), desk.held()) == ([], [])


def test_dropping_twice_is_dropping_once(settings) -> None:
    desk = holding(settings)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(candidates, "remove", lambda *_: None)  # stopped before it
        desk.drop(1, 2)
    desk.drop(1, 2)
    assert desk.held() == []
    assert len(rejected_candidates.of(settings, "total")) == 1


@pytest.mark.parametrize("signed", [True, False])
def test_an_adjustment_may_be_held_too(settings, signed: bool) -> None:
    desk = Desk(settings, metric(**AT_MOST_FIVE, publication={"after_close": "adjust", "rollups": ["week"]}))
    desk.at(8)
    desk.say(1, 10)
    desk.publish()
    desk.say(1, 12)
    desk.publish()
    desk.say(1, 100)
    desk.publish()
    assert desk.held() == [(1, 1, 100)]
    settled = [("r1", 10, "final", True), ("r1.a1", 2, "final", False)]
    assert desk.history(1) == settled
    if signed:
        desk.at(9)
        desk.sign_off(1, 1)
        assert desk.history(1) == [*settled, ("r1.a2", 88, "final", False)]
        assert [row[0] for row in said_of(desk, 1, "booked_on")] == [None, day(8), day(9)]
    else:
        desk.drop(1, 1)
        assert desk.publish() == PublishResult(), "the number stands with what was booked to it"
        assert desk.history(1) == settled
    assert desk.held() == []


def test_a_contract_that_is_relaxed_lets_it_through(settings) -> None:
    desk = holding(settings)
    desk.metric = metric()
    desk.publish(1)
    assert (desk.shown(1), desk.held()) == (100, [])


def test_a_contract_that_measures_more_by_now(settings) -> None:
    desk = holding(settings)
    two = [*desk.metric.measures, desk.metric.measures[0].model_copy(update={"name": "other"})]
    desk.metric = desk.metric.model_copy(update={"measures": two})
    assert desk.held() == [(1, 2, 100)]
    desk.say(1, 100)
    desk.publish(1)
    assert desk.held() == [(1, 2, 100)]
    desk.sign_off(1, 2)
    assert said_of(desk, 1, "total", "other") == [(10, None), (100, 100)]


def test_each_roll_up_keeps_its_own(settings) -> None:
    """What is held of a day is not in the week: it says what the published days say."""
    desk = holding(settings, publication={"rollups": ["week"]})
    week = replace(desk.series, kind=Kind.WEEK)
    desk.roll()
    assert desk.history(1, week) == [("r1", 11, "live", True)]
    desk.sign_off(1, 2)
    desk.roll()
    assert desk.history(1, week) == [("r1", 11, "live", False), ("r2", 101, "live", True)]


def test_the_run_that_signs_is_told(settings) -> None:
    desk = holding(settings)
    desk.sign_off(1, 2)
    assert said_of(desk, 1, "run_id")[-1] == (Run("signed").run_id,)
