"""A file of rows appears complete or not at all, and never in place of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.snapshots import rows
from lakehouse.snapshots.rows import ExportError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def pieces(*numbers: int) -> Iterator[pa.Table]:
    for number in numbers:
        yield pa.table({"number": pa.array([number, None], pa.int64())})


def test_pieces_become_one_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    assert rows.write_file(pieces(1, 2, 3), path) == 6
    assert pq.read_table(path)["number"].to_pylist() == [1, None, 2, None, 3, None]
    assert [file.name for file in tmp_path.iterdir()] == ["rows.parquet"]


@pytest.mark.parametrize("ending", rows.ENDINGS)
def test_a_stopped_write_leaves_no_file_that_looks_complete(tmp_path: Path, ending: str) -> None:
    def failing() -> Iterator[pa.Table]:
        yield from pieces(1)
        msg = "the disk is full"
        raise OSError(msg)

    path = tmp_path / f"rows{ending}"
    with pytest.raises(Exception, match="the disk is full"):
        rows.write_file(failing(), path)
    assert not (path / "_delta_log").exists()
    assert [file for file in tmp_path.iterdir() if file.is_file()] == []


def test_nothing_to_write_is_no_file(tmp_path: Path) -> None:
    assert rows.write_file(iter(()), tmp_path / "rows.csv") == 0
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_cannot_be_written_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "taken.csv").write_text("mine")
    for name, sentence in {
        "rows.xlsx": "has to end in .parquet, .csv or .delta",
        "taken.csv": "is not overwritten: choose another name",
        "missing/rows.csv": "does not exist; create it first",
    }.items():
        with pytest.raises(ExportError, match=sentence):
            rows.write_file(pieces(1), tmp_path / name)
    assert (tmp_path / "taken.csv").read_text() == "mine"
