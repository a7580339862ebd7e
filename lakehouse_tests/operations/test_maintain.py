"""Maintenance on real tables: compaction is no change, removed files are deleted in time, readers and writers go on. No Spark."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
import obstore.exceptions
import obstore.store
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.delta import commit_log, leases, row_writer
from lakehouse.delta.data_files import Storage
from lakehouse.lake import table_io
from lakehouse.ledger import key_log
from lakehouse.operations import maintain as maintenance_maintain
from lakehouse.operations.maintain import MaintenanceError, Upkeep, maintain
from lakehouse_tests.support.arrivals import append_claims
from lakehouse_tests.support.maintained_lake import (
    CATALOG,
    changing_silver,
    correct_in_silver,
    files_of,
    grow_old,
    maintain_table,
    pending,
    record_followed,
)
from lakehouse_tests.support.silver_log import append_to_silver

if TYPE_CHECKING:
    from lakehouse.lake import Lake


@pytest.mark.merge
def test_compaction_changes_no_row_and_is_no_change_to_anybody(no_retention: Lake) -> None:
    changing_silver(no_retention)
    record_followed(no_retention, 11)
    before = locations.silver(no_retention, "events").read().sort_by("record_key")
    done = maintain_table(no_retention, "silver/events")
    assert (done.files_before, done.files_after, done.partitions_compacted) == (10, 1, 1)
    assert done.bytes_freed > 0
    assert locations.silver(no_retention, "events").read().sort_by("record_key") == before
    assert len(files_of(no_retention, "silver/events")) == 1
    assert pending(no_retention) == ({}, frozenset())
    assert [
        commit["operation"] for commit in commit_log.history(DeltaTable(locations.silver(no_retention, "events").address), 11)
    ] == ["OPTIMIZE"]
    again = maintain_table(no_retention, "silver/events")
    assert again == Upkeep("silver/events", 1, 1)


@pytest.mark.merge
@pytest.mark.parametrize("answer", ["lost", "refused", "fails"])
def test_a_conversion_without_an_answer_does_not_compact_the_days_together(
    no_retention: Lake, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    for number in range(10):
        append_to_silver(no_retention, (f"k{number}", 1 + number, number))
    record_followed(no_retention, 9)
    no_retention.settings.file_bytes = 1
    put = obstore.put

    def answered(*arguments: Any, **options: Any) -> None:
        if answer == "fails":
            raise obstore.exceptions.GenericError("the store does not answer")
        if answer == "lost":
            put(*arguments, **options)
        raise obstore.exceptions.AlreadyExistsError("there is such a file")

    monkeypatch.setattr(obstore, "put", answered)
    if answer == "refused":
        of_another = obstore.store.MemoryStore()
        put(of_another, "entry", b"of another")
        get = obstore.get
        monkeypatch.setattr(obstore, "get", lambda *_: get(of_another, "entry"))
    before = locations.silver(no_retention, "events").read().sort_by("record_key")
    [done] = maintain(no_retention, CATALOG, ["silver/events"], convert=True)
    partitions = DeltaTable(locations.silver(no_retention, "events").address).metadata().partition_columns
    if answer == "lost":
        assert (done.converted, done.files_after, partitions) == (True, 10, [])
    else:
        assert (done.converted, done.files_after, partitions) == (False, 10, ["event_date"])
    assert locations.silver(no_retention, "events").read().sort_by("record_key") == before
    assert (done.problem or "").endswith("the store does not answer") == (answer == "fails")
    assert ("another process was writing to it: its days share files the next time" in done.kept) == (answer == "refused")


@pytest.mark.merge
def test_a_dry_run_reports_what_would_be_done_and_touches_nothing(no_retention: Lake) -> None:
    changing_silver(no_retention)
    record_followed(no_retention, 11)
    for _ in range(30):
        append_to_silver(no_retention, ("late", 2, 1))
    record_followed(no_retention, 41)
    everything = {path: path.stat().st_mtime_ns for path in Path(no_retention.root).rglob("*")}
    planned = maintain_table(no_retention, "silver/events", dry_run=True)
    assert {path: path.stat().st_mtime_ns for path in Path(no_retention.root).rglob("*")} == everything
    done = maintain_table(no_retention, "silver/events")
    assert (planned.files_before, planned.files_after, planned.checkpointed) == (
        done.files_before,
        done.files_after,
        done.checkpointed,
    )
    assert planned.partitions_compacted == done.partitions_compacted == 2
    assert 0 < planned.files_deleted < done.files_deleted, "what compaction will leave behind is not known before"


@pytest.mark.merge
def test_readers_and_writers_at_work_keep_their_files(lake: Lake) -> None:
    changing_silver(lake)
    record_followed(lake, 11)
    reader = DeltaTable(locations.silver(lake, "events").address)
    done = maintain_table(lake, "silver/events")
    assert done.files_deleted == 0
    assert done.kept == ("14 unused files stay: for active readers and writers (168 h)",)
    assert len(table_io.read_version(reader)) == 10
    grow_old(locations.silver(lake, "events").address)  # files that were written long ago, and left the table just now
    orphan = Path(locations.silver(lake, "events").address, "event_date=2024-02-01", "orphan.parquet")
    orphan.write_bytes(b"what a killed writer left")
    maintain_table(lake, "silver/events")
    assert len(table_io.read_version(reader)) == 10
    assert orphan.exists()
    grow_old(orphan.parent)
    assert maintain_table(lake, "silver/events").files_deleted == 1
    assert not orphan.exists()


@pytest.mark.merge
def test_stopped_between_compaction_and_deletion_the_next_one_does_the_rest(
    no_retention: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    changing_silver(no_retention)
    record_followed(no_retention, 11)
    before = locations.silver(no_retention, "events").read().sort_by("record_key")

    class Killed(BaseException):
        pass

    def killed(*_: object, **__: object) -> None:
        raise Killed

    for step in ("_checkpoint", "_clean_log", "_vacuum"):
        with monkeypatch.context() as patched:
            patched.setattr(maintenance_maintain._Work, step, killed)
            with pytest.raises(Killed):
                maintain_table(no_retention, "silver/events")
        assert locations.silver(no_retention, "events").read().sort_by("record_key") == before
        assert pending(no_retention) == ({}, frozenset())
    with monkeypatch.context() as patched:  # in the middle of it
        patched.setattr(
            Storage, "delete", lambda self, paths: [self._system.delete_file(path) for path in paths[:5]] and killed()
        )
        with pytest.raises(Killed):
            maintain_table(no_retention, "silver/events")
    done = maintain_table(no_retention, "silver/events")
    assert (done.files_after, done.files_deleted) == (1, 14 - 5)
    assert locations.silver(no_retention, "events").read().sort_by("record_key") == before


@pytest.mark.merge
def test_a_writer_that_is_quicker_wins_and_is_left_in_peace(no_retention: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    changing_silver(no_retention)
    record_followed(no_retention, 11)
    opened = maintenance_maintain._Work._opened
    disturbed = []

    def opened_too_late(work: Any) -> DeltaTable:
        table = opened(work)
        if len(disturbed) < 3:
            disturbed.append(table.version())
            correct_in_silver(no_retention, "k3", 1000 + len(disturbed))
        return table

    with monkeypatch.context() as patched:
        patched.setattr(maintenance_maintain._Work, "_opened", opened_too_late)
        done = maintain_table(no_retention, "silver/events")
    assert done.kept[0] == "another process was writing to it: compacted the next time"
    assert done.partitions_compacted == 0
    amounts = dict(zip(*locations.silver(no_retention, "events").read(["record_key", "amount"]).to_pydict().values()))
    assert amounts["k3"] == 1003
    disturbed[:] = [0, 0]  # once more only
    with monkeypatch.context() as patched:
        patched.setattr(maintenance_maintain._Work, "_opened", opened_too_late)
        done = maintain_table(no_retention, "silver/events")
    assert (done.partitions_compacted, done.files_after) == (1, 1)
    assert len(locations.silver(no_retention, "events").read()) == 10


@pytest.mark.merge
def test_a_table_that_another_process_compacts_is_left_alone(no_retention: Lake) -> None:
    changing_silver(no_retention)
    record_followed(no_retention, 11)
    with leases.held(locations.silver(no_retention, "events"), leases.COMPACTION):
        done = maintain_table(no_retention, "silver/events")
    assert (done.kept[0], done.partitions_compacted) == ("another process is compacting it", 0)
    assert maintain_table(no_retention, "silver/events").partitions_compacted == 1


@pytest.mark.merge
def test_two_at_once_do_not_disturb_each_other(no_retention: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    changing_silver(no_retention)
    record_followed(no_retention, 11)
    delete = Storage.delete

    def twice(storage: Storage, paths: list[str]) -> None:
        delete(Storage(storage.address, storage.options), paths)
        delete(storage, paths)

    monkeypatch.setattr(Storage, "delete", twice)
    assert maintain_table(no_retention, "silver/events").files_deleted == 14
    assert len(locations.silver(no_retention, "events").read()) == 10


def test_a_broken_table_keeps_no_other_from_being_looked_after(no_retention: Lake) -> None:
    changing_silver(no_retention)
    for number in range(12):
        row_writer.append(no_retention.table("ops", "events_keys"), pa.table({"record_key": [f"{number}"]}))
    Path(locations.silver(no_retention, "events").address, "_delta_log", f"{5:020}.json").write_text("no JSON")
    done = {one.table: one for one in maintain(no_retention, CATALOG)}
    assert done["silver/events"].problem
    assert done["ops/events_keys"].files_after == 1


def test_less_than_the_guard_allows_is_refused(lake: Lake) -> None:
    with pytest.raises(MaintenanceError, match=r"24 hours are less than the 168 .* set LAKEHOUSE_RETENTION_HOURS"):
        maintain(lake, CATALOG, retention_hours=24)
    with pytest.raises(MaintenanceError, match="no contract describes silver/evnets; known are bronze/events, "):
        maintain(lake, CATALOG, ["silver/evnets"])


def test_the_key_log_stays_sorted_so_that_a_look_up_reads_a_part_of_it(no_retention: Lake) -> None:
    table, ids = locations.key_log(no_retention, "events"), [f"delivery{number}" for number in range(10)]
    for number, ingestion_id in enumerate(ids):
        keys = [f"k{key:06}" for key in range(number, 50_000, 10)]
        claims = pa.table({"record_key": keys, "ingestion_id": [ingestion_id] * len(keys)})
        missing = {item.name: pa.nulls(len(keys), item.type) for item in key_log.SCHEMA if item.name not in claims.column_names}
        claims = pa.table({**dict(zip(claims.column_names, claims.columns)), **missing}).select(key_log.SCHEMA.names)
        append_claims(no_retention, "events", claims.to_pylist())
    before = table.read().sort_by("record_key")
    done = maintain_table(no_retention, "ops/events_keys")
    assert (done.files_before, done.files_after) == (10, 1)
    assert table.read().cast(key_log.SCHEMA).sort_by("record_key") == before.cast(key_log.SCHEMA)
    [file] = DeltaTable(table).file_uris()
    groups = [pq.ParquetFile(file).metadata.row_group(group) for group in range(pq.ParquetFile(file).num_row_groups)]
    bounds = [(group.column(0).statistics.min, group.column(0).statistics.max) for group in groups]
    assert len(bounds) > 2
    assert all(greatest <= least for (_, greatest), (least, _) in pairwise(bounds))
