"""A change of a dimension concerns the facts of its key with an event time in the changed range, and restates their days."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.dimensions import changed_facts
from lakehouse.gold.restatement.pending import ATTRIBUTE_CHANGED
from lakehouse_tests.support.joined_lake import FIRST, JOIN, JoinedLake, joined_lake, metric

if TYPE_CHECKING:
    from datetime import date

pytestmark = pytest.mark.spark

GOLD, BASIC = ("gold", "north", 1), ("basic", "north", 1)


def february(*days: int) -> set[date]:
    return {FIRST + timedelta(days=number - 1) for number in days}


def spread(sample: JoinedLake, days: int = 9) -> None:
    """Two facts of ann and one of bob on each day, who are basic from the beginning; published."""
    sample.customer("ann", (1, BASIC))
    sample.customer("bob", (1, BASIC))
    lines = [
        f"{who}{day}{number},1,{day + number / 4},{who}"
        for day in range(1, days + 1)
        for who, number in [("ann", 0), ("ann", 2), ("bob", 1)]
    ]
    sample.deliver(days + 1, *lines)
    sample.publish()


def test_a_late_change_restates_the_days_of_the_facts_within_it_and_says_why(lake, spark) -> None:
    sample = joined_lake(lake, spark)
    spread(sample)
    sample.customer("ann", (1, BASIC), (3.25, GOLD), (6, BASIC))
    pending = sample.pending()
    assert pending.starts == february(3, 4, 5)
    assert pending.causes == {day: {ATTRIBUTE_CHANGED: rows} for day, rows in zip(sorted(february(3, 4, 5)), (1, 2, 2))}
    [done] = sample.publications()
    assert {revision.start for revision in done.revisions} == february(3, 4, 5)
    assert sample.published()[2] == {"basic": 3}
    assert sample.published()[3] == {"basic": 2, "gold": 1}
    assert sample.published()[5] == {"basic": 1, "gold": 2}
    assert done.lineage["dimension_changes"] == {
        "in_all": 1,
        "first": [
            {
                "dimension": "customers",
                "key": "ann",
                "column": "tier",
                "from": "2024-02-03T06:00:00+00:00",
                "to": "2024-02-06T00:00:00+00:00",
                "before": "basic",
                "after": "gold",
                "days": ["2024-02-03", "2024-02-04", "2024-02-05"],
            }
        ],
    }
    columns = ["event_date", "is_latest", "restatement_reason", "changed_rows"]
    stored = locations.gold(lake, Series(sample.metrics[0])).read(columns).to_pylist()
    of_fourth = {tuple(row.values())[2:] for row in stored if row["is_latest"] and row["event_date"] in february(4)}
    assert of_fourth == {("late_data: 2 rows whose tier of customers changed", 2)}
    assert sample.pending().starts == set()


def test_a_change_of_another_attribute_is_not_looked_at(lake, spark) -> None:
    sample = joined_lake(lake, spark)
    spread(sample)
    sample.customer("ann", (1, BASIC), (3, ("basic", "south", 7)))
    assert sample.pending().starts == set()


def test_a_dimension_row_that_comes_late_takes_the_facts_from_the_unknown_member(lake, spark) -> None:
    sample = joined_lake(lake, spark, metric(joins=[{**JOIN, "columns": ["tier", "level"]}], grain=["tier", "level"]))
    sample.deliver(5, "a,1,1.5,ann", "b,2,2.5,ann", "c,4,3.5,eve")
    sample.publish()
    assert sample.published() == {1: {("unknown", None): 1}, 2: {("unknown", None): 2}, 3: {("unknown", None): 4}}
    sample.customer("ann", (2, GOLD))
    assert sample.publish() == [{2}]
    assert sample.published() == {1: {("unknown", None): 1}, 2: {("gold", 1): 2}, 3: {("unknown", None): 4}}


@pytest.mark.merge
def test_a_window_carries_the_change_to_the_days_that_it_reaches(lake, spark) -> None:
    sample = joined_lake(lake, spark, metric(window=3))
    spread(sample)
    sample.customer("ann", (1, BASIC), (4, GOLD), (5, BASIC))
    assert sample.publish() == [{4, 5, 6}]
    assert sample.published()[6] == {"basic": 7, "gold": 2}


@pytest.mark.merge
def test_a_dimension_of_a_dimension_is_followed_through_the_one_between(lake, spark) -> None:
    joins = [
        {"dimension": "customers", "on": "customer", "columns": ["region"]},
        {"dimension": "regions", "on": ["region"], "columns": ["manager"]},
    ]
    sample = joined_lake(lake, spark, metric(joins=joins, grain=["manager"]))
    sample.region("north", (1, "nora"))
    sample.region("south", (1, "sam"))
    spread(sample)
    sample.customer("bob", (1, BASIC), (5, ("basic", "south", 1)))
    assert sample.publish() == [{5, 6, 7, 8, 9}]
    sample.region("south", (1, "sam"), (6, "sue"), (7.5, "sam"))
    assert sample.pending().causes == {day: {ATTRIBUTE_CHANGED: 1} for day in february(6, 7)}
    assert sample.publish() == [{6, 7}]
    assert sample.published()[6] == {"nora": 2, "sue": 1}
    assert sample.published()[8] == {"nora": 2, "sam": 1}


@pytest.mark.merge
def test_many_changes_are_a_reason_to_compute_every_day(lake, spark, monkeypatch) -> None:
    sample = joined_lake(lake, spark)
    spread(sample)
    monkeypatch.setattr(changed_facts, "MOST_CHANGES", 1)
    sample.customer("ann", (1, BASIC), (4, GOLD), (5, BASIC))
    assert sample.pending().starts == february(*range(1, 10))
    assert sample.publish() == [{4}]


@pytest.mark.merge
def test_a_metric_that_joins_a_dimension_since_now_computes_every_day(lake, spark) -> None:
    sample = joined_lake(lake, spark, metric(joins=[], grain=[]))
    spread(sample)
    joined = joined_lake_again(sample)
    assert joined.pending().starts == february(*range(1, 10))
    joined.publish()
    assert joined.pending().starts == set()


def joined_lake_again(sample: JoinedLake) -> JoinedLake:
    return JoinedLake(
        sample.sample,
        [metric(grain=[], measures=[{"name": "total", "sql": "sum(if(tier = 'basic', amount, 0))", "type": "long"}])],
    )
