"""The published numbers that would come out otherwise are named, and nothing is published."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import history
from lakehouse.gold.numbers.comparison import Sides
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import reconciliation
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.gold.restatement.reconciliation import DifferingNumber
from lakehouse_tests.support.lake import SampleLake, contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark


def series(sql: str) -> Series:
    measures = [{"name": "evening", "sql": sql, "type": "long"}]
    return Series(MetricContract.model_validate({"metric": "m", "source": "events", "measures": measures}))


def test_days_whose_measure_sees_other_hours_are_named(lake: Lake, spark: SparkSession) -> None:
    sample = SampleLake(lake, contract(), spark)
    hours = {6: 10, 7: 17, 8: 20}
    lines = [f"k{day},1,2024-05-{day:02}T{hour}:00:00Z,2024-05-09T08:00:00Z,insert,,0" for day, hour in hours.items()]
    sample.deliver(date(2024, 5, 9), "\n".join(("id,amount,event_time,arrived_at,op,corrects,seq", *lines)).encode())
    sample.ingest(date(2024, 5, 9))
    sample.update()
    before = series("count(*) filter (where hour(event_ts) >= 18)")
    pending = find_pending(lake, before)
    restatement_days.restate(lake, sample.contract, before, lambda: spark, pending.starts, Run("run"), pending)
    assert reconciliation.differing_numbers(lake, before, lambda: spark) == []
    now = series("count(*) filter (where hour(event_ts) + 2 >= 18)")  # as in a zone two hours ahead
    assert reconciliation.differing_numbers(lake, now, lambda: spark) == [
        DifferingNumber(date(2024, 5, 7), {"evening": Sides(0, 1)})
    ]
    assert reconciliation.differing_numbers(lake, now, lambda: spark, date(2024, 5, 8)) == []
    poisoned = series("count(*) / cast(if(min(hour(event_ts)) = 20, 'none', '1') as int)")
    [failing] = reconciliation.differing_numbers(lake, poisoned, lambda: spark, date(2024, 5, 8))
    assert failing.day == date(2024, 5, 8)
    assert "m of 2024-05-08 cannot be computed" in f"{failing.problem}"
    assert [one.row["revision"] for one in history.newest(lake, before).values()] == [1, 1, 1]
