"""The audit is append-only, and redacted values still leave it: its rows at once, its folder with the next maintenance."""

from __future__ import annotations

import json
import multiprocessing
from datetime import datetime, timezone
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from lakehouse import locations
from lakehouse.delta import commit_log, partition_writer, row_writer
from lakehouse.ledger import redactions
from lakehouse.ledger.redactions import Redaction
from lakehouse.silver import audit
from lakehouse.silver import audit_log as log
from lakehouse_tests.support.audit_of_earlier_release import audit_of_earlier_release
from lakehouse_tests.support.audit_reader import audit_rows, follow_audit
from lakehouse_tests.support.maintained_lake import maintain_table
from lakehouse_tests.support.silver_log import append_to_silver
from lakehouse_tests.support.stopped_commits import after_each_commit

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier

    from lakehouse.lake import Lake

NOW = datetime(2024, 2, 10, tzinfo=timezone.utc)
SECRET = 47110815
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])


def record_redaction(lake: Lake, key: str = "a") -> None:
    """Only the redaction itself, as a command leaves it that is stopped then."""
    redactions.record(lake, "events", Redaction(key, ["amount"], "dana", f"{key} asked for it", NOW))


def two_keys(lake: Lake) -> None:
    """Rows of ``a`` with the secret and of ``b`` in the same file, and one of ``b`` in a file of its own."""
    append_to_silver(lake, ("a", 1, SECRET), ("b", 1, 2))
    append_to_silver(lake, ("b", 2, 3))
    follow_audit(lake)


def shown(lake: Lake) -> dict[tuple[str, int], Any]:
    """The amounts that readers of the project see, by key and version of silver."""
    return {(row["event_id"], row["silver_version"]): row["new_value"]["amount"] for row in audit_rows(lake)}


def stored(lake: Lake) -> dict[tuple[str, int], Any]:
    """The amounts that an analyst reads from the table itself."""
    rows = locations.audit_log(lake).read().to_pylist()
    return {(row["event_id"], row["silver_version"]): json.loads(row["new_value"])["amount"] for row in rows}


def holding(lake: Lake) -> list[str]:
    """The files of the audit, data and log, that hold the secret."""
    names = []
    for path in Path(locations.audit_log(lake).address).rglob("*"):
        if path.suffix == ".parquet":
            content = repr(pq.ParquetFile(path).read().to_pylist())
        elif path.is_file():
            content = path.read_text(encoding="utf-8", errors="replace")
        else:
            continue
        if f"{SECRET}" in content:
            names.append(path.name)
    return names


def is_append_only(lake: Lake) -> bool:
    return DeltaTable(locations.audit_log(lake).address).metadata().configuration.get("delta.appendOnly") == "true"


MASKED = {("a", 0): "[redacted]", ("b", 0): 2, ("b", 1): 3}


@pytest.mark.merge
def test_no_row_can_be_changed_or_deleted(lake) -> None:
    two_keys(lake)
    table = DeltaTable(locations.audit_log(lake).address)
    with pytest.raises(CommitFailedError, match="append-only"):
        table.delete("event_id = 'a'")
    with pytest.raises(CommitFailedError, match="append-only"):
        table.update(new_values={"actor": "'nobody'"}, predicate="event_id = 'a'")


@pytest.mark.spark
def test_spark_cannot_delete_a_row_either(lake, spark) -> None:
    two_keys(lake)
    record_redaction(lake)
    assert audit.erase(lake, "events") == 1
    with pytest.raises(Exception, match=r"(?i)append.only|only.*append"):
        spark.sql(f"DELETE FROM delta.`{locations.audit_log(lake)}` WHERE event_id = 'a'")
    spark.sql(f"OPTIMIZE delta.`{locations.audit_log(lake)}`")
    spark.sql(f"ALTER TABLE delta.`{locations.audit_log(lake)}` SET TBLPROPERTIES ('delta.checkpointInterval' = '30')")
    rows = spark.read.format("delta").load(locations.audit_log(lake).address).collect()
    assert sorted((row["event_id"], json.loads(row["new_value"])["amount"]) for row in rows) == [
        ("a", "[redacted]"),
        ("b", 2),
        ("b", 3),
    ]


