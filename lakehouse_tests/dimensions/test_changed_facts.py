"""A change of a dimension concerns the facts of its key with an event time in the changed range, and restates their days."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.delta import table_io
from lakehouse.dimensions import changed_facts
from lakehouse.gold.restatement.pending import ATTRIBUTE_CHANGED
from lakehouse_tests.support.joined_lake import FIRST, JOIN, JoinedLake, joined_lake, metric

if TYPE_CHECKING:
    from datetime import date

pytestmark = pytest.mark.spark

GOLD, BASIC = ("gold", "north", 1), ("basic", "north", 1)


def february(*days: int) -> set[date]:
    return {FIRST + timedelta(days=number - 1) for number in days}


def spread(lake: JoinedLake, days: int = 9) -> None:
    """Two facts of ann and one of bob on each day, who are basic from the beginning; published."""
    lake.customer("ann", (1, BASIC))
    lake.customer("bob", (1, BASIC))
    lines = [
        f"{who}{day}{number},1,{day + number / 4},{who}"
        for day in range(1, days + 1)
        for who, number in [("ann", 0), ("ann", 2), ("bob", 1)]
    ]
    lake.deliver(days + 1, *lines)
    lake.publish()


def test_a_late_change_restates_the_days_of_the_facts_within_it_and_says_why(settings, spark) -> None:
    lake = joined_lake(settings, spark)
    spread(lake)
    lake.customer("ann", (1, BASIC), (3.25, GOLD), (6, BASIC))
    pending = lake.pending()
    assert pending.starts == february(3, 4, 5)
    assert pending.causes == {day: {ATTRIBUTE_CHANGED: rows} for day, rows in zip(sorted(february(3, 4, 5)), (1, 2, 2))}
    [done] = lake.publications()
    assert {revision.start for revision in done.revisions} == february(3, 4, 5)
    assert lake.published()[2] == {"basic": 3}
    assert lake.published()[3] == {"basic": 2, "gold": 1}
    assert lake.published()[5] == {"basic": 1, "gold": 2}
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
    stored = table_io.read(locations.gold(settings, Series(lake.metrics[0])), columns).to_pylist()
    of_fourth = {tuple(row.values())[2:] for row in stored if row["is_latest"] and row["event_date"] in february(4)}
    assert of_fourth == {("late_data: 2 rows whose tier of customers changed", 2)}
    assert lake.pending().starts == set()


def test_a_change_of_another_attribute_is_not_looked_at(settings, spark) -> None:
    lake = joined_lake(settings, spark)
    spread(lake)
    lake.customer("ann", (1, BASIC), (3, ("basic", "south", 7)))
    assert lake.pending().starts == set()


def test_a_dimension_row_that_comes_late_takes_the_facts_from_the_unknown_member(settings, spark) -> None:
    lake = joined_lake(settings, spark, metric(joins=[{**JOIN, "columns": ["tier", "level"]}], grain=["tier", "level"]))
    lake.deliver(5, "a,1,1.5,ann", "b,2,2.5,ann", "c,4,3.5,eve")
    lake.publish()
    assert lake.published() == {1: {("unknown", None): 1}, 2: {("unknown", None): 2}, 3: {("unknown", None): 4}}
    lake.customer("ann", (2, GOLD))
    assert lake.publish() == [{2}]
    assert lake.published() == {1: {("unknown", None): 1}, 2: {("gold", 1): 2}, 3: {("unknown", None): 4}}


@pytest.mark.merge
def test_a_window_carries_the_change_to_the_days_that_it_reaches(settings, spark) -> None:
    lake = joined_lake(settings, spark, metric(window=3))
    spread(lake)
    lake.customer("ann", (1, BASIC), (4, GOLD), (5, BASIC))
    assert lake.publish() == [{4, 5, 6}]
    assert lake.published()[6] == {"basic": 7, "gold": 2}


@pytest.mark.merge
def test_a_dimension_of_a_dimension_is_followed_through_the_one_between(settings, spark) -> None:
    joins = [
        {"dimension": "customers", "on": "customer", "columns": ["region"]},
        {"dimension": "regions", "on": ["region"], "columns": ["manager"]},
    ]
    lake = joined_lake(settings, spark, metric(joins=joins, grain=["manager"]))
    lake.region("north", (1, "nora"))
    lake.region("south", (1, "sam"))
    spread(lake)
    lake.customer("bob", (1, BASIC), (5, ("basic", "south", 1)))
    assert lake.publish() == [{5, 6, 7, 8, 9}]
    lake.region("south", (1, "sam"), (6, "sue"), (7.5, "sam"))
    assert lake.pending().causes == {day: {ATTRIBUTE_CHANGED: 1} for day in february(6, 7)}
    assert lake.publish() == [{6, 7}]
    assert lake.published()[6] == {"nora": 2, "sue": 1}
    assert lake.published()[8] == {"nora": 2, "sam": 1}


@pytest.mark.merge
def test_many_changes_are_a_reason_to_compute_every_day(settings, spark, monkeypatch) -> None:
    lake = joined_lake(settings, spark)
    spread(lake)
    monkeypatch.setattr(changed_facts, "MOST_CHANGES", 1)
    lake.customer("ann", (1, BASIC), (4, GOLD), (5, BASIC))
    assert lake.pending().starts == february(*range(1, 10))
    assert lake.publish() == [{4}]


@pytest.mark.merge
def test_a_metric_that_joins_a_dimension_since_now_computes_every_day(settings, spark) -> None:
    lake = joined_lake(settings, spark, metric(joins=[], grain=[]))
    spread(lake)
    joined = joined_lake_again(lake)
    assert joined.pending().starts == february(*range(1, 10))
    joined.publish()
    assert joined.pending().starts == set()


def joined_lake_again(lake: JoinedLake) -> JoinedLake:
    return JoinedLake(
        lake.lake, [metric(grain=[], measures=[{"name": "total", "sql": "sum(if(tier = 'basic', amount, 0))", "type": "long"}])]
    )
