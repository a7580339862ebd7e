"""The digest of tables' states: equal for the same state, different after anything that may have changed it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable

from lakehouse.delta import commit_log, row_writer

if TYPE_CHECKING:
    from lakehouse.lake import Lake


def write(path: str, *numbers: int) -> None:
    row_writer.append(path, pa.table({"n": pa.array(numbers, pa.int64())}))


def test_what_was_written_deleted_made_again_or_put_back_is_another_state(lake: Lake, tmp_path: Path) -> None:
    table_path, other = lake.address("ops", "one"), lake.address("ops", "other")
    seen = [commit_log.state_of(lake, [table_path, other])]

    def changed() -> None:
        now = commit_log.state_of(lake, [table_path, other])
        assert now not in seen
        assert now == commit_log.state_of(lake, [table_path, other])
        seen.append(now)

    write(table_path, 1)
    changed()
    write(table_path, 2)
    changed()
    shutil.copytree(table_path, tmp_path / "kept")
    write(table_path, 3)
    changed()
    shutil.rmtree(table_path)
    assert commit_log.state_of(lake, [table_path, other]) == seen[0]
    for number in (1, 2, 3):  # as many commits as there were
        write(table_path, number)
    changed()
    shutil.rmtree(table_path)
    shutil.copytree(tmp_path / "kept", table_path)
    assert commit_log.state_of(lake, [table_path, other]) == seen[2], "put back, it is what it was"
    write(table_path, 4)  # again as many commits, of the same table
    changed()
    write(other, 1)
    changed()


def test_further_arguments_are_part_of_the_digest(lake: Lake) -> None:
    assert commit_log.state_of(lake, [], "a", "b") != commit_log.state_of(lake, [], "a", "c")


def test_a_commit_that_changes_no_row_is_still_another_state(lake: Lake) -> None:
    table_path = lake.address("ops", "one")
    for number in range(3):
        write(table_path, number)
    before = commit_log.state_of(lake, [table_path])
    DeltaTable(table_path).optimize.compact()
    assert commit_log.state_of(lake, [table_path]) != before