def test_a_table_of_an_earlier_release_becomes_append_only_with_its_next_rows(lake) -> None:
    append_to_silver(lake, ("a", 1, 1))
    audit_of_earlier_release(lake)
    append_to_silver(lake, ("b", 1, 1))
    assert follow_audit(lake) == 1
    assert is_append_only(lake)
    assert [row["event_id"] for row in audit_rows(lake)] == ["a", "b"]


def test_a_redaction_is_shown_at_once_and_leaves_the_table_with_who_and_why(lake) -> None:
    two_keys(lake)
    record_redaction(lake)
    assert shown(lake) == MASKED
    assert stored(lake)["a", 0] == SECRET
    before = DeltaTable(locations.audit_log(lake).address)
    assert audit.erase(lake, "events") == 1
    assert stored(lake) == MASKED
    assert is_append_only(lake)
    table = DeltaTable(locations.audit_log(lake).address)
    commits = {commit["operation"]: commit for commit in commit_log.history(table, before.version())}
    (entry,) = redactions.all_of(lake, "events")
    why = {"erasure": "events", "redactions": [{"id": entry.redaction_id, "by": "dana", "reason": "a asked for it"}]}
    assert commit_log.commit_metadata(commits["MERGE"]) == why
    assert commits["MERGE"]["operationMetrics"]["num_target_rows_updated"] == 1
    assert set(before.file_uris()) & set(table.file_uris()), "files without a redacted value stay as they are"
    assert audit.erase(lake, "events") == 0
    assert DeltaTable(locations.audit_log(lake).address).version() == table.version()


def test_after_one_maintenance_run_no_file_holds_the_value(lake) -> None:
    two_keys(lake)
    DeltaTable(locations.audit_log(lake).address).optimize.compact()  # an older file with the value, besides the newest one
    orphan = Path(locations.audit_log(lake).address, "source=events", "of-a-writer-at-work.parquet")
    pq.write_table(pq.read_table(DeltaTable(locations.audit_log(lake).address).file_uris()[0]).slice(1, 1), orphan)
    record_redaction(lake)
    audit.erase(lake, "events")
    assert len(holding(lake)) >= 2
    assert maintain_table(lake, "ops/late_arrival_audit").files_deleted >= 2
    assert [name for name in holding(lake) if name != orphan.name] == []
    assert orphan.exists()
    assert (shown(lake), stored(lake)) == (MASKED, MASKED)


def test_files_that_leave_the_audit_for_another_reason_stay_for_their_readers(lake) -> None:
    two_keys(lake)
    DeltaTable(locations.audit_log(lake).address).optimize.compact()
    assert maintain_table(lake, "ops/late_arrival_audit").files_deleted == 0


def test_maintenance_erases_what_a_stopped_command_left(lake) -> None:
    two_keys(lake)
    record_redaction(lake)
    assert maintain_table(lake, "ops/late_arrival_audit", dry_run=True).files_deleted == 0
    assert stored(lake)["a", 0] == SECRET
    maintain_table(lake, "ops/late_arrival_audit")
    assert (stored(lake), holding(lake), is_append_only(lake)) == (MASKED, [], True)


def test_values_in_the_audit_of_an_earlier_release_are_erased_too(lake) -> None:
    append_to_silver(lake, ("a", 1, SECRET), ("b", 1, 2))
    append_to_silver(lake, ("b", 2, 3))
    audit_of_earlier_release(lake, ["b"])
    record_redaction(lake)
    maintain_table(lake, "ops/late_arrival_audit")
    assert (stored(lake), is_append_only(lake)) == (MASKED, True)
    assert [name for name in holding(lake) if name.endswith(".parquet")] == []
    assert {row["event_id"]: row["notification_sent"] for row in audit_rows(lake)} == {"a": False, "b": True}


