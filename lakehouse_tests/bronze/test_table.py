"""A large file is parsed by a Spark task, whatever tables this process keeps open."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

import pytest

from lakehouse.bronze import table as bronze_table
from lakehouse.delta.table_cache import with_table_cache
from lakehouse_tests.support.lake import Lake, contract, csv_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.settings import Settings

pytestmark = pytest.mark.spark

FIRST, SECOND = date(2024, 2, 1), date(2024, 2, 2)


def test_a_task_parses_a_file_also_while_this_process_keeps_tables_open(
    settings: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(settings, contract(), spark)
    lake.deliver(FIRST, csv_file(["a,1,2024-01-01T12:00:00Z,2024-02-01T06:00:00Z,insert,,0"]))
    lake.deliver(SECOND, csv_file(["b,2,2024-01-01T12:00:00Z,2024-02-02T06:00:00Z,insert,,0", "c,x,,,insert,,0"]))
    caching = replace(lake, settings=with_table_cache(settings))
    caching.ingest(FIRST)
    monkeypatch.setattr(bronze_table, "_PARSED_HERE_BYTES", 0)
    assert [entry.rows for entry in caching.ingest(SECOND).ingested] == [2]
    rows = {(row["record_key"], row["malformed_reason"] is None) for row in lake.bronze("record_key", "malformed_reason")}
    assert rows == {("a", True), ("b", True), (None, False)}
