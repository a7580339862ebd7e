"""Silver updated for some of the pending days first: a key that moves may exist twice until the other day follows."""

from __future__ import annotations

from datetime import date

import pytest

from lakehouse_tests.support.lake import SampleLake, contract, csv_file

pytestmark = pytest.mark.spark

OLD, NEW = date(2024, 1, 1), date(2024, 1, 2)


def half_moved(lake, spark) -> SampleLake:
    """Key a has moved from OLD to NEW, and only NEW has been updated."""
    sample = SampleLake(lake, contract(), spark)
    for hour, day in enumerate([OLD, NEW]):
        arrival = date(2024, 2, 1 + hour)
        sample.deliver(arrival, csv_file([f"a,{hour},{day}T12:00:00Z,{arrival}T06:00:00Z,correct,,0"]))
        sample.ingest(arrival)
        sample.update([day])
    assert sample.pending() == [OLD]
    return sample


def late(sample: SampleLake, line: str) -> None:
    sample.deliver(date(2024, 2, 3), csv_file([line]))
    sample.ingest(date(2024, 2, 3))


@pytest.mark.merge
def test_the_other_day_together_with_news_of_the_new_one(lake, spark) -> None:
    sample = half_moved(lake, spark)
    late(sample, f"b,7,{NEW}T12:00:00Z,2024-02-03T06:00:00Z,insert,,0")
    sample.update()
    assert {row[:3] for row in sample.silver()} == {("a", NEW, 1), ("b", NEW, 7)}


@pytest.mark.merge
def test_both_days_changed_where_the_key_is_corrected_meanwhile(lake, spark) -> None:
    sample = half_moved(lake, spark)
    late(sample, f"a,9,{NEW}T12:00:00Z,2024-02-03T06:00:00Z,correct,,0")
    done = sample.update()
    assert {row[:3] for row in sample.silver()} == {("a", NEW, 9)}
    assert set(done.changes) == {OLD, NEW}
