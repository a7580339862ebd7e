"""Rows by the texts of one column, of the row groups alone that may hold one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, WriterProperties, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.delta import data_files

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SCHEMA = pa.schema([("labels", pa.list_(pa.string())), ("name", pa.string()), ("number", pa.int64())])
#: Long texts, whose statistics are cut off, and texts whose order differs between UTF-8 and UTF-16.
NAMES = st.one_of(
    st.text(max_size=3).map(lambda text: text.encode("utf-8", "ignore").decode()),
    st.sampled_from(["x" * 70 + end for end in "abc"] + ["\U0010ffff" * 40, "\uffff" * 40, "\ue000", "\U00010000"]),
)


def table_of(path: Path, *files: list[str]) -> DeltaTable:
    for names in files:
        rows = pa.table([[["a", "b"]] * len(names), sorted(names), range(len(names))], schema=SCHEMA)
        write_deltalake(path, rows, mode="append", writer_properties=WriterProperties(max_row_group_size=3))
    return DeltaTable(path)


def counted_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    read, groups = pq.ParquetFile.read_row_group, []

    def counted(self: pq.ParquetFile, group: int, **how: object) -> pa.Table:
        groups.append(group)
        return read(self, group, **how)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    return groups


@given(files=st.lists(st.lists(NAMES, min_size=1, max_size=12), min_size=1, max_size=3), wanted=st.sets(NAMES, max_size=4))
@settings(max_examples=60, deadline=None)
def test_the_rows_are_those_of_a_full_scan(
    files: list[list[str]], wanted: set[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = table_of(tmp_path_factory.mktemp("files") / "table", *files)
    texts = pa.array([*wanted, files[0][0]], pa.string())
    found = data_files.with_texts(table, ["name", "number", "labels"], "name", texts)
    rows = pa.concat_tables([pq.read_table(uri) for uri in table.file_uris()]).select(["name", "number", "labels"])
    expected = rows.filter(pc.is_in(rows["name"].cast(pa.string()), value_set=texts))
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))


def test_row_groups_that_cannot_hold_a_text_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path / "table", [f"a{number:02}" for number in range(30)], [f"b{number:02}" for number in range(30)])
    groups = counted_reads(monkeypatch)
    found = data_files.with_texts(table, ["name"], "name", pa.array(["a10", "a11x", "c"]))
    assert found.to_pylist() == [{"name": "a10"}]
    assert groups == [3]


def test_columns_of_files_and_tables_that_are_older_are_empty(tmp_path: Path) -> None:
    path = tmp_path / "table"
    write_deltalake(path, pa.table({"name": ["old"]}))
    write_deltalake(path, pa.table({"name": ["new"], "number": [1]}), mode="append", schema_mode="merge")
    found = data_files.with_texts(DeltaTable(path), ["name", "number", "later"], "name", pa.array(["old", "new"]))
    assert sorted(found.to_pylist(), key=lambda row: row["name"]) == [
        {"name": "new", "number": 1, "later": None},
        {"name": "old", "number": None, "later": None},
    ]
    (ranged,) = data_files.in_ranges(DeltaTable(path), ["number", "later"], "name", 9)
    assert sorted(map(repr, ranged.to_pylist())) == ["{'number': 1, 'later': None}", "{'number': None, 'later': None}"]
    write_deltalake(path, pa.table({"name": ["newest"], "note": ["x"]}), mode="append", schema_mode="merge")
    by_note = data_files.with_texts(DeltaTable(path), ["name"], "note", pa.array(["x"]))
    assert by_note["name"].to_pylist() == ["newest"], "files without the column have no such row"


def test_files_that_delta_rs_merged_are_read(tmp_path: Path) -> None:
    table = table_of(tmp_path / "table", ["a", "b", "c"])
    changed = pa.table([[["x"]], ["b"], [7]], schema=SCHEMA)
    table.merge(changed, "t.name = s.name", source_alias="s", target_alias="t").when_matched_update_all().execute()
    found = data_files.with_texts(DeltaTable(tmp_path / "table"), SCHEMA.names, "name", pa.array(["b", "c"]))
    assert sorted(found.to_pylist(), key=lambda row: row["name"]) == [
        {"labels": ["x"], "name": "b", "number": 7},
        {"labels": ["a", "b"], "name": "c", "number": 2},
    ]


def test_without_texts_there_are_no_rows(tmp_path: Path) -> None:
    found = data_files.with_texts(table_of(tmp_path / "table", ["a"]), ["name"], "name", pa.array([], pa.string()))
    assert found.schema == pa.schema([("name", pa.string())])
    assert not len(found)


@given(files=st.lists(st.lists(NAMES, min_size=1, max_size=12), min_size=1, max_size=3), at_most=st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_ranges_together_are_the_table_and_equal_texts_are_in_one(
    files: list[list[str]], at_most: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = table_of(tmp_path_factory.mktemp("files") / "table", *files)
    ranges = [piece["name"].to_pylist() for piece in data_files.in_ranges(table, ["number", "name"], "name", at_most)]
    assert sorted(name for of_range in ranges for name in of_range) == sorted(name for names in files for name in names)
    assert sum(len(set(of_range)) for of_range in ranges) == len({name for names in files for name in names})


def test_a_range_reads_the_row_groups_that_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path / "table", [f"a{number:02}" for number in range(30)], [f"a{number:02}" for number in range(30)])
    read, groups = pq.ParquetFile.read_row_groups, []

    def counted(self: pq.ParquetFile, numbers: list[int], **how: object) -> pa.Table:
        groups.extend(numbers)
        return read(self, numbers, **how)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", counted)
    assert [len(piece) for piece in data_files.in_ranges(table, ["name"], "name", 12)] == [12] * 5
    assert len(groups) == 20


def test_rows_without_a_text_are_in_the_first_range(tmp_path: Path) -> None:
    path = tmp_path / "table"
    for name in ("a", None, "b"):
        write_deltalake(path, pa.table({"name": pa.array([name], pa.string())}), mode="append")
    first, second = data_files.in_ranges(DeltaTable(path), ["name"], "name", 1)
    assert {*first["name"].to_pylist()} == {None, "a"}
    assert second["name"].to_pylist() == ["b"]
