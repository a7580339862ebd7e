"""Many rows are parsed in pieces, on a cluster by tasks of Spark, whatever tables this process keeps open."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from lakehouse import locations
from lakehouse.bronze import table as bronze_table
from lakehouse.delta import partition_writer
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse_tests.support.lake import SampleLake, contract, csv_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark

FIRST, SECOND = date(2024, 2, 1), date(2024, 2, 2)
#: So that the cores of Spark count as others than those of this process.
CLUSTER = "spark://elsewhere:7077"


@pytest.mark.merge
def test_a_task_parses_a_file_also_while_this_process_keeps_tables_open(
    lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = SampleLake(lake, contract(), spark)
    sample.deliver(FIRST, csv_file(["a,1,2024-01-01T12:00:00Z,2024-02-01T06:00:00Z,insert,,0"]))
    sample.deliver(SECOND, csv_file(["b,2,2024-01-01T12:00:00Z,2024-02-02T06:00:00Z,insert,,0", "c,x,,,insert,,0"]))
    caching = replace(sample, lake=lake.cached())
    caching.ingest(FIRST)
    monkeypatch.setattr(bronze_table, "_SMALL_BYTES", 0)
    lake.settings.spark_master = CLUSTER
    assert [entry.rows for entry in caching.ingest(SECOND).ingested] == [2]
    rows = {(row["record_key"], row["malformed_reason"] is None) for row in sample.bronze("record_key", "malformed_reason")}
    assert rows == {("a", True), ("b", True), ("c", False)}


@pytest.mark.merge
def test_a_file_with_bytes_for_more_rows_than_the_setting_is_parsed_by_a_task(lake: Lake, spark: SparkSession) -> None:
    lake.settings.local_rows, lake.settings.spark_master = 2, CLUSTER
    sample = SampleLake(lake, contract(), spark)
    for day, count in ((FIRST, 2), (SECOND, 8)):
        sample.deliver(day, csv_file([f"{day}{n},1,2024-01-01T12:00:00Z,{day}T06:00:00Z,insert,,0" for n in range(count)]))
        assert [entry.rows for entry in sample.ingest(day).ingested] == [count]
    table = locations.bronze(lake, "events").open()
    assert table is not None
    appends = [commit for commit in table.history() if commit["operation"] == "WRITE"]
    assert ["Spark" in commit.get("engineInfo", "") for commit in appends] == [True, False], "the newest first"


@pytest.mark.merge
def test_many_rows_are_parsed_here_in_pieces_where_spark_would_have_the_same_cores(
    lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bronze_table, "_SORTED_ROWS", 2)
    lake.settings.local_rows, lake.settings.spark_remote = 2, None
    sample = SampleLake(lake, contract(), spark)
    for name, days in (("-a.csv", [3, 1, 2]), ("-b.csv", [2, 1])):
        lines = [f"{name}{day},1,2024-01-0{day}T12:00:00Z,{FIRST}T06:00:00Z,insert,,0" for day in days]
        sample.deliver(FIRST, csv_file([*lines, "m,x,,,insert,,0"]), name)
    assert sorted(entry.rows for entry in sample.ingest(FIRST).ingested) == [3, 4]
    rows = {(row["record_key"], row["line_number"]) for row in sample.bronze("record_key", "line_number")}
    assert rows == {("-a.csv3", 2), ("-a.csv1", 3), ("-a.csv2", 4), ("-b.csv2", 2), ("-b.csv1", 3), ("m", 4), ("m", 5)}
    table = locations.bronze(lake, "events").open()
    assert table is not None
    appended = [commit for commit in table.history() if commit["operation"] == "WRITE"]
    assert ["Spark" in commit.get("engineInfo", "") for commit in appended] == [False]


@pytest.mark.merge
def test_the_parts_of_a_large_file_are_parsed_by_tasks_of_their_own(
    lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bronze_table, "_SMALL_BYTES", 0)
    lake.settings.spark_master = CLUSTER
    monkeypatch.setattr(bronze_table, "_PART_BYTES", 1_000)
    sample = SampleLake(lake, contract(), spark)
    sound = [f"k{number},2,2024-01-01T12:00:00Z,2024-02-01T06:00:00Z,insert,,0" for number in range(2_500)]
    sample.deliver(FIRST, csv_file([*sound, "m,x,,,insert,,0"]))
    sample.deliver(FIRST, csv_file(["one,2,2024-01-01T12:00:00Z,2024-02-01T06:00:00Z,insert,,0"]), "-small.csv")
    assert sorted(entry.rows for entry in sample.ingest(FIRST).ingested) == [1, 2_501]
    rows = sample.bronze("record_key", "line_number", "source_file")
    expected = [(f"k{number}", number + 2) for number in range(2_500)] + [("m", 2_502), ("one", 2)]
    assert sorted((row["record_key"], row["line_number"]) for row in rows) == sorted(expected)
    table = locations.bronze(lake, "events").open()
    assert table is not None
    assert len(table.file_uris()) == 4, "three parts of the large file, and the small file"


def test_no_writer_may_change_bronze_also_in_a_table_of_an_earlier_release(lake: Lake, spark: SparkSession) -> None:
    sample = SampleLake(lake, contract(), spark)
    table = locations.bronze(lake, "events")
    partition_writer.create(table, arrow_schema(bronze_columns(sample.contract)), ["arrival_date"])
    for number in (1, 2):
        sample.deliver(FIRST, csv_file([f"k{number},1,2024-01-01T12:00:00Z,2024-02-01T06:00:00Z,insert,,0"]), f"-{number}.csv")
        sample.ingest(FIRST)
    with pytest.raises(CommitFailedError, match="append-only"):
        DeltaTable(table.address).delete("id = 'k1'")
    with pytest.raises(Exception, match="append"):
        spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 'k1'")
    assert DeltaTable(table.address).optimize.compact()["numFilesRemoved"] == 2, "its files may be compacted"
    rows = table.read(["id"])
    assert rows is not None
    assert sorted(rows["id"].to_pylist()) == ["k1", "k2"]
