"""What somebody has yet to follow stays, until it is followed; on real tables, without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.gold.restatement import lineage
from lakehouse.impact import key_history
from lakehouse.ledger import applied_inputs, ingestions
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.silver import audit_log
from lakehouse_tests.support import two_dataset_versions
from lakehouse_tests.support.audit_reader import audit_rows as audited
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.maintained_lake import (
    changing_silver,
    correct_in_silver,
    files_of,
    follow,
    pending,
    upkeep,
)
from lakehouse_tests.support.silver_log import append_to_silver

if TYPE_CHECKING:
    from lakehouse.settings import Settings


def _ingested(name: str, day: date) -> Ingestion:
    """What the ledger says of a file with one row."""
    return Ingestion(
        source="events",
        ingestion_id=name,
        content_hash=f"{name}yz",
        arrival_date=day,
        source_file=f"{name}.csv",
        bytes=1,
        modified=None,
        status="ingested",
        run_id="killed",
        recorded_at=datetime(2024, 2, 2, tzinfo=timezone.utc),
        rows=1,
        touched_days=[day],
        touched_rows=[1],
    )


def test_what_a_metric_has_yet_to_follow_stays_until_it_has(lifted: Settings) -> None:
    changing_silver(lifted)
    follow(lifted, 10)
    before = pending(lifted)
    assert before[0]
    done = upkeep(lifted, "silver/events")
    (why,) = done.kept
    assert "gold/total has yet to follow it from version 11 of" in why
    assert done.files_deleted == 0
    assert len([name for name in files_of(lifted, "silver/events") if name.startswith("_change_data")]) == 2
    assert pending(lifted) == before
    follow(lifted, 12)
    done = upkeep(lifted, "silver/events")
    assert (done.kept, done.files_deleted) == ((), 14)
    assert pending(lifted) == ({}, frozenset())


def test_compaction_that_a_metric_has_not_seen_is_nothing_it_needs(lifted: Settings) -> None:
    changing_silver(lifted)
    follow(lifted, 11)
    assert upkeep(lifted, "silver/events").files_deleted  # commits version 12, and the metric stays at 11
    append_to_silver(lifted, ("new", 3, 1))
    correct_in_silver(lifted, "new", 5)
    assert "from version 13 of" in upkeep(lifted, "silver/events").kept[0]


def test_a_metric_that_never_followed_needs_nothing(lifted: Settings) -> None:
    changing_silver(lifted)
    assert upkeep(lifted, "silver/events").kept == ()
    days = {date(2024, 2, 1)}
    assert pending(lifted) == ({}, days), "without the feed every day may be another one"


def test_behind_for_longer_than_the_table_remembers_nothing_is_deleted(lifted: Settings) -> None:
    changing_silver(lifted)
    table = DeltaTable(locations.silver(lifted, "events"))
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    follow(lifted, 10)
    (why,) = upkeep(lifted, "silver/events").kept
    assert "nothing is deleted until it does" in why
    assert pending(lifted)[0]


def test_only_the_dataset_version_that_readers_see_holds_files_back(lifted: Settings) -> None:
    two_dataset_versions.three_days(lifted)
    two_dataset_versions.promote(lifted, two_dataset_versions.catalog())
    changing_silver(lifted)
    both = replace(two_dataset_versions.catalog(), sources={"events": contract()})
    follow(lifted, 3, "total")
    follow(lifted, 11, "total@v2")
    follow(lifted, 11, "total_v2")
    assert upkeep(lifted, "silver/events", both).kept == ()
    changing_silver(lifted)
    assert "gold/total has yet to follow it from version 13" in upkeep(lifted, "silver/events", both).kept[0]


def test_the_audit_is_complete_before_what_it_is_made_from_may_go(lifted: Settings) -> None:
    changing_silver(lifted)
    append_to_silver(lifted, ("in time", 5, 1), late=0)
    follow(lifted, 12)
    upkeep(lifted, "silver/events")
    assert len(audited(lifted)) == 12
    silver_id = f"{DeltaTable(locations.silver(lifted, 'events')).metadata().id}"
    assert audit_log.followed(lifted, "events", silver_id) == 12
    assert upkeep(lifted, "silver/events").problem is None
    assert len(audited(lifted)) == 12


def test_silver_that_a_stopped_run_left_half_recorded_is_not_compacted(lifted: Settings) -> None:
    """Only its newest commit tells what silver took in: what numbers name as their inputs must not change."""
    changing_silver(lifted)
    append_to_silver(lifted, ("k1", 2, 1), days=["2024-02-02"], ingestions=["x"])
    entry = _ingested("x", date(2024, 2, 2))
    ingestions.record(lifted, entry)
    before = lineage.of_silver(lifted, "events")
    assert before.lacking == {}
    done = upkeep(lifted, "silver/events")
    assert done.kept[0].startswith("a run of silver/events is at work, or was stopped")
    assert done.partitions_compacted == 0
    assert lineage.of_silver(lifted, "events") == before
    applied = {"days": entry.touched_days, "ingestion_ids": ["x"], "method": "merge", "silver_version": 12}
    applied_inputs.record(lifted, "events", run_id="again", now=lifted.clock(), **applied)
    assert upkeep(lifted, "silver/events").partitions_compacted == 1
    assert lineage.of_silver(lifted, "events") == replace(before, silver_version=13)


def test_more_than_a_table_remembers_is_told_with_the_way_out(settings: Settings) -> None:
    changing_silver(settings)
    follow(settings, 11)
    (why,) = upkeep(settings, "silver/events", retention_hours=720).kept
    assert "delta.deletedFileRetentionDuration to 'interval 720 hours'" in why
    table = DeltaTable(locations.silver(settings, "events"))
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 720 hours"})
    follow(settings, 13)
    assert "(720 h)" in upkeep(settings, "silver/events", retention_hours=720).kept[0]
    assert "deletedFile" not in upkeep(settings, "silver/events", retention_hours=720).kept[0]


def test_the_story_of_a_key_begins_where_the_files_do(lifted: Settings) -> None:
    changing_silver(lifted)
    follow(lifted, 11)
    for number in (300, 400):
        correct_in_silver(lifted, "k1", number)
    whole, oldest = key_history.silver_life(lifted, contract(), [], "k1")
    assert [(one.version, one.change) for one in whole] == [
        (1, "inserted"),
        *((version, "corrected") for version in (10, 12, 13)),
    ]
    assert oldest == 0
    upkeep(lifted, "silver/events")  # what the metric has yet to follow stays
    assert key_history.silver_life(lifted, contract(), [], "k1") == (whole, 0)
    follow(lifted, 14)
    upkeep(lifted, "silver/events")
    assert key_history.silver_life(lifted, contract(), [], "k1") == ([], 14)
    correct_in_silver(lifted, "k1", 500)
    story, oldest = key_history.silver_life(lifted, contract(), [], "k1")
    assert [(one.version, one.change) for one in story] == [(15, "corrected")]
    assert oldest == 14


def test_a_compaction_behind_a_stopped_run_hides_nothing_of_it(lifted: Settings) -> None:
    changing_silver(lifted)
    append_to_silver(lifted, ("k1", 2, 1), days=["2024-02-02"], ingestions=["x"])
    ingestions.record(lifted, _ingested("x", date(2024, 2, 2)))
    before = lineage.of_silver(lifted, "events")
    assert before.lacking == {}
    DeltaTable(locations.silver(lifted, "events")).optimize.compact()  # by whoever has not looked
    assert lineage.of_silver(lifted, "events") == replace(before, silver_version=13)
