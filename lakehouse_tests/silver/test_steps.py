"""A step beside another process: what it has looked at before is older than what it looks at later, and nothing may come of that.

The other process is this one with a cache of its own, whose commits the step is not told.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.gold.restatement import lineage
from lakehouse.lake import table_cache
from lakehouse.lake.table_cache import TableCache
from lakehouse.ledger import applied_inputs, ingestions
from lakehouse.silver import local_merge
from lakehouse_tests.support.lake import HEADER, SampleLake, contract, csv_file
from lakehouse_tests.support.noted_commits import uncompared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.lake import Lake


def line(key: str, amount: int, day: int, arrived: int) -> str:
    values = dict.fromkeys(HEADER.split(","), "")
    values |= {"id": key, "amount": f"{amount}", "event_time": f"2024-02-{day:02}T06:00:00Z", "op": "insert"}
    return ",".join((values | {"arrived_at": f"2024-02-{arrived:02}T12:00:00Z"}).values())


@contextmanager
def another_process() -> Iterator[None]:
    """Commits in the context renew no look of this process."""
    newest, surprise, of_tables = table_cache._newest_moment[0], table_cache._newest_surprise[0], dict(table_cache._newest_of)
    yield
    table_cache._newest_moment[0], table_cache._newest_surprise[0] = newest, surprise
    table_cache._newest_of.clear()
    table_cache._newest_of.update(of_tables)


@pytest.fixture
def other(lake: Lake) -> SampleLake:
    lake.settings.local_rows = 20_000
    return SampleLake(replace(lake, cache=TableCache()), contract(), None)


def in_a_step(lake: Lake) -> Lake:
    return replace(lake, cache=TableCache(is_of_one_step=True))


def give(sample: SampleLake, arrived: int, *lines: str, update: bool = True) -> None:
    sample.deliver(date(2024, 2, arrived), csv_file(lines))
    sample.ingest(date(2024, 2, arrived))
    if update:
        sample.update()


@pytest.mark.parametrize("file_bytes", [0, 1, 2**18])
def test_a_row_that_another_process_moves_meanwhile_stands_once(
    lake: Lake, other: SampleLake, file_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.settings.file_bytes = file_bytes
    give(other, 11, line("x", 1, 1, 11))
    give(other, 12, line("y", 1, 9, 12))
    give(other, 13, line("k", 2, 1, 13), update=False)
    computed, moved = local_merge._merge_rows, []

    def disturbed(*arguments: Any) -> Any:
        rows = computed(*arguments)
        if not moved:
            moved.append(True)
            with another_process():
                give(other, 14, line("k", 3, 9, 14))
        return rows

    monkeypatch.setattr(local_merge, "_merge_rows", disturbed)
    with uncompared():
        SampleLake(in_a_step(lake), contract(), None).update([date(2024, 2, 1)])
    assert moved
    assert [row[:3] for row in sorted(other.silver())] == [
        ("k", date(2024, 2, 9), 3),
        ("x", date(2024, 2, 1), 1),
        ("y", date(2024, 2, 9), 1),
    ]
    assert other.pending() == []


@pytest.mark.parametrize("rebuilds", [False, True])
def test_a_row_is_compared_with_claims_that_are_as_new_as_silver(lake: Lake, other: SampleLake, rebuilds: bool) -> None:
    give(other, 11, line("x", 1, 1, 11))
    give(other, 13, line("k", 2, 1, 13), update=False)
    step = in_a_step(lake)
    for table in (locations.key_log(step, "events"), locations.bronze(step, "events"), locations.ingestions(step)):
        assert table.read() is not None  # as the step before silver does, which brings a delivery in
    with another_process():
        give(other, 14, line("k", 3, 9, 14))
    with uncompared():
        if rebuilds:
            assert local_merge.rebuild(step, contract(), [date(2024, 2, 1)], {})
        else:
            known = ingestions.all_of(other.lake, "events")
            of_day = {entry.ingestion_id: entry for entry in known if entry.arrival_date == date(2024, 2, 13)}
            local_merge.merge(step, contract(), [date(2024, 2, 1)], of_day, {date(2024, 2, 13)}, {})
    assert [row[:3] for row in sorted(other.silver())] == [("k", date(2024, 2, 9), 3), ("x", date(2024, 2, 1), 1)]


def test_a_commit_of_another_process_is_not_taken_for_a_lost_one(lake: Lake, other: SampleLake) -> None:
    give(other, 11, line("x", 1, 1, 11))
    step = in_a_step(lake)
    assert locations.silver(step, "events").version() >= 0
    with another_process():
        give(other, 12, line("y", 1, 1, 12))
    with uncompared():
        assert applied_inputs.lost_versions(step, "events") is None


def test_inputs_are_read_as_new_as_the_silver_whose_version_a_number_names(lake: Lake, other: SampleLake) -> None:
    give(other, 11, line("x", 1, 1, 11))
    step = in_a_step(lake)
    applied_inputs.pending(step, "events")
    with another_process():
        give(other, 12, line("y", 1, 1, 12))
    with uncompared():
        assert locations.silver(step, "events").newest_version() == other.silver_version()
        assert len(lineage.of_silver(step, contract()).ids) == 2
