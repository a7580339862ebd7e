"""The steps behind Bronze can be repeated: they write nothing twice, and give the same counts."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.bronze import ingest as judgement
from lakehouse.ledger.ids import DeliveredFile
from lakehouse_tests.support.ingested_files import at, ingest, line
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from lakehouse.lake import Lake

DAY = date(2024, 1, 2)


def _no_session() -> Any:
    pytest.fail("few rows need no Spark")


def test_deliveries_that_were_judged_are_judged_again_without_a_trace(lake: Lake) -> None:
    source = contract()
    entry = ingest(lake, source, DAY, line("a", "2024-01-02T07:00:00Z", at(9)), line("b", "never", at(9)))
    tables = [locations.key_log(lake, "events"), locations.dispositions(lake, "events")]
    before = [path.read().num_rows for path in tables]
    delivered = DeliveredFile(entry.source_file, entry.ingestion_id, DAY, lake.now())
    counted = judgement.judge(lake, source, _no_session, [delivered], {})[entry.ingestion_id]
    assert [path.read().num_rows for path in tables] == before
    assert (counted["rows"], counted["malformed"], counted["touched_days"]) == (entry.rows, entry.malformed, entry.touched_days)
    assert judgement.judge(lake, source, _no_session, [], {}) == {}
