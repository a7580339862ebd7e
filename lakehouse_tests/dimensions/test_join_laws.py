"""Laws of joined metrics over a real lake: published numbers equal a model, and exactly the days that differ are restated."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given

from lakehouse.contracts.metric import MetricContract
from lakehouse_tests.support.dimension_model import DimensionRecord, day
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.joined_histories import BY_TIER, Delivery, Fact, JoinedHistory, deliveries
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.stopped_commits import stopped_behind

if TYPE_CHECKING:
    from datetime import date

pytestmark = pytest.mark.spark


def differing(before: dict[date, Any], after: dict[date, Any]) -> set[date]:
    return {start for start in {*before, *after} if before.get(start) != after.get(start)}


def change(key: str, at: float, tier: str, op: str = "") -> DimensionRecord:
    return DimensionRecord(key, day(at), op, tier, "north", None, None, day(10))


#: Facts before their customer is known, one without a customer, one at the moment of a change. Then a change that is known late
#: moves a day's facts to another tier, a customer ends, a fact moves to another customer and day, and one is deleted.
CORNERS: list[Delivery] = [
    [*(Fact(f"1{number}", 1, day(number), "1", "insert") for number in (0, 2, 4)), Fact("none", 2, day(2), "", "insert")],
    [change("1", 0, "basic"), change("1", 4, "gold"), change("2", 0, "basic")],
    [change("1", 2, "gold"), change("1", 4, "", "delete")],
    [Fact("10", 3, day(4.5), "2", "insert"), Fact("12", 1, day(2), "1", "delete")],
]


@pytest.mark.proof
@pytest.mark.timeout(2400)
@law(25)
@example(history=CORNERS)
@given(history=deliveries())
def test_after_each_arrival_the_numbers_are_those_of_the_model_and_the_restated_days_those_that_differ(
    history: list[Delivery], tmp_path_factory: pytest.TempPathFactory, spark: Any
) -> None:
    sample = JoinedHistory(lake_in(tmp_path_factory.mktemp("lake")), spark)
    before = sample.model()
    for delivery in history:
        restated = sample.apply(sample.land(delivery))
        after = sample.model()
        for metric, was, now, days in zip(sample.metrics, before, after, restated):
            assert sample.published(metric) == now, metric.name
            assert days == differing(was, now), metric.name
        before = after
    assert sample.unlike_published() == []


FACTS: Delivery = [Fact(f"{key}{number}", 1, day(number), key, "insert") for number in range(4) for key in ("1", "2")]


@pytest.mark.proof
@pytest.mark.parametrize(
    "last",
    [[change("1", 1.5, "gold")], [Fact("late", 5, day(2), "1", "insert"), Fact("10", 1, day(0), "1", "delete")]],
    ids=["a change of a customer", "facts"],
)
def test_a_run_that_is_stopped_behind_any_commit_ends_as_if_it_had_not_been(tmp_path, spark, last: Delivery) -> None:
    metrics = [MetricContract.model_validate({"source": "events", **BY_TIER})]
    (tmp_path / "0").mkdir()
    prepared = JoinedHistory(lake_in(tmp_path / "0"), spark, metrics)
    for delivery in (FACTS, [change("1", 0, "basic"), change("2", 1, "basic")]):
        prepared.apply(prepared.land(delivery))
    source, number = prepared.land(last), 0
    [before] = [prepared.revisions(metric) for metric in prepared.metrics]
    for number in range(1, 40):
        folder = tmp_path / f"{number}"
        shutil.copytree(tmp_path / "0", folder)
        root, landing = f"{folder / 'lake'}", f"{folder / 'landing'}"
        lake = prepared.lake.with_settings(root=root, landing=landing)
        sample = replace(prepared, lake=lake)
        is_stopped = stopped_behind(number, lambda: sample.apply(source))  # noqa: B023 (called in the same turn)
        sample.apply(source)
        assert [sample.published(metric) for metric in sample.metrics] == [sample.by_tier()], f"stopped behind commit {number}"
        [after] = [sample.revisions(metric) for metric in sample.metrics]
        assert len(after) - len(before) == len({start for start, _ in after - before}), "one revision a day"
        assert sample.publish() == [set()]
        if not is_stopped:
            break
    assert number > 6, "there are fewer commits than a change of silver, its intervals or index, and numbers have"
    assert sample.unlike_published() == []
