"""How long files and log entries are kept, and what is worth compacting; laws against the plain rule."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.operations.retention import Crowd, Need, Retention, crowded, interval, retention, why_log_stays

NOW = datetime(2024, 3, 1, 12, tzinfo=timezone.utc)
WEEK = timedelta(days=7)


def need(hours_ago: float, who: str = "gold/total", version: int = 5) -> Need:
    return Need(who, version, NOW - timedelta(hours=hours_ago))


def test_where_nobody_is_behind_files_stay_for_the_minimum() -> None:
    assert retention(NOW, 168, [], WEEK) == Retention(168)


def test_files_stay_as_much_longer_as_somebody_is_behind() -> None:
    found = retention(NOW, 24, [need(2), need(30, "gold/late", 3)], WEEK)
    assert found.hours == 24 + 31
    assert found.reason is not None
    assert found.reason.startswith("gold/late has yet to follow it from version 3 of 2024-02-29 06:00 on")


def test_nothing_goes_once_the_table_forgets_what_was_removed_when() -> None:
    found = retention(NOW, 24, [need(168)], WEEK)
    assert found.hours is None
    assert found.reason is not None
    assert "gold/total has yet to follow" in found.reason


def test_a_minimum_that_the_table_cannot_remember_is_refused_with_the_way_out() -> None:
    found = retention(NOW, 720, [], WEEK)
    assert found.hours is None
    assert found.reason is not None
    assert "for 168 hours only" in found.reason
    assert "delta.deletedFileRetentionDuration to 'interval 720 hours'" in found.reason


@given(st.integers(0, 168), st.lists(st.floats(-5, 400), max_size=5))
def test_a_reader_that_is_behind_finds_the_files_of_the_minimum_before_its_commit(minimum: int, ages: list[float]) -> None:
    retained = retention(NOW, minimum, [need(age) for age in ages], WEEK)
    oldest = max(ages, default=0)
    if retained.hours is None:
        assert oldest >= 168
        return
    assert retained.hours >= minimum
    # Ages of files are counted in whole hours from the commit on, and the commit is never younger than its files.
    assert all(retained.hours >= minimum + age for age in ages)
    assert retained.hours <= minimum + max(oldest, 0) + 2, "not for ever"


@given(st.floats(0, 2000), st.floats(0, 2000))
def test_a_log_is_cleaned_only_where_every_reader_is_past_it(age: float, other_age: float) -> None:
    kept = timedelta(days=30)
    why = why_log_stays(NOW, kept, [need(age, "gold/one"), need(other_age, "gold/other")])
    assert (why is None) == (max(age, other_age) < 720)
    if why is not None:
        assert ("gold/one" if age >= other_age else "gold/other") in why


def test_a_log_that_nobody_follows_is_cleaned() -> None:
    assert why_log_stays(NOW, timedelta(0), []) is None


@given(st.dictionaries(st.dates(), st.lists(st.integers(1, 300)), max_size=6), st.integers(1, 9))
def test_only_partitions_with_many_small_files_are_compacted(sizes: dict, more_than: int) -> None:
    crowds = crowded(sizes, 200, more_than)
    for partition, own in sizes.items():
        small = [size for size in own if size <= 100]
        assert (partition in crowds) == (len(small) > more_than)
        if partition in crowds:
            assert crowds[partition] == Crowd(len(small), sum(small))


@given(st.lists(st.integers(1, 100), min_size=10, max_size=60))
def test_what_was_compacted_is_not_again(sizes: list[int]) -> None:
    """Files are compacted as delta-rs does: one after the other, as many as fill a file."""
    filled: list[int] = []
    for size in sizes:
        if filled and filled[-1] + size <= 200:
            filled[-1] += size
        else:
            filled.append(size)
    assert crowded({None: filled}, 200, 8) == {}
    [crowd] = crowded({None: sizes}, 200, 8).values()
    assert 1 <= crowd.files_after(200) <= len(filled)


@pytest.mark.parametrize(
    ("text", "days"),
    [("interval 30 days", 30), ("interval 1 day", 1), ("INTERVAL 2 weeks", 14), ("interval 48 hours", 2), (" 7 days ", 7)],
)
def test_durations_are_read_as_delta_writes_them(text: str, days: int) -> None:
    assert interval(text) == timedelta(days=days)


@pytest.mark.parametrize("text", ["", "a while", "interval x days", "interval 1 month", "interval 1 day 2 hours"])
def test_other_durations_are_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not an interval such as 'interval 30 days'"):
        interval(text)
