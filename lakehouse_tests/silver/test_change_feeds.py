"""Change feeds through Bronze and silver: whatever the order and grouping of files, silver holds the rows of the table."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.dispositions import account as dispositions_account
from lakehouse_tests.support.earlier_columns import without_source_order
from lakehouse_tests.support.hypothesis_settings import derandomized
from lakehouse_tests.support.lake import Lake, contract, csv_file
from lakehouse_tests.support.lake_settings import lake_settings
from lakehouse_tests.support.row_histories import DAYS, FEEDS, Feed, files_of, row_histories, table_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from lakehouse.settings import Settings
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


BY_TEXT = {"order": {"sequence": {"column": "seq", "type": "text"}}}


def line(key: str, amount: int, op: str, seq: str) -> str:
    return f"{key},{amount},2024-01-01T12:00:00Z,2024-02-01T06:00:00Z,{op},,{seq}"


@pytest.mark.parametrize("local_rows", [0, 20_000], ids=["by Spark", "in the process"])
def test_text_orders_the_changes_of_a_plain_source(settings: Settings, spark: SparkSession, local_rows: int) -> None:
    lake = Lake(settings, contract(**BY_TEXT), spark)
    settings.local_rows = local_rows
    files = [
        [line("a", 1, "insert", "0a"), line("b", 1, "insert", "\U0001f600"), line("c", 1, "insert", "b")],
        [line("a", 2, "correct", "09"), line("b", 2, "correct", "\uffee"), line("c", 1, "delete", "ab")],
        [line("a", 3, "correct", "0A"), line("b", 3, "correct", "z"), line("c", 3, "correct", "ba")],
    ]
    for number, (arrival, lines) in enumerate(zip(ARRIVALS, files)):
        lake.deliver(arrival, csv_file(lines), f".{number}.csv")
        lake.ingest(arrival)
        lake.update()
    day = date(2024, 1, 1)
    assert held_by(lake) == {("a", day, 1), ("b", day, 1), ("c", day, 3)}
    assert lake.rebuilt([day]) == lake.silver()


@pytest.mark.parametrize("local_rows", [0, 20_000], ids=["by Spark", "in the process"])
def test_tables_of_an_earlier_release_get_the_column_of_the_order(
    settings: Settings, spark: SparkSession, local_rows: int
) -> None:
    lake = Lake(settings, contract(), spark)
    settings.local_rows = local_rows
    day = date(2024, 1, 1)
    lake.deliver(ARRIVALS[0], csv_file([line("a", 1, "insert", ""), line("b", 1, "insert", ""), line("c", 1, "insert", "")]))
    lake.ingest(ARRIVALS[0])
    lake.update()
    without_source_order(settings, "events")
    assert lake.rebuilt([day]) == lake.silver(), "read as it is"
    assert len(dispositions_account.rows(settings, lake.contract)) == 3
    lake.contract = contract(**BY_TEXT)
    lake.deliver(ARRIVALS[1], csv_file([line("a", 2, "correct", "x"), line("b", 2, "delete", "x")]))
    lake.ingest(ARRIVALS[1])
    lake.update()
    assert held_by(lake) == {("a", day, 2), ("c", day, 1)}, "a row without an order comes before those with one"
    assert lake.rebuilt([day]) == lake.silver()
    lake.deliver(ARRIVALS[2], csv_file([line("a", 3, "correct", "w"), line("c", 3, "correct", "w")]))
    lake.ingest(ARRIVALS[2])
    lake.update()
    assert held_by(lake) == {("a", day, 2), ("c", day, 3)}
    assert [row["source_order"] for row in lake.bronze("source_order")] == [None, None, None, "x", "x", "w", "w"]
