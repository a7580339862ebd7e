"""The digest of tables' states: equal for the same state, different after anything that may have changed it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable

from lakehouse.delta import commit_log, row_writer

if TYPE_CHECKING:
    from lakehouse.lake import Lake, Table


def write(table: Table, *numbers: int) -> None:
    row_writer.append(table, pa.table({"n": pa.array(numbers, pa.int64())}))


def test_what_was_written_deleted_made_again_or_put_back_is_another_state(lake: Lake, tmp_path: Path) -> None:
    table_table, other = lake.table("ops", "one"), lake.table("ops", "other")
    seen = [commit_log.state_of([table_table, other])]

    def changed() -> None:
        now = commit_log.state_of([table_table, other])
        assert now not in seen
        assert now == commit_log.state_of([table_table, other])
        seen.append(now)

    write(table_table, 1)
    changed()
    write(table_table, 2)
    changed()
    shutil.copytree(table_table.address, tmp_path / "kept")
    write(table_table, 3)
    changed()
    shutil.rmtree(table_table.address)
    assert commit_log.state_of([table_table, other]) == seen[0]
    for number in (1, 2, 3):  # as many commits as there were
        write(table_table, number)
    changed()
    shutil.rmtree(table_table.address)
    shutil.copytree(tmp_path / "kept", table_table.address)
    assert commit_log.state_of([table_table, other]) == seen[2], "put back, it is what it was"
    write(table_table, 4)  # again as many commits, of the same table
    changed()
    write(other, 1)
    changed()


def test_further_arguments_are_part_of_the_digest(lake: Lake) -> None:
    assert commit_log.state_of([], "a", "b") != commit_log.state_of([], "a", "c")


def test_a_commit_that_changes_no_row_is_still_another_state(lake: Lake) -> None:
    table_table = lake.table("ops", "one")
    for number in range(3):
        write(table_table, number)
    before = commit_log.state_of([table_table])
    DeltaTable(table_table.address).optimize.compact()
    assert commit_log.state_of([table_table]) != before
