"""Dimensions that read change feeds: an interval is from one commit of the database to the next that changes the key."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given

from lakehouse import locations
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.row_histories import BACKWARD, FEEDS, SentHistory, intervals_after, sent_histories

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark
ARRIVAL = date(2024, 2, 1)
#: Those that tell a change of the key by two records.
NAMES = ["debezium of postgresql", "debezium of mysql", "sql server, csv", "delta feed, parquet"]


def held(lake: Lake) -> set[tuple[str, datetime, datetime | None, int]]:
    columns = ["dimension_key", "valid_from", "valid_to", "amount"]
    rows = locations.intervals(lake, "orders").read(columns)
    return set() if rows is None else set(zip(*(rows[name].to_pylist() for name in columns)))


@pytest.mark.parametrize("name", NAMES)
@law(25)
@example(sent=BACKWARD)
@given(sent=sent_histories())
def test_the_intervals_are_those_of_the_table_whatever_comes_when(
    name: str, sent: SentHistory, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    feed = FEEDS[name]
    sample = SampleLake(lake_in(tmp_path_factory.mktemp("lake")), feed.dimension, spark)
    for number, content in enumerate(sent.files(feed)):
        sample.deliver(ARRIVAL, content, f".{number}.{feed.format}")
        assert len(sample.ingest(ARRIVAL).ingested) == 1
        sample.update()
    assert held(sample.lake) == intervals_after(sent.history)


def test_an_event_with_another_key_before_is_malformed_with_what_to_send(lake: Lake, spark: SparkSession) -> None:
    sample = SampleLake(lake, FEEDS["debezium of postgresql"].dimension, spark)
    source = {"lsn": 1, "ts_ms": 1_705_708_800_000}
    event = {"op": "u", "before": {"id": 1}, "after": {"id": 2, "amount": 1}, "source": source, "ts_ms": 1}
    sample.deliver(ARRIVAL, json.dumps(event).encode(), ".json")
    sample.ingest(ARRIVAL)
    [reason] = locations.bronze(lake, "orders").read(["malformed_reason"])["malformed_reason"].to_pylist()
    assert reason == "before: has another key than after; of a dimension, a change of the key is a delete and an insert"
