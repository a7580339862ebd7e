"""An hour of orders with five minutes allowed lateness: one event late within it, one beyond, under each of the four actions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.gold.publication import late_at_close
from lakehouse.gold.restatement import reconciliation
from lakehouse.late_events import counters, follow, late_rows
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.late_lake import LateLake, late
from lakehouse_tests.support.windowed_lake import BEGINS, FIRST, TUMBLING, Event

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Outcome:
    """What an action makes of the hour.

    ``numbers`` are the total and the number of orders, ``updates`` the revisions of the hour because of late rows, ``counts`` the
    rows on time, late and accepted, late and dropped, ``late`` the side output: by key the action and the reason.
    """

    numbers: tuple[int, int]
    updates: int
    counts: tuple[int, int, int]
    late: dict[str, tuple[str, str]]


BEYOND = ("side_output", "dropped_beyond_tolerance")
WITHIN = "late_within_tolerance"
#: Six orders of 1 come on time, one of 10 comes within five minutes after the hour, one of 100 comes later.
TABLE = {
    "drop": Outcome((6, 6), 0, (8, 0, 2), {"within": ("drop", WITHIN), "beyond": BEYOND}),
    "side_output": Outcome((6, 6), 0, (8, 0, 2), {"within": ("side_output", WITHIN), "beyond": BEYOND}),
    "update": Outcome((16, 7), 1, (8, 1, 1), {"within": ("update", WITHIN), "beyond": BEYOND}),
    "recompute": Outcome((16, 7), 1, (8, 1, 1), {"within": ("recompute", WITHIN), "beyond": BEYOND}),
}


@pytest.fixture(scope="module")
def sample(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> LateLake:
    """One lake with a metric for each action; the watermark stays ten minutes behind the newest event."""
    metrics = [late({**TUMBLING, "metric": f"orders_{action}"}, action) for action in TABLE]
    sample = LateLake(lake_in(tmp_path_factory.mktemp("lake")), spark, metrics)
    on_time = [Event(f"order {minute}", minute) for minute in range(0, 60, 10)]
    sample.deliver_at(0, *on_time, Event("next hour", 73))  # after it the watermark is at 01:03
    sample.deliver_at(1, Event("within", 42, 10), Event("later", 80))  # and then at 01:10
    sample.deliver_at(2, Event("beyond", 43, 100))
    return sample


@pytest.mark.merge
@pytest.mark.parametrize("action", TABLE)
def test_the_hour_of_orders(sample: LateLake, action: str) -> None:
    definition = next(metric for metric in sample.metrics if metric.name == f"orders_{action}")
    series = Series(definition)
    counts = counters.of_metric(sample.lake, definition)
    rows = late_rows.read(sample.lake, "orders", {"metric": [definition.name]}).sort_by("arrival_ts").to_pylist()
    published = locations.gold(sample.lake, series).read()
    assert published is not None
    outcome = Outcome(
        sample.windows(series)[BEGINS],
        late_at_close._counted(sample.lake, series, FIRST, late_at_close._revisions(published, series, FIRST))[BEGINS],
        (counts.on_time, counts.late_accepted, counts.late_dropped),
        {row["record_key"]: (row["action"], row["reason"]) for row in rows},
    )
    assert outcome == TABLE[action]
    assert {window for row in rows for window in row["windows"]} == {"2024-10-25T00"}
    assert [row["watermark"] - BEGINS for row in rows] == [timedelta(hours=1, minutes=minute) for minute in (3, 10)]
    assert {row["window_end"] - BEGINS for row in rows} == {timedelta(hours=1)}
    assert len(late_rows.in_window(late_rows.read(sample.lake, "orders"), "2024-10-25T00")) == 2 * len(TABLE)


@pytest.mark.merge
def test_the_rates_of_the_source_are_those_of_all_metrics_together(sample: LateLake) -> None:
    together = counters.total(counters.of_source(sample.lake, "orders", sample.metrics), "orders")
    assert (together.on_time, together.late_accepted, together.late_dropped) == (32, 2, 6)
    parts = {"late_counted_at_close": 0, "late_not_counted": 6 / 40}
    assert together.rates == {"on_time": 32 / 40, "late_accepted": 2 / 40, "late_dropped": 6 / 40, **parts}
    of_days = counters.by_event_day(sample.lake, sample.metrics[0], [FIRST, FIRST + timedelta(days=1)])
    assert of_days == {FIRST: counters.LateCounts("orders_drop", late_dropped=2)}


@pytest.mark.merge
def test_the_published_numbers_pass_their_checks(sample: LateLake) -> None:
    for definition in sample.metrics:
        series = Series(definition)
        outcomes = reconciliation.check_published(sample.lake, series, [FIRST])
        outcomes += reconciliation.check_gold(sample.lake, series, sample.session, [FIRST])
        assert [outcome for outcome in outcomes if not outcome.passed] == []
        assert "totals_equal_silver" in {outcome.check for outcome in outcomes}


def test_a_lost_table_is_made_again_and_a_stopped_step_is_repeated(sample: LateLake) -> None:
    def content() -> list[Any]:
        rows = late_rows.read(sample.lake, "orders").to_pylist()
        return sorted((row["metric"], row["ingestion_id"], row["line_number"], f"{row}") for row in rows)

    contract, wanted = sample.sources["orders"], content()
    late_table, counts_table = locations.late_rows(sample.lake, "orders"), locations.late_deliveries(sample.lake, "orders")
    follow.follow(sample.lake, contract, sample.metrics)
    assert content() == wanted
    for lost in (late_table, counts_table):  # without the counts, a step looks as if it had been stopped after the rows
        table = lost.snapshot()
        assert table is not None
        table.delete()
        counts = counters.of_source(sample.lake, "orders", sample.metrics)
        if lost == late_table:
            counted = counts_table.snapshot()
            assert counted is not None
            counted.delete("late_accepted + late_dropped > 0")
        follow.follow(sample.lake, contract, sample.metrics)
        assert content() == wanted
        assert lost == counts_table or counters.of_source(sample.lake, "orders", sample.metrics) == counts


@pytest.mark.merge
def test_spark_reads_the_late_rows(sample: LateLake) -> None:
    rows = sample.spark.read.format("delta").load(locations.late_rows(sample.lake, "orders").address)
    assert sorted(rows.where("NOT counts").groupBy("metric").count().collect()) == [
        ("orders_drop", 2),
        ("orders_recompute", 1),
        ("orders_side_output", 2),
        ("orders_update", 1),
    ]
