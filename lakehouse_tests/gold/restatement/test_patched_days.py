"""A patched number equals the one computed from scratch, whatever was changed (and only metrics that allow it are patched)."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.publication import write_audit_publish
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import metric_query, patched_days
from lakehouse.gold.restatement.pending import find_pending
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake, contract, csv_file
from lakehouse_tests.support.laws import law

pytestmark = pytest.mark.spark

FIRST = date(2024, 1, 1)


def metric(**changes) -> MetricContract:
    fields = {
        "metric": "total",
        "source": "events",
        "grain": ["id"],
        "measures": [
            {"name": "total", "sql": "coalesce(sum(cast(amount as decimal(9,2))), 0)", "type": "decimal(18,2)", "additive": True},
            {"name": "events", "sql": "count(*)", "type": "long", "additive": True},
        ],
        "publication": {"patch_up_to": 1000},
    }
    return MetricContract.model_validate(fields | changes)


lines = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(-3, 9), st.integers(0, 2), st.sampled_from(["insert", "correct", "delete"])),
    min_size=1,
    max_size=5,
)


def deliver(sample: SampleLake, number: int, changes: list[tuple[str, int, int, str]]) -> None:
    arrival = FIRST + timedelta(days=number)
    sample.lake.settings.now = datetime.combine(arrival, datetime.max.time(), timezone.utc)
    rows = [
        f"{key},{amount},{FIRST + timedelta(days=day)}T12:00:00Z,{arrival}T0{line}:00:00Z,{op},,0"
        for line, (key, amount, day, op) in enumerate(changes)
    ]
    sample.deliver(arrival, csv_file(rows))
    sample.ingest(arrival)
    sample.update()


#: A row moves to another day, one is deleted and so empties a day, one is corrected, one is new on a day that has no number.
CHANGED = [
    [("a", 1, 0, "insert"), ("b", 2, 1, "insert"), ("c", 3, 2, "insert"), ("d", -3, 2, "insert")],
    [("a", 4, 1, "correct"), ("c", 3, 2, "correct"), ("d", 9, 2, "correct"), ("b", 0, 1, "delete")],
    [("a", 4, 1, "delete")],
]


@law(25)
@example(files=CHANGED, grain=True)
@example(files=CHANGED[:2], grain=False)
@given(files=st.lists(lines, min_size=2, max_size=4), grain=st.booleans())
def test_both_ways_give_the_same_number(spark, tmp_path_factory, files, grain: bool) -> None:
    sample = SampleLake(lake_in(tmp_path_factory.mktemp("lake")), contract(clocks=CLOCKS), spark)
    series = Series(metric(grain=["id"] if grain else []))
    for number, changes in enumerate(files, 3):
        deliver(sample, number, changes)
        pending = find_pending(sample.lake, series)
        days = sorted(pending.starts)
        if not days:
            continue
        before = write_audit_publish.read(sample.lake, series, days)
        patched = patched_days.numbers(lambda: spark, sample.lake, before, days)
        recomputed = metric_query.numbers(lambda: spark, sample.lake, series.metric, days)
        nothing = metric_query.nothing(lambda: spark, sample.lake, series.metric)
        assert {day: rows.to_pylist() for day, rows in patched.items()} == {
            day: recomputed.get(day, nothing).to_pylist() for day in patched
        }
        assert set(patched) == set(days) & set(before.latest), "every day that has a number is patched"
        restatement_days.restate(sample.lake, sample.contract, series, lambda: spark, days, Run("run"), pending)


CLOCKS = {"event": "event_time", "arrival": "arrived_at", "max_ahead": "P9D"}


@pytest.mark.merge
@pytest.mark.parametrize(
    "changes",
    [
        {"publication": {"patch_up_to": 0}},
        {"publication": {"patch_up_to": 1}},
        {"window": 2},
        {"measures": [{"name": "total", "sql": "sum(amount)", "type": "long", "additive": True}]},  # NULL over no rows
        {"measures": [{"name": "total", "sql": "count(distinct id)", "type": "long"}]},
        {"measures": [{"name": "total", "sql": "coalesce(sum(cast(amount as double)), 0)", "type": "double", "additive": True}]},
        # The sum of two rounded numbers is not the rounded number of both:
        {"measures": [{"name": "total", "sql": "coalesce(sum(amount), 0) / 3", "type": "decimal(18,2)", "additive": True}]},
        {
            "measures": [
                {"name": "t", "sql": "coalesce(sum(cast(amount as decimal(9,3))), 0)", "type": "decimal(18,2)", "additive": True}
            ]
        },
    ],
)
def test_changes_that_are_inexact_or_large_are_recomputed(lake, spark, changes) -> None:
    sample = SampleLake(lake, contract(), spark)
    series = Series(metric(**changes))
    for number, records in enumerate([[("a", 1, 0, "insert")], [("b", 2, 0, "insert"), ("c", 2, 0, "insert")]], 3):
        deliver(sample, number, records)
        pending = find_pending(lake, series)
        before = write_audit_publish.read(lake, series, sorted(pending.starts))
        assert patched_days.numbers(lambda: spark, lake, before, sorted(pending.starts)) == {}
        restatement_days.restate(lake, sample.contract, series, lambda: spark, sorted(pending.starts), Run("run"), pending)


def test_days_of_several_sources_are_computed_from_all_rows() -> None:
    assert patched_days.may_be_patched(metric())
    assert not patched_days.may_be_patched(metric(sources=[{"source": "events"}, {"source": "others"}]))