@pytest.mark.merge
def test_stopped_after_any_commit_the_next_run_does_the_rest(lake, tmp_path_factory: pytest.TempPathFactory) -> None:
    two_keys(lake)
    record_redaction(lake)
    stops: list[Lake] = []

    def stop() -> None:
        root = tmp_path_factory.mktemp("stopped") / "lake"
        copytree(lake.root, root)
        stops.append(lake.with_settings(root=str(root)))

    with pytest.MonkeyPatch.context() as patched:
        after_each_commit(patched, stop)
        audit.erase(lake, "events")
    assert [is_append_only(left) for left in stops] == [False, False, True], "lifted, erased, restored"
    for left in stops:
        assert shown(left) == MASKED
        append_to_silver(left, ("c", 3, 4))
        assert follow_audit(left) == 1, "life goes on"
        maintain_table(left, "ops/late_arrival_audit")
        assert (stored(left), is_append_only(left)) == (MASKED | {("c", 2): 4}, True)
        assert holding(left) == []


def test_rows_that_are_appended_without_a_redaction_are_masked_by_the_next_erasure(lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower has read the redactions; then one is recorded, and erased; then the follower appends and is killed."""
    two_keys(lake)
    append_to_silver(lake, ("a", 3, SECRET))
    append = log.append

    class Killed(BaseException):
        """Not an ``Exception``."""

    def killed_after(*arguments: Any) -> int:
        record_redaction(lake)
        assert audit.erase(lake, "events") == 1
        append(*arguments)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(log, "append", killed_after)
        with pytest.raises(Killed):
            follow_audit(lake)
    assert stored(lake)["a", 2] == SECRET
    assert shown(lake) == MASKED | {("a", 2): "[redacted]"}
    maintain_table(lake, "ops/late_arrival_audit")
    assert stored(lake) == MASKED | {("a", 2): "[redacted]"}
    assert holding(lake) == []


@pytest.mark.parametrize(("module", "step"), [(partition_writer, "set_properties"), (row_writer, "merge")])
def test_an_append_during_an_erasure_is_masked_by_it(lake, monkeypatch: pytest.MonkeyPatch, module: Any, step: str) -> None:
    two_keys(lake)
    record_redaction(lake)
    commit, appended = getattr(module, step), []

    def meanwhile(*arguments: Any, **more: Any) -> bool:
        if not appended:
            appended.append(("a", 9))
            silver = f"{DeltaTable(locations.silver(lake, 'events').address).metadata().id}"
            rows = locations.audit_log(lake).read(log.SCHEMA.names, {"event_id": ["a"]}).slice(0, 1)
            changed = [rows.to_pylist()[0] | {"audit_id": "other", "silver_version": 9}]
            log.append(lake, "events", silver, 9, pa.Table.from_pylist(changed, schema=log.SCHEMA), 0)
        return commit(*arguments, **more)

    monkeypatch.setattr(module, step, meanwhile)
    audit.erase(lake, "events")
    assert stored(lake) == MASKED | {("a", 9): "[redacted]"}
    assert is_append_only(lake)


def following(lake: Lake, start: Barrier) -> None:
    """One process: audits what comes to silver."""
    start.wait(120)
    for number in range(10):
        append_to_silver(lake, ("a", number + 3, SECRET))
        follow_audit(lake)


def erasing(lake: Lake, start: Barrier) -> None:
    """Another: redacts several keys, one after another, each with its erasure."""
    start.wait(120)
    for key in ("b", "x", "a", "y"):
        record_redaction(lake, key)
        audit.erase(lake, "events")


@pytest.mark.merge
def test_two_processes_erase_while_a_third_appends(lake) -> None:
    two_keys(lake)
    start = PROCESSES.Barrier(3)
    processes = [PROCESSES.Process(target=work, args=(lake, start)) for work in (following, erasing, erasing)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(180)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    rows = locations.audit_log(lake).read().to_pylist()
    assert sorted((row["event_id"], row["silver_version"]) for row in rows) == [
        ("a", 0),
        *(("a", version) for version in range(2, 12)),
        ("b", 0),
        ("b", 1),
    ], "every row once"
    audit.erase_all(lake)
    assert set(stored(lake).values()) == {"[redacted]"}
    assert is_append_only(lake)
