"""Days that are rebuilt in this process: which differ is decided as by a plain count of their rows."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.silver import local_merge

FIRST = date(2024, 2, 1)
AT = datetime(2024, 2, 1, tzinfo=timezone.utc)
SCHEMA = pa.schema(
    [
        ("event_date", pa.date32()),
        ("id", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("share", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
        ("is_open", pa.bool_()),
    ]
)
ROWS = st.fixed_dictionaries(
    {
        "event_date": st.integers(0, 2).map(lambda number: FIRST + timedelta(days=number)),
        "id": st.none() | st.sampled_from(["a", "b", ""]),
        "amount": st.none() | st.sampled_from([Decimal("0.00"), Decimal("-1.50")]),
        "share": st.none() | st.sampled_from([0.1, 0.30000000000000004]),
        "at": st.none() | st.sampled_from([AT, AT + timedelta(microseconds=1)]),
        "is_open": st.none() | st.booleans(),
    }
)


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@given(before=st.lists(ROWS, max_size=6), kept=st.lists(st.integers(0, 5)), new=st.lists(ROWS, max_size=2))
def test_a_day_differs_if_the_number_of_any_of_its_rows_does(
    before: list[dict[str, Any]], kept: list[int], new: list[dict[str, Any]]
) -> None:
    after = [before[place] for place in kept if place < len(before)] + new
    counts = [Counter(tuple(row[name] for name in SCHEMA.names) for row in rows) for rows in (before, after)]
    expected = {row[0] for row in counts[0] | counts[1] if counts[0][row] != counts[1][row]}
    assert local_merge.changed_days(table(before), table(after)) == expected
