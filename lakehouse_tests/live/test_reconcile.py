"""The reconciliation against a plain model: each difference, and the name of each of its causes."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.live import batches, dropped_rows, stream
from lakehouse.live.causes import add_up
from lakehouse.live.reconcile import reconcile
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.late_lake import LateLake, late
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.live_lake import LIVE, QUARANTINED_FROM, LiveLake, StreamModel
from lakehouse_tests.support.reconciliation_model import Causes, History, causes_by_model, causes_of
from lakehouse_tests.support.windowed_lake import BEGINS, FIRST, TUMBLING, ZONE, Event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.lake import Lake
    from lakehouse.live.causes import Reconciled

pytestmark = [pytest.mark.spark, pytest.mark.own_spark, pytest.mark.merge]


def played(sample: LiveLake, history: History) -> StreamModel:
    """Deliver a history and publish it; gives the stream by the model."""
    model = StreamModel(60, 60)
    for place, (events, is_read) in enumerate(history):
        sample.land_events(*events)
        sample.update("orders")
        if is_read:
            model.batch(events)
            if not any(later for _, later in history[place + 1 :]):
                sample.stream()  # a run of several batches takes little longer than one of one
    sample.publish()
    return model


def days_of(history: History) -> list[date]:
    return sorted({event.moment.astimezone(ZoneInfo(ZONE)).date() for events, _ in history for event in events})


def reconciled(sample: LiveLake, days: Sequence[date]) -> list[Reconciled]:
    return [
        entry
        for day in days
        for entry in reconcile(sample.session, sample.lake, sample.hourly, sample.sources["orders"], day).entries
    ]


def as_causes(entries: Sequence[Reconciled]) -> Causes:
    """The causes of entries as the model gives them."""
    effects: dict[tuple[datetime, str], list[int]] = defaultdict(lambda: [0, 0])
    for entry in entries:
        if entry.measure in {"total", "row_count"}:
            for cause, value in causes_of(entry).items():
                assert entry.window_start is not None
                effects[entry.window_start, cause][entry.measure == "row_count"] += int(value)
    return {cell: (amount, count) for cell, (amount, count) in effects.items()}


#: Every cause at once.
HISTORY: History = [
    ([Event("a", 1, 5), Event("b", 30, 7), Event("c", 61), Event("moves", 20, 3), Event("wrong", 40, QUARANTINED_FROM)], True),
    ([Event("d", 200, 2), Event("gone", 130, 4), Event("twice", 125, 6), Event("twice", 125, 6)], True),
    ([Event("e", 201, 2)], True),
    ([Event("late", 3, 11), Event("a", 1, 6, "correct"), Event("late too", 4, 1)], True),
    ([Event("moves", 190, 3, "correct"), Event("gone", 130, 4, "delete"), Event("resent", 210, 8)], True),
    ([Event("resent", 215, 9), Event("late too", 4, 1, "delete"), Event("new", 1500, 10, "correct")], True),
    ([Event("unread", 5, 13), Event("unread", 205, 1)], False),
]


def test_each_difference_has_its_causes(lake: Lake, spark: Any) -> None:
    sample = LiveLake(lake, spark)
    model = played(sample, HISTORY)
    entries = reconciled(sample, days_of(HISTORY))
    assert as_causes(entries) == causes_by_model(HISTORY, model)
    listed = dropped_rows.dropped(lake, sample.hourly, sample.sources["orders"])
    assert sorted(listed.rows["record_key"].to_pylist()) == sorted(event.key for event, _ in model.dropped)
    assert listed.rows["windows"].to_pylist() == [["2024-10-25T00"]] * 2
    assert listed.read == sum(event.op == "insert" for events, is_read in HISTORY if is_read for event in events)
    assert {cause for entry in entries for cause in entry.causes} == {
        *("not_read", "late_dropped", "duplicate", "quarantined", "deleted", "moved", "corrected")
    }
    first = {entry.measure: entry for entry in entries if entry.window_start == model.windows_of(HISTORY[0][0][0])[0]}
    assert (first["total"].live, first["total"].books, first["total"].difference) == ("105", "24", "-81")
    assert {name: int(value) for name, value in causes_of(first["total"]).items()} == {
        "not_read": 13,
        "late_dropped": 12,
        "quarantined": -QUARANTINED_FROM,
        "deleted": -1,
        "moved": -3 - 13,
        "corrected": 6 - 5,
    }


def test_rows_that_came_too_late_for_the_metric_are_a_cause_of_their_own(lake: Lake, spark: Any) -> None:
    sample = LateLake(lake, spark, [late({**TUMBLING, **LIVE}, "recompute", 0)])
    hourly = sample.metrics[0]
    sample.deliver_at(0, Event("a", 5), Event("b", 30, 4), Event("push", 73))  # after it the watermark is at 01:03
    sample.deliver_at(1, Event("beyond", 10, 60), Event("b", 31, 9, "correct"))
    stream.run(sample.session, lake, hourly, sample.sources["orders"], ends=True)
    entries = reconcile(sample.session, lake, hourly, sample.sources["orders"], FIRST).entries
    first = {entry.measure: entry for entry in entries if entry.window_start == BEGINS}
    assert (first["total"].live, first["total"].books) == ("65", "5")
    assert {name: int(value) for name, value in causes_of(first["total"]).items()} == {
        "corrected": 9 - 4,
        "late_events": -60 - (9 - 4),
    }
    assert {name: int(value) for name, value in causes_of(first["row_count"]).items()} == {"late_events": -1}


_MINUTES = st.integers(0, 5).flatmap(lambda hour: st.sampled_from([24 * 60 - 180 + 60 * hour + minute for minute in (0, 17, 59)]))
_EVENTS = st.builds(
    Event,
    st.sampled_from("abcdef"),
    _MINUTES,
    st.sampled_from([1, 2, 3, QUARANTINED_FROM]),
    st.sampled_from(["insert", "insert", "insert", "correct", "delete"]),
)
_HISTORIES = st.tuples(
    st.lists(st.lists(_EVENTS, min_size=3, max_size=9), min_size=3, max_size=4), st.lists(_EVENTS, max_size=4)
).map(lambda parts: [*((events, True) for events in parts[0]), (parts[1] or [Event("z", 1400)], False)])


#: On both sides of a midnight: a row that is held, one that comes twice, one behind the watermark; a correction to the next day,
#: a deletion, and what is not read.
_MIDNIGHT: History = [
    ([Event("a", 1437, 1), Event("b", 1380, 2), Event("c", 1397, QUARANTINED_FROM), Event("d", 1440, 3)], True),
    ([Event("d", 1440, 3), Event("e", 1517, 1)], True),
    ([Event("f", 1499, 2), Event("a", 1457, 1, "correct")], True),
    ([Event("late", 1397, 2), Event("b", 1380, 2, "delete")], True),
    ([Event("unread", 1439, 1)], False),
]


@law(25)
@example(history=_MIDNIGHT)
@given(history=_HISTORIES)
def test_causes_add_up_and_are_those_of_the_model(tmp_path_factory: Any, spark: Any, history: History) -> None:
    sample = LiveLake(lake_in(tmp_path_factory.mktemp("lake")), spark)
    model = played(sample, history)
    entries = reconciled(sample, days_of(history))
    assert all(add_up(causes_of(entry)) == entry.gap for entry in entries)
    assert as_causes(entries) == causes_by_model(history, model), "also: nothing is unexplained, so S0 is what Spark counted"
    assert sample.live_numbers() == model.numbers()


@pytest.mark.proof
def test_a_reconciliation_is_a_function_of_the_tables(lake: Lake, spark: Any) -> None:
    sample = LiveLake(lake, spark)
    played(sample, HISTORY[:3])
    once = reconcile(sample.session, lake, sample.hourly, sample.sources["orders"], FIRST)
    again = reconcile(sample.session, lake, sample.hourly, sample.sources["orders"], FIRST)
    assert (once.is_new, again.is_new) == (True, False)
    assert [entry.number for entry in batches.newest_reconciliation(lake, "hourly", FIRST)] == [1] * len(once.entries)
    sample.send(Event("a", 2, 1, "correct"))
    assert reconcile(sample.session, lake, sample.hourly, sample.sources["orders"], FIRST).is_new
    assert {entry.number for entry in batches.newest_reconciliation(lake, "hourly", FIRST)} == {2}
