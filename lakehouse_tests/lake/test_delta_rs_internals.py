"""The files of an open table are listed once per version, and never those of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lakehouse.lake.delta_rs_internals import listed_files

if TYPE_CHECKING:
    from pathlib import Path

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
