"""What a reader has yet to follow is kept until it has; on real tables, without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.gold.restatement import lineage
from lakehouse.impact import row_changes
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
    maintain_table,
    pending,
    record_followed,
)
from lakehouse_tests.support.silver_log import append_to_silver

if TYPE_CHECKING:
    from lakehouse.lake import Lake


def _ingested(name: str, day: date) -> Ingestion:
    """The ledger's entry of a file with one row."""
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


@pytest.mark.merge
def test_what_a_metric_has_yet_to_follow_stays_until_it_has(no_retention: Lake) -> None:
    changing_silver(no_retention)
    record_followed(no_retention, 10)
    before = pending(no_retention)
    assert before[0]
    done = maintain_table(no_retention, "silver/events")
    (why,) = done.kept
    assert "gold/total has yet to follow it from version 11 of" in why
    assert done.files_deleted == 0
    assert len([name for name in files_of(no_retention, "silver/events") if name.startswith("_change_data")]) == 2
    assert pending(no_retention) == before
    record_followed(no_retention, 12)
    done = maintain_table(no_retention, "silver/events")
    assert (done.kept, done.files_deleted) == ((), 14)
    assert pending(no_retention) == ({}, frozenset())


@pytest.mark.merge
def test_compaction_that_a_metric_has_not_seen_is_nothing_it_needs(no_retention: Lake) -> None:
    changing_silver(no_retention)
    record_followed(no_retention, 11)
    assert maintain_table(no_retention, "silver/events").files_deleted  # commits version 12, and the metric stays at 11
    append_to_silver(no_retention, ("new", 3, 1))
    correct_in_silver(no_retention, "new", 5)
    assert "from version 13 of" in maintain_table(no_retention, "silver/events").kept[0]


def test_a_metric_that_never_followed_needs_nothing(no_retention: Lake) -> None:
    changing_silver(no_retention)
    assert maintain_table(no_retention, "silver/events").kept == ()
    days = {date(2024, 2, 1)}
    assert pending(no_retention) == ({}, days), "without the feed every day may be another one"


@pytest.mark.merge
def test_where_a_reader_is_behind_for_longer_than_the_table_remembers_nothing_is_deleted(no_retention: Lake) -> None:
    changing_silver(no_retention)
    table = DeltaTable(locations.silver(no_retention, "events").address)
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    record_followed(no_retention, 10)
    (why,) = maintain_table(no_retention, "silver/events").kept
    assert "nothing is deleted until it does" in why
    assert pending(no_retention)[0]


@pytest.mark.merge
def test_only_the_dataset_version_that_readers_see_holds_files_back(no_retention: Lake) -> None:
    two_dataset_versions.three_days(no_retention)
    two_dataset_versions.promote(no_retention, two_dataset_versions.catalog())
    changing_silver(no_retention)
    both = replace(two_dataset_versions.catalog(), sources={"events": contract()})
    record_followed(no_retention, 3, "total")
    record_followed(no_retention, 11, "total@v2")
    record_followed(no_retention, 11, "total_v2")
    assert maintain_table(no_retention, "silver/events", both).kept == ()
    changing_silver(no_retention)
    assert "gold/total has yet to follow it from version 13" in maintain_table(no_retention, "silver/events", both).kept[0]


@pytest.mark.merge
def test_the_audit_is_complete_before_what_it_is_made_from_may_go(no_retention: Lake) -> None:
    changing_silver(no_retention)
    append_to_silver(no_retention, ("in time", 5, 1), late=0)
    record_followed(no_retention, 12)
    maintain_table(no_retention, "silver/events")
    assert len(audited(no_retention)) == 12
    silver_id = f"{DeltaTable(locations.silver(no_retention, 'events').address).metadata().id}"
    assert audit_log.followed(no_retention, "events", silver_id) == 12
    assert maintain_table(no_retention, "silver/events").problem is None
    assert len(audited(no_retention)) == 12


@pytest.mark.merge
def test_silver_that_a_stopped_run_left_half_recorded_is_not_compacted(no_retention: Lake) -> None:
    """Only its newest commit holds what silver included: what numbers name as their inputs must not change."""
    changing_silver(no_retention)
    append_to_silver(no_retention, ("k1", 2, 1), days=["2024-02-02"], ingestions=["x"])
    entry = _ingested("x", date(2024, 2, 2))
    ingestions.record(no_retention, entry)
    before = lineage.of_silver(no_retention, contract())
    assert before.lacking == {}
    done = maintain_table(no_retention, "silver/events")
    assert done.kept[0].startswith("a run of silver/events is active, or was stopped")
    assert done.partitions_compacted == 0
    assert lineage.of_silver(no_retention, contract()) == before
    applied: dict[str, Any] = {"days": entry.touched_days, "ingestion_ids": ["x"], "method": "merge"}
    applied_inputs.record(no_retention, "events", run_id="again", **applied)
    assert maintain_table(no_retention, "silver/events").partitions_compacted == 1
    assert lineage.of_silver(no_retention, contract()) == replace(before, silver_version=13)


@pytest.mark.merge
def test_more_than_a_table_remembers_is_reported_with_the_way_out(lake: Lake) -> None:
    changing_silver(lake)
    record_followed(lake, 11)
    (why,) = maintain_table(lake, "silver/events", retention_hours=720).kept
    assert "delta.deletedFileRetentionDuration to 'interval 720 hours'" in why
    table = DeltaTable(locations.silver(lake, "events").address)
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 720 hours"})
    record_followed(lake, 13)
    assert "(720 h)" in maintain_table(lake, "silver/events", retention_hours=720).kept[0]
    assert "deletedFile" not in maintain_table(lake, "silver/events", retention_hours=720).kept[0]


@pytest.mark.merge
def test_the_story_of_a_key_begins_where_the_files_do(no_retention: Lake) -> None:
    changing_silver(no_retention)
    record_followed(no_retention, 11)
    for number in (300, 400):
        correct_in_silver(no_retention, "k1", number)
    whole, oldest = row_changes.silver_life(no_retention, contract(), [], "k1")
    assert [(step.version, step.change) for step in whole] == [
        (1, "inserted"),
        *((version, "corrected") for version in (10, 12, 13)),
    ]
    assert oldest == 0
    maintain_table(no_retention, "silver/events")  # what the metric has yet to follow stays
    assert row_changes.silver_life(no_retention, contract(), [], "k1") == (whole, 0)
    record_followed(no_retention, 14)
    maintain_table(no_retention, "silver/events")
    assert row_changes.silver_life(no_retention, contract(), [], "k1") == ([], 14)
    correct_in_silver(no_retention, "k1", 500)
    story, oldest = row_changes.silver_life(no_retention, contract(), [], "k1")
    assert [(step.version, step.change) for step in story] == [(15, "corrected")]
    assert oldest == 14


def test_a_compaction_after_a_stopped_run_hides_nothing_of_it(no_retention: Lake) -> None:
    changing_silver(no_retention)
    append_to_silver(no_retention, ("k1", 2, 1), days=["2024-02-02"], ingestions=["x"])
    ingestions.record(no_retention, _ingested("x", date(2024, 2, 2)))
    before = lineage.of_silver(no_retention, contract())
    assert before.lacking == {}
    DeltaTable(locations.silver(no_retention, "events").address).optimize.compact()  # by whoever has not looked
    assert lineage.of_silver(no_retention, contract()) == replace(before, silver_version=13)
