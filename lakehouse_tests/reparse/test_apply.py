"""A reading in force: silver, the account and every earlier state follow from it."""

from __future__ import annotations

from datetime import date

import pytest

from lakehouse.ledger import rebuild_requests
from lakehouse_tests.support.lake import Lake, csv_file
from lakehouse_tests.support.quarantine_lake import dispositions_by_key
from lakehouse_tests.support.reread_lake import reread, source

pytestmark = pytest.mark.spark

FIRST, SECOND = date(2024, 2, 1), date(2024, 2, 2)
#: In New York the first record is of the day before; the third is malformed without its null word.
FILE = [
    "a,1,2024-02-01T02:00:00,2024-02-01T12:00:00Z,insert,,0",
    "b,2,2024-02-01T12:00:00,2024-02-01T12:00:00Z,insert,,0",
    "c,n/a,2024-02-01T12:00:00,2024-02-01T12:00:00Z,insert,,0",
]
CORRECTION = ["d,4,2024-02-01T11:00:00,2024-02-02T12:00:00Z,correct,a,0"]


def lake_with(settings, spark, zone: str = "UTC", **changes) -> Lake:
    lake = Lake(settings, source(zone, **changes), spark)
    for arrival, lines in ((FIRST, FILE), (SECOND, CORRECTION)):
        lake.deliver(arrival, csv_file(lines))
        lake.ingest(arrival)
        lake.update()
    return lake


def test_a_reading_is_the_same_as_ingesting_under_the_new_contract(settings, spark) -> None:
    lake = lake_with(settings, spark)
    before, ids = lake.silver(), lake.inputs()
    lake.contract = source("Asia/Kolkata", source=lake.contract.source.model_dump() | {"null_values": ["n/a"]})
    summary = reread(lake)
    assert (summary.rows_read, summary.rows_otherwise, summary.malformed_before, summary.malformed_after) == (4, 4, 1, 0)
    assert {row[0] for row in lake.silver()} == {"b", "c", "d"}
    days = [date(2024, 1, 31), FIRST, SECOND]
    assert lake.rebuilt(days) == lake.silver()
    assert lake.rebuilt(days, ids) == before
    dispositions_by_key(lake)
    assert lake.pending() == []
    (entry,) = rebuild_requests.all_of(settings, "events")
    assert (entry.operation, entry.malformed_more, entry.runner_id) == ("reparse", -1, "anna")
