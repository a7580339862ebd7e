"""Fields may have names that are words of SQL: engines that make SQL of names quote them."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse import locations
from lakehouse_tests.support.lake import SampleLake, contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

WORDS = ["limit", "order", "group", "select", "from", "user", "end"]


@pytest.mark.merge
def test_a_source_whose_fields_are_words_of_sql_is_merged_and_audited(lake: Lake, spark: SparkSession) -> None:
    fields = [{"name": "id", "type": "string"}, *({"name": word, "type": "int"} for word in WORDS)]
    sample = SampleLake(lake, contract(model={"fields": fields}), spark)
    header = ",".join(["id", *WORDS, "event_time", "arrived_at", "op", "corrects"])
    for number, arrival in enumerate([date(2024, 2, 1), date(2024, 2, 2), date(2024, 2, 3)]):
        lake.settings.now = datetime(2024, 2, 1 + number, 20, tzinfo=timezone.utc)
        values = ",".join(f"{number}" for _ in WORDS)
        rows = [f"{key},{values},2024-01-31T12:00:00Z,{arrival}T10:00:00Z,," for key in ("a", f"b{number}")]
        sample.deliver(arrival, "".join(f"{line}\n" for line in (header, *rows)).encode())
        sample.ingest(arrival)
        sample.update()
    held = locations.silver(lake, "events").read(["record_key", *WORDS]).to_pylist()
    assert {row["record_key"]: row["limit"] for row in held} == {"a": 2, "b0": 0, "b1": 1, "b2": 2}
    audit = locations.audit_log(lake).read(["event_id"])
    assert "a" in audit["event_id"].to_pylist()
    sample.update([date(2024, 1, 31)])  # with nothing pending the day is rebuilt, by Spark
    again = locations.silver(lake, "events").read(["record_key", *WORDS])
    assert sorted(again.to_pylist(), key=str) == sorted(held, key=str)
