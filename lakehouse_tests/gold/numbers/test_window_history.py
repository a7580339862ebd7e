"""The history of a window follows from that of its day: revisions that leave it alone are not its own."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.gold.numbers import window_history
from lakehouse.gold.numbers.history import PublishedVersion
from lakehouse.gold.numbers.lifecycle import RevisionReason, State

DAY = date(2024, 1, 15)
MIDNIGHT = datetime(2024, 1, 15, tzinfo=timezone.utc)
Totals = dict[int, int]


def version(number: int, totals: Totals, adjustment: int | None = None) -> PublishedVersion:
    """A version of a day, given the total of each hour."""
    rows: list[dict[str, Any]] = [{"window_start": hour(number_), "total": total} for number_, total in totals.items()]
    at = MIDNIGHT + timedelta(days=number)
    reason = RevisionReason.INITIAL
    return PublishedVersion(
        DAY, f"{DAY}", f"hourly.r{number}", number, adjustment, State.LIVE, reason, False, at, None, None, None, rows
    )


def hour(number: int) -> datetime:
    return MIDNIGHT + timedelta(hours=number)


def labels(versions: list[PublishedVersion], number: int) -> list[str]:
    return [one.label for one in window_history.history(versions, hour(number))]


@given(st.lists(st.dictionaries(st.integers(0, 3), st.integers(1, 2)), min_size=1, max_size=5))
def test_a_version_belongs_to_the_windows_that_it_changed(histories: list[Totals]) -> None:
    versions = [version(number, totals) for number, totals in enumerate(histories, 1)]
    last = window_history.last_changes(versions)
    for number in range(4):
        totals = [None, *(of_version.get(number) for of_version in histories)]
        changed = [f"r{place}" for place in range(1, len(totals)) if totals[place] != totals[place - 1]]
        assert labels(versions, number) == changed
        assert last.get(hour(number)) == (changed[-1] if changed else None)


def test_a_change_of_state_belongs_to_every_window_and_an_adjustment_to_those_that_it_names() -> None:
    first, adjusted = version(1, {0: 5, 1: 7}), version(2, {1: 1}, adjustment=1)
    final = replace(version(2, {0: 5, 1: 7}), state=State.FINAL)
    assert labels([first, final, adjusted], 0) == ["r1", "r2"]
    assert labels([first, final, adjusted], 1) == ["r1", "r2", "r2.a1"]
    assert labels([first, final, adjusted], 2) == []
    assert window_history.last_changes([first, final, adjusted]) == {hour(0): "r1", hour(1): "r2.a1"}
