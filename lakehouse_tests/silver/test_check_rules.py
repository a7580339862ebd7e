"""What the checks of silver count by column is what they would count row by row. No Spark, no tables."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.quality.check_rules import row_counts
from lakehouse.silver import checks
from lakehouse_tests.support import checks_by_row

SCHEMA = pa.schema([("event_date", pa.date32()), ("record_key", pa.string()), ("id", pa.string()), ("amount", pa.int32())])
KEYS = st.sampled_from("abc")
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "event_date": st.sampled_from([date(2024, 2, day) for day in (1, 2, 3)]),
            "record_key": KEYS,
            "id": st.sampled_from([None, "x"]),
            "amount": st.sampled_from([None, 1]),
        }
    ),
    max_size=12,
)


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@given(ROWS, st.dictionaries(st.sampled_from(["id", "amount", "other"]), st.sets(KEYS)))
def test_missing_values_are_counted_where_they_are_not_redacted(rows: list[dict[str, Any]], hidden: dict[str, set[str]]) -> None:
    required = ["id", "amount"]
    counted = checks.rows_missing(table(rows), required, hidden)
    assert +counted == +checks_by_row.rows_missing(table(rows), required, hidden)


@given(ROWS, ROWS)
def test_keys_with_a_second_row_are_counted_on_their_days(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    everywhere = table([*rows, *others])
    assert +checks.keys_twice(table(rows), everywhere) == +checks_by_row.keys_twice(table(rows), everywhere)


@given(ROWS, st.sampled_from(["event_date", "amount"]), st.sampled_from([None, "id"]))
def test_rows_are_counted_by_the_values_of_a_column(rows: list[dict[str, Any]], by: str, of: str | None) -> None:
    assert +row_counts(table(rows), by, of=of) == +checks_by_row.row_counts(table(rows), by, of)
    assert row_counts(None, by) == {}
