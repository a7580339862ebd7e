"""Cron expressions: what each field may hold, and which days exist."""

from __future__ import annotations

import pytest

from lakehouse.calendar import cron


@pytest.mark.parametrize(
    "text", ["0 0 1 1 0", "59 23 31 12 7", "*/59 0-23 1-31/2 1,12 0-7", "0 0 30 4,5 *", "0 0 31 2,3 *", "0 0 29 2 *"]
)
def test_each_field_goes_from_its_first_to_its_last_value(text: str) -> None:
    assert cron.checked(text) == text


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("60 0 1 1 0", "goes from 0 to 59"),
        ("0 24 1 1 0", "goes from 0 to 23"),
        ("0 0 0 1 0", "goes from 1 to 31"),
        ("0 0 32 1 0", "goes from 1 to 31"),
        ("0 0 1 0 0", "goes from 1 to 12"),
        ("0 0 1 13 0", "goes from 1 to 12"),
        ("0 0 1 1 8", "goes from 0 to 7"),
        ("0 0 30 2 *", "none of these months has that day"),
        *((f"0 0 31 {month} *", "none of these months has that day") for month in (2, 4, 6, 9, 11)),
    ],
)
def test_nothing_beyond_is_taken(text: str, mistake: str) -> None:
    with pytest.raises(ValueError, match=mistake):
        cron.checked(text)
