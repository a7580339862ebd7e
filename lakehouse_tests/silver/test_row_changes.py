"""The changes of a commit as places in its feed. No Spark, no tables."""

from __future__ import annotations

from datetime import date

import pyarrow as pa

from lakehouse.silver.row_changes import row_changes

FIRST, SECOND = date(2024, 1, 1), date(2024, 1, 2)


def test_rows_of_a_key_and_day_keep_their_order_whatever_else_the_feed_holds() -> None:
    keys, days = ["a", "b", "a", "a", "b", "a"], [FIRST, FIRST, SECOND, SECOND, FIRST, FIRST]
    types = ["insert", "delete", "delete", "delete", "delete", "delete"]
    feed = pa.table({"record_key": keys, "event_date": days, "amount": [3, 2, None, 2, 3, 3], "_change_type": types})
    removed = [2, 3, 1, 4]  # what was removed and added again with equal content is no change
    assert row_changes(feed).to_pylist() == [{"before": place, "after": None} for place in removed]


def test_rows_are_paired_within_their_day_first_and_then_across_the_days_of_their_key() -> None:
    rows = [
        ("a", FIRST, 1, "delete"),
        ("a", FIRST, 2, "insert"),
        ("b", FIRST, 3, "delete"),
        ("b", SECOND, 3, "insert"),
        ("c", FIRST, 5, "insert"),
        ("d", SECOND, 7, "delete"),
        ("d", SECOND, 8, "insert"),
        ("e", FIRST, 6, "delete"),
    ]
    feed = pa.table(dict(zip(["record_key", "event_date", "amount", "_change_type"], map(list, zip(*rows)))))
    changed = [tuple(row.values()) for row in row_changes(feed).to_pylist()]
    assert changed == [(0, 1), (2, 3), (None, 4), (5, 6), (7, None)]
