"""The check of overdue reviews gives by column what it gives row by row. No Spark, no tables."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.bronze.checks import reviews
from lakehouse_tests.support import checks_by_row

NOW = datetime(2024, 2, 10, tzinfo=timezone.utc)
TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("quarantine_since", TIME), ("quarantine_review_by", TIME), ("quarantine_status", pa.string())])
SPANS = st.timedeltas(timedelta(days=-30), timedelta(days=30))


@given(st.lists(st.tuples(SPANS, SPANS), max_size=8))
@example([(timedelta(0), timedelta(0))])
def test_reviews_are_overdue_as_row_by_row(spans: list[tuple[timedelta, timedelta]]) -> None:
    rows = [
        {"quarantine_since": NOW + since, "quarantine_review_by": NOW + deadline, "quarantine_status": "open"}
        for since, deadline in spans
    ]
    outcome = reviews("events", pa.Table.from_pylist(rows, schema=SCHEMA), NOW)
    assert (outcome.numbers, outcome.explanation) == checks_by_row.reviews("events", rows, NOW)
    assert outcome.passed == (outcome.numbers["overdue"] == 0)


def test_no_table_means_that_nothing_waits() -> None:
    assert reviews("events", None, NOW).numbers == {"waiting": 0, "overdue": 0, "oldest_hours": 0.0}
