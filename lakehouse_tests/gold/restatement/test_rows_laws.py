"""Laws of metrics with several sources over a real lake: numbers equal a model, and exactly the days that differ are restated."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given

from lakehouse.contracts.series import Series
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.stopped_commits import stopped_behind
from lakehouse_tests.support.united_lake import Order, UnitedLake, deliveries, metric

if TYPE_CHECKING:
    from datetime import date

pytestmark = pytest.mark.spark


def differing(before: dict[date, Any], after: dict[date, Any]) -> set[date]:
    return {start for start in {*before, *after} if before.get(start) != after.get(start)}


#: The same orders in three sources. Then an order is deleted where it counted, one moves to another week, an order has no number,
#: and the newest row of a partner's order has another store.
CORNERS = [
    [Order("mobile", f"{number}", f"{number}", 1, "north", number) for number in (0, 2)],
    [Order("web", f"{number}", f"{number}", 2, "north", number) for number in (0, 2)],
    [
        Order("partner", "a", "2", 3, "north", 2),
        Order("partner", "b", "", 4, "north", 2),
        Order("partner", "a", "2", 3, "south", 2),
    ],
    [Order("web", "0", "0", 2, "north", 0, "delete"), Order("web", "2", "2", 2, "north", 8)],
]


@pytest.mark.proof
@pytest.mark.timeout(2400)
@law(25)
@example(history=CORNERS)
@given(history=deliveries())
def test_after_each_arrival_the_numbers_are_those_of_the_model_and_the_restated_days_those_that_differ(
    history: list[list[Order]], tmp_path_factory: pytest.TempPathFactory, spark: Any
) -> None:
    sample = UnitedLake(lake_in(tmp_path_factory.mktemp("lake")), spark)
    before = sample.model()
    for delivery in history:
        restated = sample.apply(sample.land(delivery))
        after = sample.model()
        for definition, was, now, days in zip(sample.metrics, before, after, restated):
            assert sample.published(Series(definition)) == now, definition.name
            assert days == differing(was, now), definition.name
        [weekly] = Series(sample.metrics[0]).rollups
        assert sample.published(weekly) == sample.weekly()
        before = after
    assert sample.unlike_published() == []


ORDERS = [[Order(name, f"{number}", f"{number}", 1, "north", number) for number in (0, 2, 7)] for name in ("web", "mobile")]


@pytest.mark.proof
def test_a_run_that_is_stopped_behind_any_commit_ends_as_if_it_had_not_been(tmp_path, spark) -> None:
    (tmp_path / "0").mkdir()
    prepared = UnitedLake(lake_in(tmp_path / "0"), spark, [metric()])
    for delivery in ORDERS:
        prepared.apply(prepared.land(delivery))
    source = prepared.land([Order("mobile", "2", "new", 5, "south", 2), Order("mobile", "7", "7", 1, "north", 7, "delete")])
    daily, number = Series(prepared.metrics[0]), 0
    before = prepared.revisions(daily)
    for number in range(1, 40):
        folder = tmp_path / f"{number}"
        shutil.copytree(tmp_path / "0", folder)
        lake = prepared.lake.with_settings(root=f"{folder / 'lake'}", landing=f"{folder / 'landing'}")
        sample = replace(prepared, lake=lake)
        is_stopped = stopped_behind(number, lambda: sample.apply(source))  # noqa: B023 (called in the same turn)
        sample.apply(source)
        assert sample.published(daily) == sample.revenue(), f"stopped behind commit {number}"
        assert sample.published(daily.rollups[0]) == sample.weekly(), f"stopped behind commit {number}"
        after = sample.revisions(daily)
        assert len(after) - len(before) == len({start for start, _ in after - before}) == 1, "one revision of the one day"
        assert sample.publish() == [set()]
        if not is_stopped:
            break
    assert number > 4, "there are fewer commits than a change of silver and numbers have"
    assert sample.unlike_published() == []
