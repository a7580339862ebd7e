"""Whether a table still holds a commit that somebody has followed, and what tells its states apart once it has lost one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.delta import commit_log, partition_writer
from lakehouse.lake import Table


def table_of(folder: Path, *numbers: int) -> DeltaTable:
    for number in numbers:
        write_deltalake(folder, pa.table({"number": [number]}), mode="append")
    return DeltaTable(folder)


def entry(folder: Path, version: int) -> Path:
    return folder / "_delta_log" / f"{version:020}.json"


def test_a_commit_is_held_until_its_entry_is_another_one_or_none(tmp_path: Path) -> None:
    table = table_of(tmp_path / "table", 1, 2, 3)
    commit = commit_log.commit_id(table)
    assert len(commit) == 16
    assert commit == commit_log.commit_id(table, 2) != commit_log.commit_id(table, 1)
    assert not commit_log.are_lost(table, 2, commit)
    shutil.copytree(tmp_path / "table", tmp_path / "copy")
    entry(tmp_path / "copy", 2).unlink()
    assert commit_log.are_lost(DeltaTable(tmp_path / "copy"), 2, commit), "deleted"
    assert commit_log.are_lost(table_of(tmp_path / "copy", 9), 2, commit), "its number was given to another one"
    entry(tmp_path / "table", 2).write_text("")
    assert commit_log.are_lost(DeltaTable(tmp_path / "table"), 2, commit), "emptied"
    assert commit_log.are_lost(None, 2, commit), "the table is gone"


def test_nothing_is_concluded_without_an_id_and_from_a_shortened_log(tmp_path: Path) -> None:
    table = table_of(tmp_path / "table", 1, 2, 3)
    commit = commit_log.commit_id(table, 0)
    table.create_checkpoint()
    entry(tmp_path / "table", 0).unlink()
    table = DeltaTable(tmp_path / "table")
    assert commit_log.commit_id(table, 0) == ""
    assert not commit_log.are_lost(table, 0, commit)
    assert not commit_log.are_lost(table, 9, None), "recorded by a release that knew no ids"
    assert not commit_log.are_lost(None, -1, commit)
    assert commit_log.commit_id(None) == ""


def test_a_table_that_has_lost_commits_goes_on_behind_them_as_another_one(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    partition_writer.create(Table(path), pa.schema([("number", pa.int64())]))
    before = table_of(tmp_path / "table", 1)
    assert commit_log.lineage(before) == ""
    assert commit_log.identity(before) == f"{before.metadata().id}"
    after = commit_log.close_gap(Table(path), followed=5, since=1)
    assert after is not None
    assert after.version() > 5, "no number is given a second time"
    assert after.to_pyarrow_table().num_rows == 1
    assert commit_log.lineage(after).startswith("1~")
    assert commit_log.identity(after) == f"{before.metadata().id}:{commit_log.lineage(after)}"
    again = commit_log.close_gap(Table(path), followed=9, since=7)
    assert commit_log.lineage(again).startswith(f"{commit_log.lineage(after)}.7~")
    assert commit_log.close_gap(Table(str(tmp_path / "nowhere")), followed=1, since=0) is None


@pytest.mark.parametrize(
    ("lineage", "earlier", "version", "kept"),
    [
        ("", "", 4, True),
        ("3~a", "", 3, True),
        ("3~a", "", 4, False),
        ("3~a.9~b", "", 3, True),
        ("3~a.9~b", "3~a", 9, True),
        ("3~a.9~b", "3~a", 10, False),
        ("7~a.3~b", "", 5, False),
        ("-1~a", "", 0, False),
        ("", "3~a", 1, False),
        ("3~a", "4~b", 1, False),
        ("3~ab", "3~a", 1, False),
    ],
)
def test_versions_of_an_earlier_lineage_are_kept_up_to_each_loss(lineage: str, earlier: str, version: int, kept: bool) -> None:
    assert commit_log.is_kept(lineage, earlier, version) is kept
