"""What an open table keeps of its files and of its log is that of its version, as delta-rs reads it."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from lakehouse.delta import commit_log
from lakehouse.lake import delta_rs_internals
from lakehouse.lake.delta_rs_internals import listed_files, transaction_version

ROWS = pa.table({"n": [1, 2]})


def test_a_version_is_listed_once_and_every_version_has_its_own_files(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    table, other = DeltaTable(tmp_path), DeltaTable(tmp_path)
    assert len(listed_files(table)) == 1
    assert listed_files(table) is listed_files(table)
    write_deltalake(table, ROWS, mode="append")
    assert len(listed_files(table)) == 2
    write_deltalake(tmp_path, ROWS, mode="overwrite")
    table.update_incremental()
    assert len(listed_files(table)) == 1
    table.load_as_version(1)
    assert len(listed_files(table)) == 2
    assert len(listed_files(other)) == 1
    assert listed_files(other)["path"].to_pylist() != listed_files(DeltaTable(tmp_path))["path"].to_pylist()


#: A commit with transactions, a checkpoint, the removal of entries before a checkpoint, or a question to an open table.
_LOG_EVENTS = st.one_of(
    st.tuples(st.just("commit"), st.sets(st.sampled_from("abc"), max_size=2)),
    st.tuples(st.sampled_from(["checkpoint", "shorten", "ask"]), st.just(set[str]())),
)


@examples(max_examples=25, deadline=None)
@given(st.lists(_LOG_EVENTS, max_size=14), st.sampled_from([2, 20]))
def test_transactions_and_commits_are_those_that_delta_rs_reads(history: list[tuple[str, set[str]]], few: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(delta_rs_internals, "_FEW_ENTRIES", few)
        patched.setattr(commit_log, "_COMMITS", few)
        write_deltalake(folder, ROWS)
        kept, numbers = DeltaTable(folder), itertools.count(1)
        for event, apps in [*history, ("ask", set[str]())]:
            if event == "commit":
                why = CommitProperties({"userMetadata": "{}"}, app_transactions=[Transaction(app, next(numbers)) for app in apps])
                write_deltalake(folder, ROWS, mode="append", commit_properties=why)
            elif event == "checkpoint":
                DeltaTable(folder).create_checkpoint()
            elif event == "shorten":
                checkpoints = sorted(Path(folder, "_delta_log").glob("*.checkpoint.parquet"))
                for entry in Path(folder, "_delta_log").glob("*.json") if checkpoints else ():
                    if int(entry.stem) < int(checkpoints[-1].name[:20]):
                        entry.unlink()
            else:
                kept.update_incremental()
                for table in (kept, DeltaTable(folder)):
                    known = [table.transaction_version(app) for app in "abc"]
                    assert [transaction_version(table, app) for app in "abc"] == known
                    newest = commit_log.history(table, table.version() - 1)
                    assert newest == [table.history(1)[0] | {"version": table.version()}]


def test_the_commits_of_a_table_are_those_that_delta_rs_reads(tmp_path: Path) -> None:
    for number in range(3):
        write_deltalake(tmp_path, ROWS, mode="append", commit_properties=CommitProperties({"userMetadata": f"{number}"}))
    table = DeltaTable(tmp_path)
    assert commit_log.history(table, -1) == table.history()
    assert commit_log.history(table, 1) == table.history(1)
