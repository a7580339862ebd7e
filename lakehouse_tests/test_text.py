"""How durations, short lists and numbers are written."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.text import format_duration, format_moment, join_limited, json_value


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (None, "0 s"),
        (timedelta(0), "0 s"),
        (timedelta(seconds=0.9), "0 s"),
        (timedelta(seconds=59), "59 s"),
        (timedelta(minutes=45), "45 min"),
        (timedelta(hours=36), "1 d 12 h"),
        (timedelta(days=8, hours=2, minutes=59, seconds=59), "8 d 2 h"),
        (timedelta(days=8, seconds=1), "8 d 1 s"),
        (timedelta(days=1234), "1,234 d"),
    ],
)
def test_a_duration_has_two_units(span: timedelta | None, text: str) -> None:
    assert format_duration(span) == text


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (0, "", ""),
        (1, " files", "f0"),
        (2, " files", "f0, f1"),
        (5, " files", "f0, f1 and 3 more files"),
        (3, "", "f0, f1 and 1 more"),
    ],
)
def test_a_list_names_the_first_and_counts_the_rest(count: int, noun: str, text: str) -> None:
    assert join_limited([f"f{number}" for number in range(count)], 2, noun) == text


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (None, "null"),
        (True, "true"),
        (12, "12"),
        (2**70, "1180591620717411303424"),
        (0.1, "0.1"),
        (-0.0, "-0.0"),
        (float("nan"), '"nan"'),
        (float("inf"), '"inf"'),
        (float("-inf"), '"-inf"'),
        (Decimal("1.50"), '"1.50"'),
        (Decimal("1E+3"), '"1000"'),
        (Decimal("1E-7"), '"0.0000001"'),
        (Decimal("NaN"), '"NaN"'),
        (Decimal("-Infinity"), '"-Infinity"'),
        ("text", '"text"'),
    ],
)
def test_a_number_as_json(number: object, written: str) -> None:
    assert json.dumps(json_value(number), allow_nan=False) == written


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.decimals(allow_nan=False, allow_infinity=False))
def test_no_number_is_rounded(number: float | Decimal) -> None:
    read = json.loads(json.dumps(json_value(number), allow_nan=False))
    assert type(number)(read) == number


def test_a_moment_is_shown_to_the_minute() -> None:
    assert format_moment(datetime(2024, 1, 5, 6, 7, 59, tzinfo=timezone.utc)) == "2024-01-05 06:07 UTC"
