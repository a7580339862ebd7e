"""``lakehouse gold history`` says once how many rows are behind a version."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pytest

from lakehouse.gold.numbers.commands import _rows_behind
from lakehouse.gold.numbers.history import PublishedVersion
from lakehouse.gold.numbers.lifecycle import RevisionReason, State

DAY, NOON = date(2024, 1, 1), datetime(2024, 1, 1, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("reason", "revision", "rows", "shown"),
    [
        (RevisionReason.INITIAL, 1, 2, ", 2 rows"),
        (RevisionReason.NEW_DATA, 2, 1, ""),
        (RevisionReason.CORRECTION, 2, 1, ", 1 changed row"),
        (RevisionReason.LATE_DATA, 3, 1_200, ", 1,200 changed rows"),
        (RevisionReason.DAILY_FINALIZATION, 4, None, ""),
    ],
)
def test_the_rows_of_a_first_number_are_no_changed_ones(
    reason: RevisionReason, revision: int, rows: int | None, shown: str
) -> None:
    """Growth says its rows in its reason: ``new_data: 1 on time``."""
    version = PublishedVersion(
        DAY,
        f"{DAY}",
        f"m.r{revision}",
        revision,
        None,
        State.LIVE,
        reason,
        True,
        NOON,
        None,
        None,
        None,
        [],
        {"changed_rows": rows},
    )
    assert _rows_behind(version) == shown
