"""Change feeds through Bronze and silver: whatever the order and grouping of files, silver holds the rows of the table."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.dispositions import account as dispositions_account
from lakehouse_tests.support.hypothesis_settings import derandomized
from lakehouse_tests.support.lake import Lake
from lakehouse_tests.support.lake_settings import lake_settings
from lakehouse_tests.support.row_histories import DAYS, FEEDS, Feed, files_of, row_histories, table_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from lakehouse_tests.support.row_histories import RowChange

pytestmark = pytest.mark.spark
ARRIVALS = [date(2024, 2, day) for day in (1, 2, 3)]
Held = set[tuple[str, date, int]]


def expected_of(history: Sequence[RowChange]) -> Held:
    return {(f"{row.id}", row.day, row.amount) for row in table_after(history).values()}


def held_by(lake: Lake) -> Held:
    return {row[:3] for row in lake.silver()}


def deliver(lake: Lake, feed: Feed, content: bytes, number: int, arrival: date) -> None:
    lake.deliver(arrival, content, f".{number}.{feed.format}")
    assert len(lake.ingest(arrival).ingested) == 1


@pytest.mark.parametrize("name", ["debezium of postgresql", "debezium of sql server", "sql server, csv", "delta feed, parquet"])
@derandomized(3)
@given(data=st.data())
def test_silver_holds_the_rows_of_the_table_whatever_comes_when(
    name: str, data: st.DataObject, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    feed = FEEDS[name]
    history = data.draw(row_histories())
    lake = Lake(lake_settings(tmp_path_factory.mktemp("lake")), feed.contract, spark)
    lake.settings.local_rows = data.draw(st.sampled_from([0, 20_000]))  # by Spark, or in the process
    for number, content in enumerate(data.draw(files_of(feed, history))):
        deliver(lake, feed, content, number, data.draw(st.sampled_from(ARRIVALS)))
        if data.draw(st.booleans()):
            lake.update()
    lake.update()
    assert held_by(lake) == expected_of(history), "merged"
    assert {row[:3] for row in lake.rebuilt(DAYS)} == expected_of(history), "rebuilt (R3)"
    rows = dispositions_account.rows(lake.settings, lake.contract)
    assert len(rows) == len(lake.bronze()), "every record has one disposition (R4)"
    assert {row.record_key for row in rows if row.lives} == {row[0] for row in expected_of(history)}
