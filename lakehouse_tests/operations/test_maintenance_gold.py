"""Maintenance of published numbers and of logs: what readers see, saw and were notified of stays. No Spark."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts import Catalog
from lakehouse.contracts.series import Series
from lakehouse.delta import commit_log, partition_writer, row_writer
from lakehouse.gold.numbers import published_table
from lakehouse.gold.promotion import promotion_log
from lakehouse.gold.restatement.pending import find_due, find_pending
from lakehouse.ledger import publications
from lakehouse.operations import maintain as maintenance_maintain
from lakehouse.operations.maintain import maintain
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.maintained_lake import (
    TOTAL,
    grow_old,
    maintain_table,
)
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, lawful_versions, metric, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.lake import Lake


@pytest.fixture(autouse=True)
def _numbers_by_hand() -> Iterator[None]:
    with without_spark():
        yield


def published_numbers(lake: Lake) -> ScriptedNumbers:
    """Days that were published again and again, and their weeks."""
    numbers = ScriptedNumbers(lake, metric(publication={"rollups": ["week"]}))
    for number in range(1, 16):
        numbers.at(number)
        numbers.set(max(1, number - 3), 10 * number)
        numbers.set(number, number)
        numbers.publish()
        numbers.roll_up()
    return numbers


@pytest.mark.merge
def test_published_numbers_are_what_they_were(no_retention: Lake) -> None:
    numbers = published_numbers(no_retention)
    week = Series(numbers.metric, Kind.WEEK)
    of = Catalog({"events": contract()}, {"total": numbers.metric})
    versions = [lawful_versions(no_retention, series) for series in (numbers.series, week)]
    known = (
        publications.of(no_retention, "total"),
        find_due(no_retention, contract(), numbers.series),
        find_pending(no_retention, week),
    )
    seen = {moment: as_of(no_retention, numbers.series, moment) for moment in moments(no_retention, numbers.series)}
    done = {report.table: report for report in maintain(no_retention, of)}
    assert done["ops/publications"].files_after == 2
    assert done["gold/total"].files_deleted > 0
    assert all(report.problem is None for report in done.values())
    assert [lawful_versions(no_retention, series) for series in (numbers.series, week)] == versions
    assert (
        publications.of(no_retention, "total"),
        find_due(no_retention, contract(), numbers.series),
        find_pending(no_retention, week),
    ) == known
    assert {moment: as_of(no_retention, numbers.series, moment) for moment in seen} == seen
    assert len(seen) == 15
    numbers.at(16)
    numbers.set(2, 999)
    numbers.publish(2)
    assert numbers.latest_total(2) == 999


def moments(lake: Lake, series: Series) -> set[datetime]:
    return set(locations.gold(lake, series).read(["published_at"])["published_at"].to_pylist())


def as_of(lake: Lake, series: Series, moment: datetime) -> list[tuple[Any, ...]]:
    """What readers saw at a moment, by the documented filter."""
    rows = locations.gold(lake, series).read(["period", "total", "revision", "published_at", "superseded_at"]).to_pylist()
    shown = [
        row for row in rows if row["published_at"] <= moment and not (row["superseded_at"] and row["superseded_at"] <= moment)
    ]
    return sorted((row["period"], row["total"], row["revision"]) for row in shown)


def test_due_numbers_are_found_in_the_statistics_of_compacted_files(no_retention: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the 32nd column too, with which Delta's own statistics end."""
    table = locations.gold(no_retention, Series(TOTAL))
    many = {f"measure_{number}": [1] for number in range(40)}
    for number in range(12):
        due_on = pa.array([date(2024, 2, 1) + timedelta(days=number)], pa.date32())
        rows = pa.table(many | {"due_on": due_on, "event_date": pa.array([date(2024, 1, 1 + number % 2)], pa.date32())})
        partition_writer.create(table, rows.schema, ["event_date"], properties=partition_writer.ALL_STATISTICS)
        write_deltalake(table.address, rows, mode="append")
    before = published_table.due(no_retention, Series(TOTAL), date(2024, 2, 1))
    assert before == {date(2024, 1, 1): date(2024, 2, 1)}
    monkeypatch.setattr(maintenance_maintain, "_SMALL_FILES", 5)
    maintain_table(no_retention, "gold/total")
    assert len(DeltaTable(table.address).file_uris()) == 2
    assert published_table.due(no_retention, Series(TOTAL), date(2024, 2, 1)) == before
    DeltaTable(table.address).create_checkpoint()
    assert published_table.due(no_retention, Series(TOTAL), date(2024, 2, 1)) == before


