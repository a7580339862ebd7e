"""What a derived series follows, read from logs alone."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.delta import commit_log
from lakehouse.gold.derived import following, inputs
from lakehouse.gold.derived.inputs import InputError
from lakehouse.gold.numbers import published_table
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.gold.restatement import closing
from lakehouse.gold.restatement.pending import find_pending, record_restatement
from lakehouse_tests.support.derived_numbers import DerivedNumbers, adjusting, day, metric, metrics, revenue, sessions
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from lakehouse.settings import Settings


@pytest.fixture
def lake(settings: Settings) -> DerivedNumbers:
    """Two days of both inputs, which the derived metric has followed."""
    spark: Any = None
    made = DerivedNumbers(settings, spark, metrics(adjusting()))
    made.at(1)
    made.publish("revenue", {day(1): revenue(north=10), day(2): revenue(north=3)})
    made.publish("sessions", {day(1): sessions(north=4), day(2): sessions(north=4)})
    follow(made)
    return made


def follow(lake: DerivedNumbers) -> None:
    pending = find_pending(lake.settings, lake.series())
    record_restatement(lake.settings, lake.series(), "run", [], pending.starts, pending)


def test_the_ledger_has_one_row_for_each_table_that_a_run_followed(lake: DerivedNumbers) -> None:
    assert following.followed_versions(lake.settings, lake.series()) == {"gold/revenue": 1, "gold/sessions": 1}
    lake.publish("sessions", {day(2): sessions(north=5)})
    pending = find_pending(lake.settings, lake.series())
    assert (pending.starts, pending.inputs, pending.cause) == ({day(2)}, {"gold/revenue": 1, "gold/sessions": 2}, "1-2")
    record_restatement(lake.settings, lake.series(), "part", [day(1)], [day(1)], pending)
    assert following.followed_versions(lake.settings, lake.series())["gold/sessions"] == 1, "a run of other days follows nothing"


def test_the_day_that_an_adjustment_is_booked_on_is_pending(lake: DerivedNumbers) -> None:
    lake.at(4)
    lake.publish("sessions", {day(1): sessions(north=4), day(4): sessions(north=1)})
    lake.publish("revenue", {day(4): revenue(north=1)})
    follow(lake)
    lake.publish("sessions", {day(1): sessions(north=9)})
    assert find_pending(lake.settings, lake.series()).starts == {day(1), day(4)}
    [_, of_sessions] = inputs.newest(lake.settings, lake.series(), [day(4)])[day(4)]
    assert of_sessions.named.adjustments == (f"sessions_v{day(1)}.r2.a1",)
    assert inputs.row_counts(lake.settings, lake.series(), [day(1), day(4)]) == {day(1): 6, day(4): 8}


def test_all_periods_are_pending_when_a_log_no_longer_reaches_back(lake: DerivedNumbers, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.publish("sessions", {day(2): sessions(north=5)})
    monkeypatch.setattr(commit_log, "history", lambda table, after: [])
    assert find_pending(lake.settings, lake.series()).starts == {day(1), day(2)}


def test_a_table_that_was_created_again_is_followed_from_its_beginning(lake: DerivedNumbers) -> None:
    shutil.rmtree(locations.gold_of(lake.settings, "sessions", Kind.DAY))
    assert find_pending(lake.settings, lake.series()).starts == frozenset()
    lake.publish("sessions", {day(2): sessions(north=5)})
    lake.publish("sessions", {day(2): sessions(north=5)}, at_most=State.LIVE)
    shutil.rmtree(locations.gold_of(lake.settings, "revenue", Kind.DAY))
    lake.publish("revenue", {day(2): revenue(north=5)})
    follow(lake)
    assert published_table.known_days(lake.settings, lake.series()) == {day(2)}


def test_a_period_waits_for_its_inputs(lake: DerivedNumbers) -> None:
    lake.publish("revenue", {day(3): revenue(north=1)})
    lake.at(9)
    lake.publish("revenue", {day(1): revenue(north=10)})
    lake.publish("sessions", {day(1): sessions(north=4)}, at_most=State.PRELIMINARY)
    series = lake.series()
    limits = closing.limits(lake.settings, contract(), series, [series.period(day(number)) for number in (1, 2, 3)])
    assert {start: (limit.at_most, list(limit.waits_for)) for start, limit in limits.items()} == {
        day(1): (State.PRELIMINARY, [f"sessions {day(1)} is preliminary"]),
        day(2): (State.LIVE, [f"revenue {day(2)} is live", f"sessions {day(2)} is live"]),
        day(3): (State.LIVE, [f"revenue {day(3)} is live", f"sessions has no number of {day(3)}"]),
    }
    lake.publish("sessions", {day(1): sessions(north=4)})
    assert closing.limits(lake.settings, contract(), series, [series.period(day(1))]) == {}


def test_a_column_that_an_input_does_not_have_yet_is_named(lake: DerivedNumbers) -> None:
    wider = {"name": "refunds", "sql": "sum(refund)", "type": "long", "additive": True}
    known = metrics(metric("revenue", *lake.known["revenue"].model_dump()["measures"], wider, grain=["store"]), adjusting())
    with pytest.raises(InputError, match="gold/revenue has no column refunds yet"):
        inputs.newest(lake.settings, DerivedNumbers(lake.settings, lake.spark, known).series(), [day(1)])
