"""A check with severity ERROR that fails of Bronze or silver holds the numbers of the event days that it concerns.

No Spark; the tables, the checks and the commits are real.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse.ledger import failures
from lakehouse.quality.check_rules import CheckResult
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, day, metric, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.lake import Lake

WHY = "silver lacks 1 applied rows of the day: materialize silver/events for it"


@pytest.fixture(autouse=True)
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def check(lake: Lake, number: int, *, passed: bool, warns: bool = False) -> None:
    outcome = CheckResult("equals_bronze", day(number), passed, explanation=None if passed else WHY, warns=warns)
    failures.record_checks(lake, "events", "silver", [outcome])


def scripted(lake: Lake, window: int = 1) -> ScriptedNumbers:
    numbers = ScriptedNumbers(lake, metric(window=window))
    numbers.at(1)
    for number in (1, 2, 3):
        numbers.set(number, 10 * number)
    return numbers


def test_the_number_of_its_day_is_held_with_the_reason_and_the_others_are_published(lake: Lake) -> None:
    numbers = scripted(lake)
    check(lake, 2, passed=False)
    done = numbers.publish()
    assert (done.held, [one.start for one in done.revisions]) == ([day(2)], [day(1), day(3)])
    [outcome] = [one for one in done.outcomes if one.check == "inputs_passed" and not one.passed]
    assert f"silver/events equals_bronze of {day(2)}: {WHY}" in (outcome.explanation or "")
    assert numbers.history(2) == []


def test_once_it_passes_the_number_is_published(lake: Lake) -> None:
    numbers = scripted(lake)
    check(lake, 2, passed=False)
    numbers.publish()
    check(lake, 2, passed=True)
    assert failures.failing_checks(lake, "events") == []
    assert [one.start for one in numbers.publish().revisions] == [day(2)]
    assert numbers.held() == []


def test_a_person_may_publish_it_with_a_reason(lake: Lake) -> None:
    numbers = scripted(lake)
    check(lake, 2, passed=False)
    numbers.publish()
    revision = numbers.sign_off(2, 1, "the row was a test")
    assert revision is not None
    assert numbers.history(2) == [("r1", 20, "live", True)]


def test_a_published_number_stays_as_it_was(lake: Lake) -> None:
    numbers = scripted(lake)
    numbers.publish()
    check(lake, 2, passed=False)
    numbers.set(2, 15)
    assert numbers.publish().held == [day(2)]
    assert numbers.history(2) == [("r1", 20, "live", True)]


def test_a_window_over_the_day_is_held_too(lake: Lake) -> None:
    numbers = scripted(lake, window=2)
    check(lake, 2, passed=False)
    assert numbers.publish(1, 2, 3).held == [day(2), day(3)]


def test_an_arrival_day_concerns_the_event_days_of_its_files(lake: Lake) -> None:
    numbers = scripted(lake)
    outcome = CheckResult("row_count", day(9), passed=False, explanation="too few rows")
    failures.record_checks(lake, "events", "bronze", [outcome], lambda _: {day(1), day(3)})
    assert numbers.publish().held == [day(1), day(3)]


def test_a_warning_holds_nothing_and_nothing_is_written(lake: Lake) -> None:
    numbers = scripted(lake)
    check(lake, 1, passed=False, warns=True)
    check(lake, 2, passed=True)
    assert failures.check_log(lake).read() == []
    assert numbers.publish().held == []
