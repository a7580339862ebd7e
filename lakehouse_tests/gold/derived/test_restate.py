from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from lakehouse.calendar.periods import Kind
from lakehouse.gold.numbers.lifecycle import RevisionReason, State
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement.pending import find_pending
from lakehouse_tests.support.derived_numbers import MONDAY, DerivedNumbers, day, metric, metrics, revenue, sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.settings import Settings

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(settings: Settings, spark: SparkSession) -> DerivedNumbers:
    one = DerivedNumbers(settings, spark)
    one.at(1)
    return one


def test_a_derived_day_is_published_from_the_newest_numbers_of_its_inputs(lake: DerivedNumbers) -> None:
    lake.publish("revenue", {day(1): revenue(north=10, south=5)})
    lake.publish("sessions", {day(1): sessions(north=4, east=2)})
    done = lake.follow()
    assert lake.latest() == {
        day(1): [("east", None, 2), ("north", Decimal("2.500000"), 6), ("south", None, 2)],
    }
    assert [revision.reason for revision in done.revisions] == [RevisionReason.INITIAL]
    made_from = {"revenue": {f"{day(1)}": "r1"}, "sessions": {f"{day(1)}": "r1"}}
    assert json.loads(lake.published()[0]["made_from"]) == made_from
    assert find_pending(lake.settings, lake.series()).starts == frozenset()


def test_a_period_that_an_input_has_no_number_for_waits_until_it_has(lake: DerivedNumbers) -> None:
    lake.publish("revenue", {day(1): revenue(north=10), day(2): revenue(north=1)})
    assert find_pending(lake.settings, lake.series()).starts == frozenset()
    lake.publish("sessions", {day(2): sessions(north=4)})
    assert find_pending(lake.settings, lake.series()).starts == {day(2)}
    lake.follow(starts=[day(1)])
    assert lake.latest() == {day(2): [("north", Decimal("0.250000"), 6)]}
    lake.publish("sessions", {day(1): sessions(north=5)})
    assert find_pending(lake.settings, lake.series()).starts == {day(1)}
    lake.follow()
    assert lake.latest().keys() == {day(1), day(2)}


def test_a_restated_input_restates_exactly_its_day_with_its_most_serious_reason(lake: DerivedNumbers) -> None:
    days = [day(1), day(2)]
    lake.publish("revenue", dict.fromkeys(days, revenue(north=10)))
    lake.publish("sessions", dict.fromkeys(days, sessions(north=4)))
    lake.follow()
    lake.publish("sessions", {day(2): sessions(north=5)}, run=Run("fix", reason=RevisionReason.BUG_REPLAY))
    lake.publish("sessions", {day(2): sessions(north=8)}, run=Run("late", reason=RevisionReason.LATE_DATA))
    assert find_pending(lake.settings, lake.series()).starts == {day(2)}
    done = lake.follow()
    assert [(one.start, one.reason) for one in done.revisions] == [(day(2), RevisionReason.BUG_REPLAY)]
    assert lake.latest()[day(2)] == [("north", Decimal("1.250000"), 10)]
    newest = lake.published()[-1]
    assert newest["restatement_reason"] == f"bug_replay: made from sessions {day(2)} r3 anew"
    assert json.loads(newest["made_from"])["sessions"] == {f"{day(2)}": "r3"}


def test_a_derived_week_is_made_of_the_weeks_of_its_inputs(lake: DerivedNumbers) -> None:
    lake.publish("revenue", {MONDAY: revenue(north=30)}, Kind.WEEK)
    lake.publish("sessions", {MONDAY: sessions(north=10)}, Kind.WEEK)
    lake.follow(kind=Kind.WEEK)
    assert lake.latest(kind=Kind.WEEK) == {MONDAY: [("north", Decimal("3.000000"), 12)]}
    assert lake.latest() == {}


def test_the_state_is_never_ahead_of_an_input(lake: DerivedNumbers) -> None:
    lake.publish("revenue", {day(1): revenue(north=10)})
    lake.publish("sessions", {day(1): sessions(north=4)})
    lake.follow()
    lake.at(7)
    lake.publish("revenue", {day(1): revenue(north=10)})
    lake.follow()
    assert [row["state"] for row in lake.published()] == ["live"]
    lake.publish("sessions", {day(1): sessions(north=4)}, at_most=State.PRELIMINARY)
    assert [(one.state, one.reason) for one in lake.follow().revisions] == [
        (State.PRELIMINARY, RevisionReason.DAILY_FINALIZATION)
    ]
    lake.publish("sessions", {day(1): sessions(north=4)})
    assert [one.state for one in lake.follow().revisions] == [State.FINAL]
    assert len({row["content"] for row in lake.published()}) == 1


def test_an_emptied_input_leaves_the_rows_of_the_other(lake: DerivedNumbers) -> None:
    lake.publish("revenue", {day(1): revenue(north=10)})
    lake.publish("sessions", {day(1): sessions(north=4)})
    lake.follow()
    lake.publish("sessions", {day(1): []})
    lake.follow()
    assert lake.latest() == {day(1): [("north", None, 2)]}
    lake.publish("revenue", {day(1): []})
    lake.follow()
    assert lake.latest() == {day(1): [(None, None, 0)]}


def test_without_a_grain_the_rows_of_the_inputs_are_added_up(settings: Settings, spark: SparkSession) -> None:
    whole = metric(
        "whole", {"name": "c", "sql": "revenue.sales / sessions.n", "type": "double"}, **{"from": ["revenue", "sessions"]}
    )
    lake = DerivedNumbers(settings, spark, metrics(whole))
    lake.publish("revenue", {day(1): revenue(north=10, south=20)})
    lake.publish("sessions", {day(1): sessions(north=4, east=8)})
    lake.follow("whole")
    assert lake.latest("whole") == {day(1): [(2.5, 16)]}
    lake.publish("sessions", {day(1): []})
    lake.follow("whole")
    assert lake.latest("whole") == {day(1): [(None, 4)]}, "a division by nothing is NULL"


def test_a_derived_metric_may_be_made_of_a_derived_one(settings: Settings, spark: SparkSession) -> None:
    twice = metric(
        "twice",
        {"name": "t", "sql": "2 * conversion.conversion + sessions.n", "type": "decimal(12,2)"},
        grain=["store"],
        **{"from": ["conversion", "sessions"]},
    )
    lake = DerivedNumbers(settings, spark, metrics(twice))
    lake.publish("revenue", {day(1): revenue(north=10)})
    lake.publish("sessions", {day(1): sessions(north=4)})
    lake.follow("twice")
    assert lake.latest("twice") == {}
    lake.follow()
    lake.follow("twice")
    assert lake.latest("twice") == {day(1): [("north", Decimal("9.00"), 10)]}
