"""Numbers and periods in words: exact enough that two that differ never look the same."""

from __future__ import annotations

from decimal import Decimal

import pytest

from lakehouse.gold.numbers.comparison import Sides
from lakehouse.reports import formatting
from lakehouse.reports.formatting import escape

D = Decimal


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (D("1204.50"), D("1311.2"), ("1,204.50", "1,311.2", "+106.70")),
        (0.1, 0.3, ("0.10", "0.30", "+0.20")),
        (29.5, 28.12345678, ("29.50", "28.1235", "-1.3765")),
        (1.0, 1.0000000001, ("1.0", "1.0000000001", "+0.0000000001")),
        (7, 5, ("7", "5", "-2")),
        (None, 5, ("none", "5", "")),
        (float("nan"), 5.0, ("nan", "5.00", "nan")),
    ],
)
def test_two_numbers_that_differ_never_look_the_same(before, after, shown):
    sides = Sides(before, after)
    assert (*formatting.both(sides), formatting.difference(sides)) == shown


def test_consecutive_days_are_written_as_a_range():
    assert formatting.spans(["2024-02-28", "2024-02-29", "2024-03-01", "2024-03-03"]) == "2024-02-28 to 2024-03-01, 2024-03-03"
    assert formatting.spans(["2024-01", "2024-02"]) == "2024-01, 2024-02"
    assert formatting.spans(["2024-01-01", "2024-01-03", "2024-01-04"], most=1) == "2024-01-01 and 2 more"


def test_markdown_escapes_no_more_than_it_must():
    assert escape("late_data, net-of_refunds (10.5 %)") == "late_data, net-of_refunds (10.5 %)"
    assert escape("_x_ a*b") == r"\_x\_ a\*b"


@pytest.mark.parametrize(
    ("count", "noun", "shown"),
    [(1, "delivery", "1 delivery"), (2, "delivery", "2 deliveries"), (0, "day", "0 days"), (1200, "file", "1,200 files")],
)
def test_a_count_has_its_noun(count: int, noun: str, shown: str) -> None:
    assert formatting.counted(count, noun) == shown