def test_transactions_are_remembered_after_a_checkpoint_and_a_cleaned_log(
    no_retention: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance_maintain, "_CHECKPOINT_AFTER_COMMITS", 3)
    table = no_retention.table("ops", "events_keys")
    for number in range(25):
        row_writer.append(table, pa.table({"record_key": [f"{number}"]}), once=row_writer.Once(f"keys:{number}"))
    assert maintain_table(no_retention, "ops/events_keys").checkpointed
    grow_old(Path(table.address, "_delta_log"))
    newest = DeltaTable(table.address).version()
    done = maintain_table(no_retention, "ops/events_keys")
    assert done.log_files_deleted == newest + 1, "the commits before it, and an earlier checkpoint"
    assert [commit["version"] for commit in commit_log.history(DeltaTable(table.address), -1)] == [newest]
    assert not row_writer.append(table, pa.table({"record_key": ["again"]}), once=row_writer.Once("keys:0"))
    assert sorted(table.read()["record_key"].to_pylist(), key=int) == [f"{number}" for number in range(25)]


def test_a_log_is_copied_before_it_is_cleaned(no_retention: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance_maintain, "_CHECKPOINT_AFTER_COMMITS", 3)
    with monkeypatch.context() as patched:
        patched.setattr(publications, "follow", lambda *_: 0)  # runs that were stopped right behind their commits
        numbers = ScriptedNumbers(no_retention)
        for number in range(1, 7):
            numbers.at(number)
            numbers.set(number, number)
            numbers.publish()
    assert publications.of(no_retention, "total") == []
    assert maintain_table(no_retention, "gold/total").checkpointed
    grow_old(Path(locations.gold(no_retention, numbers.series).address, "_delta_log"))
    assert maintain_table(no_retention, "gold/total").log_files_deleted == 6
    assert len(publications.of(no_retention, "total")) == 6
    assert promotion_log.of(no_retention, "total") == []


@pytest.mark.merge
def test_a_log_stays_for_a_rollup_that_has_yet_to_follow_it(no_retention: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance_maintain, "_CHECKPOINT_AFTER_COMMITS", 3)
    numbers = ScriptedNumbers(no_retention, metric(publication={"rollups": ["week"]}))
    of = Catalog({"events": contract()}, {"total": numbers.metric})
    week = Series(numbers.metric, Kind.WEEK)
    numbers.at(1)
    numbers.set(1, 1)
    numbers.publish()
    numbers.roll_up()
    ours = {"delta.logRetentionDuration": "interval 0 seconds", "delta.enableExpiredLogCleanup": "false"}
    DeltaTable(locations.gold(no_retention, numbers.series).address).alter.set_table_properties(ours)
    for number in range(2, 8):
        numbers.at(number)
        numbers.set(number, number)
        numbers.publish(number)
    waiting = find_pending(no_retention, week)
    assert maintain_table(no_retention, "gold/total", of).checkpointed
    done = maintain_table(no_retention, "gold/total", of)
    assert done.log_files_deleted == 0
    assert any(why.startswith("gold/total_weekly has yet to follow it from version 2 of") for why in done.kept)
    assert find_pending(no_retention, week).starts == waiting.starts
    numbers.roll_up()
    assert maintain_table(no_retention, "gold/total", of).log_files_deleted > 5
    assert find_pending(no_retention, week).starts == frozenset()
