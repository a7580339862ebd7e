"""Laws of joined metrics over a real lake: published numbers equal a model, and exactly the days that differ are restated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from lakehouse_tests.support.dimension_model import DimensionRecord, day
from lakehouse_tests.support.hypothesis_settings import derandomized
from lakehouse_tests.support.joined_histories import Delivery, Fact, JoinedHistory, deliveries
from lakehouse_tests.support.lake_settings import lake_settings
from lakehouse_tests.support.stopped_commits import Killed, kill_after

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

pytestmark = pytest.mark.spark


def differing(before: dict[date, Any], after: dict[date, Any]) -> set[date]:
    return {start for start in {*before, *after} if before.get(start) != after.get(start)}


@given(history=deliveries())
@derandomized(6)
def test_after_each_arrival_the_numbers_are_those_of_the_model_and_the_restated_days_those_that_differ(
    history: list[Delivery], tmp_path_factory: pytest.TempPathFactory, spark: Any
) -> None:
    lake = JoinedHistory(lake_settings(tmp_path_factory.mktemp("lake")), spark)
    before = lake.model()
    for delivery in history:
        restated = lake.apply(lake.land(delivery))
        after = lake.model()
        for one, was, now, days in zip(lake.metrics, before, after, restated):
            assert lake.published(one) == now, one.name
            assert days == differing(was, now), one.name
        before = after
    assert lake.unlike_published() == []


def change(key: str, at: float, tier: str, op: str = "") -> DimensionRecord:
    return DimensionRecord(key, day(at), op, tier, "north", None, None, day(10))


def stops_behind_later_and_later_commits(step: Callable[[], object]) -> int:
    """Stop a step behind its first commit, then the same step behind its second one, and so on; gives the number of stops."""
    for stops in range(60):
        with pytest.MonkeyPatch.context() as patched:
            kill_after(patched, stops + 1)
            try:
                step()
            except Killed:
                continue
            return stops
    pytest.fail("it never comes to its end")


FACTS: Delivery = [Fact(f"{key}{number}", 1, day(number), key, "insert") for number in range(4) for key in ("1", "2")]


@pytest.mark.parametrize(
    "last",
    [[change("1", 1.5, "gold")], [Fact("late", 5, day(2), "1", "insert"), Fact("10", 1, day(0), "1", "delete")]],
    ids=["a change of a customer", "facts"],
)
def test_a_run_that_is_stopped_behind_any_commit_ends_as_if_it_had_not_been(settings, spark, last: Delivery) -> None:
    lake = JoinedHistory(settings, spark)
    for delivery in (FACTS, [change("1", 0, "basic"), change("2", 1, "basic")]):
        lake.apply(lake.land(delivery))
    source = lake.land(last)
    before = [lake.revisions(one) for one in lake.metrics]
    assert stops_behind_later_and_later_commits(lambda: lake.apply(source)) > 8
    assert [lake.published(one) for one in lake.metrics] == lake.model()
    added = [{start for start, _ in lake.revisions(one) - known} for one, known in zip(lake.metrics, before)]
    assert all(len(lake.revisions(one)) - len(known) == len(days) for one, known, days in zip(lake.metrics, before, added))
    assert lake.publish() == [set(), set()]
    assert lake.unlike_published() == []
