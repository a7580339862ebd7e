"""A number goes back to an earlier revision as a new one, and keeps it until it is released. No Spark; the tables are real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deltalake.exceptions import CommitFailedError

from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers.version_selector import UnknownVersionError, parse
from lakehouse.gold.promotion import compatibility
from lakehouse.gold.publication import candidates, held_numbers, revisions
from lakehouse.gold.publication.held_numbers import HoldError, RevertEvent
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import revert
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.gold.restatement.revert import RevertError
from lakehouse.ledger import publications
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, columns_of_day, day, metric, without_spark
from lakehouse_tests.support.stopped_commits import Killed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.gold.restatement.revert import RevertResult
    from lakehouse.lake import Lake


@pytest.fixture(autouse=True)
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def go_back(numbers: ScriptedNumbers, number: int, version: str, kind: Kind = Kind.DAY) -> RevertResult:
    """Revert a day, or the longer period that contains it."""
    series = Series(numbers.metric, kind)
    run = Run("back", by="anna")
    return revert.revert(numbers.lake, numbers.source, series, series.period(day(number)), parse(version), run, "withdrawn")


def release(numbers: ScriptedNumbers, number: int, kind: Kind = Kind.DAY) -> list[Any]:
    series = Series(numbers.metric, kind)
    return revert.release(numbers.lake, series, series.period(day(number)), "ben", "looked at")


def twice_published(lake: Lake, **changes: Any) -> ScriptedNumbers:
    """Day 1 is published as 10 and then as 100, day 2 as 1."""
    numbers = ScriptedNumbers(lake, metric(**changes))
    numbers.at(1)
    numbers.set(1, 10)
    numbers.set(2, 1)
    numbers.publish()
    numbers.at(1, 5)
    numbers.set(1, 100)
    numbers.publish()
    return numbers


def test_a_held_number_of_a_reverted_day_is_gone_and_none_is_published_until_the_release(lake: Lake) -> None:
    numbers = twice_published(lake, checks={"change": [{"measure": "total", "absolute": 90}]})
    numbers.set(1, 300)
    numbers.publish()
    [waiting] = candidates.held(lake, numbers.series)
    go_back(numbers, 1, "r1")
    assert numbers.held() == [], "nobody is told to publish it"
    candidates.propose(lake, numbers.series, [(waiting.draft, waiting.revision)], waiting.run_id, lake.now())
    with pytest.raises(HoldError, match=r"total 2024-01-01 is put back to r1 by anna.*lakehouse gold release total 2024-01-01"):
        numbers.sign_off(1, waiting.revision)
    assert numbers.latest_total(1) == 10
    release(numbers, 1)
    numbers.publish()
    assert numbers.held() == [(1, 4, 300)], "it waits again"
    assert numbers.sign_off(1, 4) is not None
    assert numbers.latest_total(1) == 300


def test_the_earlier_content_is_a_new_revision_with_a_name_and_a_reason(lake: Lake) -> None:
    numbers = twice_published(lake)
    done = go_back(numbers, 1, "r1")
    assert [f"{one.name}" for one in done.published] == ["total_v2024-01-01.r3"]
    assert numbers.history(1) == [("r1", 10, "live", False), ("r2", 100, "live", False), ("r3", 10, "live", True)]
    columns = ("reason", "signed_off_by", "sign_off_reason", "restatement_reason", "content", "inputs", "silver_version")
    first, second, third = columns_of_day(numbers, 1, *columns)
    assert third[:4] == ("rollback", "anna", "withdrawn", "rollback: put back to r1 by anna: withdrawn")
    assert third[4:] == first[4:] != second[4:]
    assert publications.of(lake, "total")[-1].trigger == {"reverted": {"2024-01-01": "r1"}}
    again = go_back(numbers, 1, "r1")
    assert (again.published, again.unchanged) == ([], [day(1)])
    assert len(numbers.history(1)) == 3
    assert len(held_numbers.revert_log(lake).read()) == 1


def test_later_changes_wait_until_the_release_and_the_state_goes_on(lake: Lake) -> None:
    numbers = twice_published(lake, publication={"preliminary_after": 1, "final_after": 3})
    go_back(numbers, 1, "r1")
    numbers.set(1, 200)
    numbers.set(2, 2)
    assert [one.start for one in numbers.publish().revisions] == [day(2)], "the other day is not kept"
    assert numbers.latest_total(1) == 10
    numbers.at(9)
    numbers.close()
    assert numbers.history(1)[-1] == ("r4", 10, "final", True)
    assert release(numbers, 1) == [day(1)]
    assert list(held_numbers.released_periods(lake, "total")) == [day(1)]
    numbers.publish()
    assert numbers.history(1)[-1] == ("r5", 200, "final", True)
    assert columns_of_day(numbers, 1, "restatement_reason")[-1] == ("manual: released by ben: looked at",)
    assert held_numbers.released_periods(lake, "total") == {}, "it is computed again once"
    events = sorted(held_numbers.revert_log(lake).read(), key=lambda entry: entry.number)
    assert [(entry.number, entry.event) for entry in events] == [*enumerate(RevertEvent, 1)]
    numbers.set(1, 300)
    numbers.publish()
    assert numbers.latest_total(1) == 300


def test_a_closed_day_under_adjust_gets_the_adjustment_that_leads_back(lake: Lake) -> None:
    numbers = twice_published(lake, publication={"final_after": 2, "after_close": "adjust"})
    numbers.at(4)
    numbers.close()
    numbers.set(1, 120)
    numbers.publish()
    go_back(numbers, 1, "r1")
    labels = [(label, total) for label, total, _, _ in numbers.history(1)]
    assert labels == [("r1", 10), ("r2", 100), ("r3", 100), ("r3.a1", 20), ("r3.a2", -110)]
    assert columns_of_day(numbers, 1, "reason", "signed_off_by")[-1] == ("rollback", "anna")
    numbers.set(1, 130)
    numbers.publish()
    assert len(numbers.history(1)) == 5, "it is kept"
    release(numbers, 1)
    numbers.publish()
    assert numbers.history(1)[-1][:2] == ("r3.a3", 120)
    go_back(numbers, 1, "r3.a1")
    assert numbers.history(1)[-1][:2] == ("r3.a4", -10), "to 120, the closed number with its first adjustment"


def test_a_week_goes_back_through_its_days(lake: Lake) -> None:
    numbers = twice_published(lake, publication={"rollups": ["week"]})
    week = Series(numbers.metric, Kind.WEEK)
    numbers.roll_up()
    numbers.set(1, 7)
    numbers.set(2, 8)
    numbers.publish()
    numbers.roll_up()
    done = go_back(numbers, 1, "r1", Kind.WEEK)
    assert [f"{one.name}" for one in done.published] == ["total_v2024-01-01.r4", "total_v2024-01-02.r3"]
    assert len({row for number in (1, 2) for row in columns_of_day(numbers, number, "publication_id")[-1:]}) == 1, "one commit"
    assert find_pending(lake, week).starts == {day(1)}
    numbers.roll_up()
    assert [line[:2] for line in numbers.history(1, week)] == [("r1", 101), ("r2", 15), ("r3", 101)]
    numbers.set(3, 5)
    numbers.publish()
    with pytest.raises(RevertError, match="r1 of total_weekly 2024-W01 has no number of 2024-01-03, published since"):
        go_back(numbers, 1, "r1", Kind.WEEK)
    assert release(numbers, 1, Kind.WEEK) == [day(1), day(2)]


def test_a_metric_goes_back_to_what_readers_saw_at_a_time(lake: Lake) -> None:
    numbers = twice_published(lake, publication={"final_after": 2, "after_close": "adjust"})
    numbers.at(4)
    numbers.close()
    numbers.set(1, 120)
    numbers.publish()
    noon = numbers.lake.settings.now
    assert noon is not None
    numbers.at(5)
    numbers.set(1, 130)
    numbers.set(3, 7)
    numbers.publish()
    run = Run("back", by="anna")
    done = revert.revert_all(lake, numbers.source, numbers.series, noon, run, "all of it")
    assert ([f"{one.name}" for one in done.published], done.first) == (["total_v2024-01-01.r3.a3"], [day(3)])
    assert numbers.history(1)[-1][:2] == ("r3.a3", -10), "to 120, as it was then with its adjustment"
    assert list(held_numbers.kept_periods(lake, "total")) == [day(1)], "days that have not changed follow silver as before"
    again = revert.revert_all(lake, numbers.source, numbers.series, noon, run, "all of it")
    assert (again.published, again.unchanged, again.first) == ((), [], [day(3)])


def test_what_cannot_be_put_back_changes_nothing(lake: Lake) -> None:
    numbers = twice_published(lake, publication={"rollups": ["week"]})
    with pytest.raises(UnknownVersionError, match=r"total has no version r3 of 2024-01-01: .*, and has r1, r2"):
        go_back(numbers, 1, "r3")
    with pytest.raises(UnknownVersionError, match="nothing of total has been published for 2024-01-05"):
        go_back(numbers, 5, "r1")
    with pytest.raises(UnknownVersionError, match="nothing of total_weekly has been published for 2024-W01"):
        go_back(numbers, 1, "r1", Kind.WEEK)
    with pytest.raises(RevertError, match="no day of total 2024-01-01 was reverted; kept are none"):
        release(numbers, 1)
    assert held_numbers.revert_log(lake).read() == []
    assert len(numbers.history(1)) == 2
    numbers.metric = metric(publication={"rollups": ["week"]}, dataset_version=2)
    with pytest.raises(
        RevertError, match="r1 of total 2024-01-01 belongs to v1, and readers see v2: 'lakehouse gold rollback total"
    ):
        revert.revert(
            *(lake, numbers.source, Series(numbers.metric, called="total"), numbers.series.period(day(1)), parse("first")),
            *(Run("back", by="anna"), "withdrawn"),
        )


def test_reverted_days_forbid_a_promotion(lake: Lake) -> None:
    numbers = twice_published(lake)
    assert list(compatibility.of_held(lake, numbers.series)) == []
    go_back(numbers, 1, "r1")
    [problem] = compatibility.of_held(lake, numbers.series)
    assert problem == "gold/total has reverted days: release 2024-01-01 first, see 'lakehouse gold held'"


def test_a_revert_that_is_stopped_is_completed_by_the_same_command(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = twice_published(lake)

    def stopped(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(revisions, "publish", stopped)
        with pytest.raises(Killed):
            go_back(numbers, 1, "r1")
    numbers.set(1, 200)
    numbers.publish()
    assert numbers.latest_total(1) == 100, "silver takes it no further"
    go_back(numbers, 1, "r1")
    assert numbers.latest_total(1) == 10
    assert len(held_numbers.revert_log(lake).read()) == 1


def test_a_publication_meanwhile_does_not_win(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has read Silver before the revert fails on the revert's commit, and then finds the day kept."""
    numbers = twice_published(lake)
    numbers.set(1, 200)
    publish = revisions.publish
    attempts = []

    def late(*arguments: Any, **options: Any) -> Any:
        attempts.append(1)
        if len(attempts) == 1:
            go_back(numbers, 1, "r1")
        return publish(*arguments, **options)

    monkeypatch.setattr(revisions, "publish", late)
    numbers.publish()
    assert [line[:2] for line in numbers.history(1)] == [("r1", 10), ("r2", 100), ("r3", 10)]


def test_two_commands_at_once_both_are_recorded(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    held_numbers.keep_periods(lake, "total", {day(1): "r1"}, "anna", "first")
    append, raced = type(held_numbers.revert_log(lake)).append, []

    def late(self: Any, entries: Any, **options: Any) -> bool:
        if not raced:
            raced.append(1)
            held_numbers.keep_periods(lake, "total", {day(3): "r3"}, "ben", "meanwhile")
        return bool(append(self, entries, **options))

    monkeypatch.setattr(type(held_numbers.revert_log(lake)), "append", late)
    held_numbers.keep_periods(lake, "total", {day(2): "r2"}, "carl", "second")
    kept = held_numbers.kept_periods(lake, "total")
    assert {start: (entry.version, entry.number) for start, entry in kept.items()} == {
        day(1): ("r1", 1),
        day(2): ("r2", 3),
        day(3): ("r3", 2),
    }
    monkeypatch.setattr(type(held_numbers.revert_log(lake)), "append", lambda *_, **__: False)
    with pytest.raises(CommitFailedError, match="other commands keep reverting total"):
        held_numbers.keep_periods(lake, "total", {day(4): "r1"}, "dora", "never")
