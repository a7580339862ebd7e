"""What a change of days affects and published, for numbers that are given by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakehouse.impact.affected_periods import ImpactOutcome, PublicationCause, affected, published_because
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, day, metric, without_spark


@pytest.fixture(autouse=True)
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


@pytest.fixture(name="numbers")
def _numbers(lake) -> ScriptedNumbers:
    """A day that closed, an adjustment of it that is booked in the week after, and a week that has passed since."""
    numbers = ScriptedNumbers(lake, metric(publication={"rollups": ["week"], "final_after": 2, "after_close": "adjust"}))
    for number, value in ((1, 10), (9, 12)):
        numbers.at(number)
        numbers.set(1, value)
        numbers.publish(1)
        numbers.roll_up()
        numbers.close()
        numbers.roll_up()
    numbers.set(1, 15)
    numbers.publish(1)
    numbers.roll_up()
    numbers.at(20)
    return numbers


@pytest.mark.merge
def test_a_change_of_a_closed_day_is_booked_today(numbers: ScriptedNumbers) -> None:
    periods = affected(numbers.lake, numbers.series, [day(1)])
    outcomes = {period.period: period.outcome for period in periods}
    assert outcomes == {
        "2024-01-01": ImpactOutcome.ADJUSTED,
        "2024-W01": ImpactOutcome.UNCHANGED,
        "2024-W03": ImpactOutcome.PUBLISHED,
    }


@pytest.mark.merge
def test_the_week_that_an_adjustment_was_booked_in_was_published_because_of_its_day(numbers: ScriptedNumbers) -> None:
    revisions = published_because(numbers.lake, numbers.series, [day(1)], PublicationCause(any_cause=True))
    assert {revision.period for revision in revisions} == {"2024-01-01", "2024-W01", "2024-W02"}


@pytest.mark.merge
def test_nothing_was_published_because_of_nothing(numbers: ScriptedNumbers) -> None:
    assert published_because(numbers.lake, numbers.series, [day(1)], PublicationCause()) == []
