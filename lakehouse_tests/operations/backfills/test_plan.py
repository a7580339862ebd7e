"""The contents of a backfill plan, and how files, code and rows are compared with it."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import strategies as st

from lakehouse.bronze.file_completeness import ManifestEntry
from lakehouse.operations.backfills.plan import PlannedFile, differences, moved_pins, spikes

DAY = date(2024, 11, 1)
HASH, OTHER = "a" * 64, "b" * 64
DAYS = st.sets(st.integers(0, 400).map(lambda number: DAY + timedelta(days=number)))


def file(name: str, rows: int = 3, sha256: str = HASH) -> PlannedFile:
    return PlannedFile(file=name, arrival_date=DAY, bytes=10, rows=rows, sha256=sha256, known=False)


def test_files_are_held_against_the_manifest() -> None:
    entries = [
        ManifestEntry("m.csv", "a", {"rows": 3, "sha256": HASH}),
        ManifestEntry("m.csv", "b", {"rows": 4}),
        ManifestEntry("m.csv", "c", {"sha256": OTHER}),
    ]
    problems = differences(entries, [file("a"), file("b"), file("c"), file("d")])
    assert [one.partition(":")[0] for one in problems] == ["b", "c", "d"]
    assert "rows is 3, and m.csv says 4" in problems[0]
    assert differences(entries, []) == [f"{name}: is not in landing; have it sent, or correct the manifest" for name in "abc"]
    assert differences([ManifestEntry("m.csv", "a")], [file("a")]) == []


def test_a_changed_pin_is_named() -> None:
    assert moved_pins("1", {"sales": "x"}, "1", {"sales": "x"}) == []
    assert moved_pins("1", {"sales": "x", "old": "y"}, "2", {"sales": "z", "new": "w"}) == [
        "the code was 1 and is 2",
        "the contract of new was absent and is w",
        "the contract of old was y and is absent",
        "the contract of sales was x and is z",
    ]


@pytest.mark.parametrize(
    ("rows", "waiting", "rows_before", "waiting_before", "is_one"),
    [
        (100, 0, 0, 0, False),
        (100, 5, 0, 0, True),
        (19, 19, 0, 0, False),
        (100, 10, 1000, 50, False),
        (100, 11, 1000, 50, True),
    ],
)
def test_a_spike_is_more_than_twice_the_share_before(
    rows: int, waiting: int, rows_before: int, waiting_before: int, is_one: bool
) -> None:
    assert spikes(rows, waiting, rows_before, waiting_before) is is_one
