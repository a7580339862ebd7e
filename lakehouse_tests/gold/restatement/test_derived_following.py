"""What a derived series follows, read from logs alone."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.delta import commit_log
from lakehouse.gold.numbers import published_table
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.gold.restatement import closing, derived_inputs
from lakehouse.gold.restatement.derived_inputs import InputError
from lakehouse.gold.restatement.pending import find_pending, record_restatement
from lakehouse_tests.support.derived_numbers import DerivedNumbers, adjusting, day, metric, metrics, revenue, sessions
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from lakehouse.lake import Lake


@pytest.fixture
def sample(lake: Lake) -> DerivedNumbers:
    """Two days of both inputs, which the derived metric has followed."""
    spark: Any = None
    made = DerivedNumbers(lake, spark, metrics(adjusting()))
    made.at(1)
    made.publish("revenue", {day(1): revenue(north=10), day(2): revenue(north=3)})
    made.publish("sessions", {day(1): sessions(north=4), day(2): sessions(north=4)})
    follow(made)
    return made


def follow(sample: DerivedNumbers) -> None:
    pending = find_pending(sample.lake, sample.series())
    record_restatement(sample.lake, sample.series(), "run", [], pending.starts, pending)


def test_the_ledger_has_one_row_for_each_table_that_a_run_followed(sample: DerivedNumbers) -> None:
    assert derived_inputs.followed_versions(sample.lake, sample.series()) == {"gold/revenue": 1, "gold/sessions": 1}
    sample.publish("sessions", {day(2): sessions(north=5)})
    pending = find_pending(sample.lake, sample.series())
    assert (pending.starts, pending.inputs, pending.cause) == ({day(2)}, {"gold/revenue": 1, "gold/sessions": 2}, "1-2")
    record_restatement(sample.lake, sample.series(), "part", [day(1)], [day(1)], pending)
    assert derived_inputs.followed_versions(sample.lake, sample.series())["gold/sessions"] == 1, (
        "a run of other days follows nothing"
    )


def test_the_day_that_an_adjustment_is_booked_on_is_pending(sample: DerivedNumbers) -> None:
    sample.at(4)
    sample.publish("sessions", {day(1): sessions(north=4), day(4): sessions(north=1)})
    sample.publish("revenue", {day(4): revenue(north=1)})
    follow(sample)
    sample.publish("sessions", {day(1): sessions(north=9)})
    assert find_pending(sample.lake, sample.series()).starts == {day(1), day(4)}
    [_, of_sessions] = derived_inputs.newest(sample.lake, sample.series(), [day(4)])[day(4)]
    assert of_sessions.named.adjustments == (f"sessions_v{day(1)}.r2.a1",)
    assert derived_inputs.row_counts(sample.lake, sample.series(), [day(1), day(4)]) == {day(1): 6, day(4): 8}


def test_all_periods_are_pending_when_a_log_no_longer_reaches_back(
    sample: DerivedNumbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample.publish("sessions", {day(2): sessions(north=5)})
    monkeypatch.setattr(commit_log, "history", lambda table, after: [])
    assert find_pending(sample.lake, sample.series()).starts == {day(1), day(2)}


def test_a_table_that_was_created_again_is_followed_from_its_beginning(sample: DerivedNumbers) -> None:
    shutil.rmtree(locations.gold_of(sample.lake, "sessions", Kind.DAY).address)
    assert find_pending(sample.lake, sample.series()).starts == frozenset()
    sample.publish("sessions", {day(2): sessions(north=5)})
    sample.publish("sessions", {day(2): sessions(north=5)}, at_most=State.LIVE)
    shutil.rmtree(locations.gold_of(sample.lake, "revenue", Kind.DAY).address)
    sample.publish("revenue", {day(2): revenue(north=5)})
    follow(sample)
    assert published_table.known_days(sample.lake, sample.series()) == {day(2)}


def test_a_period_waits_for_its_inputs(sample: DerivedNumbers) -> None:
    sample.publish("revenue", {day(3): revenue(north=1)})
    sample.at(9)
    sample.publish("revenue", {day(1): revenue(north=10)})
    sample.publish("sessions", {day(1): sessions(north=4)}, at_most=State.PRELIMINARY)
    series = sample.series()
    limits = closing.limits(sample.lake, contract(), series, [series.period(day(number)) for number in (1, 2, 3)])
    assert {start: (limit.at_most, list(limit.waits_for)) for start, limit in limits.items()} == {
        day(1): (State.PRELIMINARY, [f"sessions {day(1)} is preliminary"]),
        day(2): (State.LIVE, [f"revenue {day(2)} is live", f"sessions {day(2)} is live"]),
        day(3): (State.LIVE, [f"revenue {day(3)} is live", f"sessions has no number of {day(3)}"]),
    }
    sample.publish("sessions", {day(1): sessions(north=4)})
    assert closing.limits(sample.lake, contract(), series, [series.period(day(1))]) == {}


def test_a_column_that_an_input_does_not_have_yet_is_named(sample: DerivedNumbers) -> None:
    wider = {"name": "refunds", "sql": "sum(refund)", "type": "long", "additive": True}
    known = metrics(metric("revenue", *sample.known["revenue"].model_dump()["measures"], wider, grain=["store"]), adjusting())
    with pytest.raises(InputError, match="gold/revenue has no column refunds yet"):
        derived_inputs.newest(sample.lake, DerivedNumbers(sample.lake, sample.spark, known).series(), [day(1)])
