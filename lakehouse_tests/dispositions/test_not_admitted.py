"""The rows that a contract does not admit are counted by status and cause, whatever else their files have."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from lakehouse.dispositions import claims
from lakehouse.stewardship import quarantine
from lakehouse.stewardship.quarantine import QuarantineFilter
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import HEADER, SampleLake, contract

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

RULES = [
    {"name": "positive", "sql": "amount > 0", "severity": "reject"},
    {"name": "small", "sql": "amount < 1000", "severity": "quarantine"},
]


@pytest.mark.spark
def test_rejected_quarantined_and_dropped_rows_are_counted(tmp_path: Path, spark: SparkSession) -> None:
    source = contract(quality={"row_rules": RULES}, lateness={"watermark": "P5D", "beyond": "drop"})
    sample, day = SampleLake(lake_in(tmp_path), source, spark), date(2024, 2, 9)
    rows = [
        ("a", 1, "02-09", "insert", ""),
        ("b", -1, "02-09", "insert", ""),
        ("c", -2, "02-09", "correct", "a"),
        ("d", 5000, "02-09", "insert", ""),
        ("e", 3, "01-09", "insert", ""),
        ("f", "x", "02-09", "insert", ""),
    ]
    times = "2024-{}T12:00:00Z,2024-02-09T12:00:00Z"
    lines = [f"{key},{amount},{times.format(event)},{op},{corrects}," for key, amount, event, op, corrects in rows]
    sample.deliver(day, "\n".join([HEADER, *lines]).encode())
    sample.ingest(day)
    counts = claims.not_admitted(sample.lake, "events", {"arrival_date": [day]})
    assert {(f"{status}", cause): rows for (status, cause), rows in counts.items()} == {
        ("rejected", "rule positive"): 2,
        ("quarantined", "rule small"): 1,
        ("dropped", "beyond the cutoff"): 1,
    }
    assert claims.not_admitted(sample.lake, "nothing", {}) == {}

    [waiting] = quarantine.entries(sample.lake, source, QuarantineFilter(key="d"))
    row = (waiting["ingestion_id"], waiting["line_number"])
    quarantine.decide(sample.lake, source, [row], "accept", by="anna", reason="a large one")
    counts = claims.not_admitted(sample.lake, "events", {"arrival_date": [day]})
    assert {f"{status}" for status, _ in counts} == {"rejected", "dropped"}, "the steward has decided about the third"
