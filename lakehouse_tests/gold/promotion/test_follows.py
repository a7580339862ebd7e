"""After a promotion the days that silver changed, and no others, are recomputed with the logic that readers see now."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from lakehouse import locations
from lakehouse.contracts import Catalog
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import served_version
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_pending
from lakehouse_tests.support import two_dataset_versions as total
from lakehouse_tests.support.lake import SampleLake, contract, csv_file
from lakehouse_tests.support.two_dataset_versions import TOTAL, at, day, latest_totals, metric, promote, rollback

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark
TWICE = metric(2, TOTAL | {"sql": "2 * sum(amount)"})
KNOWN = Catalog({"events": contract()}, {"total": metric(1), "total_v2": TWICE})


def deliver(sample: SampleLake, arrival: int, *rows: tuple[str, int, int]) -> None:
    at(sample.lake, arrival, 23)
    arrived = date(2024, 2, arrival)
    said = [f"{key},{amount},2024-02-{on:02}T12:00:00Z,{arrived}T13:00:00Z,insert,,0" for key, on, amount in rows]
    sample.deliver(arrived, csv_file(said))
    sample.ingest(arrived)
    sample.update()


def follow(sample: SampleLake, series: Series) -> set[int]:
    """Publish what waits of a series; the days."""
    waiting = find_pending(sample.lake, series)
    restatement_days.restate(sample.lake, sample.contract, series, lambda: sample.spark, waiting.starts, Run("run"), waiting)
    return {start.day for start in waiting.starts}


@pytest.mark.merge
def test_days_that_changed_meanwhile_are_recomputed(lake: Lake, spark: SparkSession) -> None:
    sample = SampleLake(lake, contract(), spark)

    def readers() -> Series:
        return served_version.daily(lake, KNOWN, metric(1))

    deliver(sample, 3, ("a", 1, 10), ("b", 2, 20), ("c", 3, 30))
    assert follow(sample, readers()) == {1, 2, 3}
    follow(sample, Series(TWICE))
    promote(lake, KNOWN)
    assert latest_totals(lake) == {1: 20, 2: 40, 3: 60}
    assert find_pending(lake, readers()).starts == set()

    deliver(sample, 4, ("d", 2, 1), ("e", 4, 40))
    assert follow(sample, readers()) == {2, 4}
    assert latest_totals(lake) == {1: 20, 2: 42, 3: 60, 4: 80}

    rollback(lake, KNOWN)
    assert latest_totals(lake) == {1: 10, 2: 20, 3: 30, 4: 80}
    assert follow(sample, readers()) == {2, 4}
    assert latest_totals(lake) == {1: 10, 2: 21, 3: 30, 4: 40}
    assert set(latest_totals(lake, column="dataset_version").values()) == {1}
    assert find_pending(lake, readers()).starts == set()
    assert len(total.revisions(lake, 1)) == 3

    follow(sample, Series(TWICE))
    promote(lake, KNOWN)
    assert latest_totals(lake) == {1: 20, 2: 42, 3: 60, 4: 80}
    assert find_pending(lake, readers()).starts <= {day(2), day(4)}


@pytest.mark.merge
def test_a_run_with_the_logic_of_before_publishes_nothing(lake: Lake, spark: SparkSession) -> None:
    sample = SampleLake(lake, contract(), spark)
    deliver(sample, 3, ("a", 1, 10), ("b", 2, 0))
    before = served_version.daily(lake, KNOWN, metric(1))
    follow(sample, before)
    follow(sample, Series(TWICE))
    promote(lake, KNOWN)
    deliver(sample, 4, ("c", 2, 7))
    version = locations.gold(lake, before).snapshot().version()
    with pytest.raises(served_version.MovedError, match="gold/total shows v2 now"):
        follow(sample, before)
    assert locations.gold(lake, before).snapshot().version() == version
    assert follow(sample, served_version.daily(lake, KNOWN, metric(1))) == {2}
    assert latest_totals(lake) == {1: 20, 2: 14}
