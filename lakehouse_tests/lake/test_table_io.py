"""The ledger's reading and appending, without Spark."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, WriterProperties, write_deltalake
from deltalake.fs import DeltaStorageHandler
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from lakehouse.delta import commit_log, row_writer
from lakehouse.lake import Lake, Table, table_io, table_parts
from lakehouse.lake.table_cache import TableCache, look_again
from lakehouse.settings import Settings
from lakehouse_tests.support.small_pieces import pieces_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def rows(*numbers: int) -> pa.Table:
    return pa.table({"number": pa.array(numbers, pa.int64()), "source": ["s"] * len(numbers)})


def test_a_missing_table_is_told_apart_from_an_empty_one(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    assert Table(path).read() is None
    row_writer.append(Table(path), rows())
    found = Table(path).read()
    assert found is not None
    assert len(found) == 0


def test_the_same_application_appends_once(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    assert row_writer.append(Table(path), rows(1), once=row_writer.Once("first"))
    assert not row_writer.append(Table(path), rows(1), once=row_writer.Once("first"))
    assert row_writer.append(Table(path), rows(2), once=row_writer.Once("second"))
    assert sorted(Table(path).read()["number"].to_pylist()) == [1, 2]


def test_reused_tables_see_each_new_commit(tmp_path: Path) -> None:
    path, options = str(tmp_path / "table"), Lake(Settings()).cached().storage_options
    assert Table(path, options).read() is None
    for number in range(3):
        row_writer.append(Table(path), rows(number))
        for _ in range(2):
            found = Table(path, options).read(["number"], {"source": ["s"]})
            assert sorted(found["number"].to_pylist()) == list(range(number + 1))
            assert len(Table(path, options).read(["number"], {"number": [0]})) == 1, "each question has its own answer"


def test_a_cache_is_used_by_those_alone_who_were_handed_it(tmp_path: Path) -> None:
    lake, path = Lake(Settings()), str(tmp_path / "table")
    row_writer.append(Table(path), rows(1))
    cached = lake.cached()
    assert Table(path, cached.storage_options).open() is Table(path, cached.storage_options).open()
    assert Table(path, lake.storage_options).open() is not Table(path, lake.storage_options).open()
    assert Table(path, cached.storage_options).read() is Table(path, cached.storage_options).read()
    assert cached.cached() is cached, "a callee goes on with its caller's"
    other = cached.cached(TableCache())
    assert Table(path, other.storage_options).open() is not Table(path, cached.storage_options).open()
    assert Table(path, cached.storage_options).snapshot() is not Table(path, cached.storage_options).open()


def test_many_small_appends_are_put_together(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    for number in range(70):
        row_writer.append(Table(path), rows(number), partition_by=["source"])
    table = Table(path).open()
    assert table is not None
    assert len(table.file_uris()) < 10
    assert sorted(Table(path).read()["number"].to_pylist()) == list(range(70))


def test_commits_have_their_own_numbers_also_where_others_have_committed_since(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    for number in range(3):
        row_writer.append(Table(path), rows(number))
    early = Table(path).snapshot()
    assert early is not None
    times = {commit["version"]: commit["timestamp"] for commit in commit_log.history(early, -1)}
    assert list(times) == [3, 2, 1, 0]
    for number in range(3):
        row_writer.append(Table(path), rows(number))
    assert {commit["version"]: commit["timestamp"] for commit in commit_log.history(early, -1)} == times
    assert [commit["version"] for commit in commit_log.history(early, 2)] == [3]
    assert commit_log.history(early, 3) == []
    newest = Table(path).open()
    assert newest is not None
    assert [commit["version"] for commit in commit_log.history(newest, 3)] == [6, 5, 4]


def test_an_append_that_continues_is_refused_where_another_run_was_quicker(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    assert row_writer.append(Table(path), rows(1, 2), once=row_writer.Once("follows", 2, 0))
    assert not row_writer.append(Table(path), rows(1, 2, 3), once=row_writer.Once("follows", 3, 0))
    assert row_writer.append(Table(path), rows(3), once=row_writer.Once("follows", 3, 2))
    assert sorted(Table(path).read()["number"].to_pylist()) == [1, 2, 3]


PIECES = pa.schema([("number", pa.int64()), ("name", pa.string()), ("day", pa.date32())])


@given(
    files=st.lists(
        st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abc")), min_size=1, max_size=9), min_size=1, max_size=4
    ),
    wanted=st.none() | st.sets(st.sampled_from("abcd")),
    days=st.none() | st.sets(st.none() | st.dates(date(2024, 2, 27), date(2024, 3, 3)), min_size=1),
    size=st.integers(1, 6),
)
@examples(max_examples=100, deadline=None)
def test_pieces_together_are_the_table(
    files: list[list[tuple[int, str]]],
    wanted: set[str] | None,
    days: set[date | None] | None,
    size: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The day of a row is given by its number; 5 has none. A file has row groups of two rows, of which those of other days are
    not read.
    """
    path = str(tmp_path_factory.mktemp("lake") / "table")
    for number, file in enumerate(sorted(file) for file in files):
        rows = [
            {"number": of, "name": name, "day": date(2024, 2, 27) + timedelta(days=of) if of < 5 else None} for of, name in file
        ]
        content = pa.Table.from_pylist(rows, schema=PIECES)
        if number == 1:
            content = content.append_column("later", pa.repeat("x", len(content)))
        in_groups = WriterProperties(max_row_group_size=2)
        write_deltalake(path, content, mode="append", schema_mode="merge", writer_properties=in_groups)
    if size == 3:  # delta-rs's own MERGE writes string views
        row_writer.upsert(Table(path), pa.table({"number": [9], "name": ["a"]}), ["number"])
    where = {} if wanted is None else {"name": sorted(wanted)}
    columns = ["number", "later", "nowhere"]
    of_names = Table(path).read([*columns, "day"], where)
    assert of_names is not None
    expected = [row for row in of_names.to_pylist() if row.pop("day") in days] if days is not None else of_names.to_pylist()
    expected = [{name: row[name] for name in columns} for row in expected]
    with pieces_of(size):
        parts = list(Table(path).pieces(columns, where if days is None else {**where, "day": days}))
        kinds = Table(path).distinct(["name"], where)
    assert sorted(map(repr, expected)) == sorted(repr(row) for part in parts for row in part.to_pylist())
    assert parts
    assert all(part.column_names == columns for part in parts)
    named = {name for file in files for _, name in file} | ({"a"} if size == 3 else set())
    assert {*([] if kinds is None else kinds["name"].to_pylist())} == (named if wanted is None else named & wanted)


TYPED = pa.schema([("part", pa.string()), ("day", pa.date32()), ("text", pa.string()), ("at", pa.timestamp("us", "UTC"))])
PARTS = st.sampled_from(["a", "b c", "x=1/2", "ü%20", None])
DAYS = st.none() | st.dates(date(2024, 2, 27), date(2024, 3, 2))
TEXTS = st.none() | st.sampled_from(
    ["", "a", "zz", "\U0001f600", "\uffff", "k" * 40, "k" * 40 + "a", "k" * 31 + "\U0001f600" * 9]
)
NOON = datetime(2024, 3, 1, 12, tzinfo=timezone.utc)
TIMES = st.none() | st.integers(0, 2_000_000).map(lambda microseconds: NOON + timedelta(microseconds=microseconds))


@given(
    files=st.lists(st.lists(st.tuples(PARTS, DAYS, TEXTS, TIMES), min_size=1, max_size=4), min_size=1, max_size=4),
    where=st.fixed_dictionaries(
        {}, optional={"part": st.sets(PARTS), "day": st.sets(DAYS), "text": st.sets(TEXTS), "at": st.sets(TIMES)}
    ),
    own_time=st.booleans(),
)
@examples(max_examples=80, deadline=None)
def test_files_that_are_left_out_hold_no_wanted_row(
    files: list[list[tuple[Any, ...]]], where: dict[str, set[Any]], own_time: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = str(tmp_path_factory.mktemp("lake") / "table")
    for file in files:
        content = pa.Table.from_pylist([dict(zip(TYPED.names, row)) for row in file], schema=TYPED)
        write_deltalake(path, content, mode="append", partition_by=["part"])
    if own_time:
        where = {**where, "at": {file[0][3] for file in files}}
    found = Table(path).read(None, {column: list(values) for column, values in where.items()})
    rows = [dict(zip(TYPED.names, row)) for file in files for row in file]
    wanted = [row for row in rows if all(row[column] in values for column, values in where.items())]
    assert found is not None
    assert sorted(map(repr, found.select(TYPED.names).to_pylist())) == sorted(
        map(repr, pa.Table.from_pylist(wanted, schema=TYPED).to_pylist())
    )


def test_files_are_chosen_by_partitions_days_and_texts(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    for number in range(1, 5):
        content = pa.table({"part": [f"p{number % 2}"], "day": [date(2024, 3, number)], "text": [f"t{number}"]})
        write_deltalake(path, content, mode="append", partition_by=["part"])
    table = Table(path).open()
    assert table is not None
    assert [
        table_io.rows_at_most(table, where)
        for where in (
            {},
            {"part": ["p1"]},
            {"day": [date(2024, 3, 2), date(2024, 3, 9)]},
            {"text": pa.array(["t1", "t3", "t30"])},
            {"part": ["p0"], "text": ["t1"]},
            {"day": []},
        )
    ] == [4, 2, 1, 2, 0, 0]


def test_a_table_that_does_not_exist_has_no_pieces(tmp_path: Path) -> None:
    assert list(Table(str(tmp_path / "none")).pieces(["number"])) == []
    assert Table(str(tmp_path / "none")).distinct(["number"]) is None


def test_rows_are_counted_by_partition_from_the_log(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    for numbers in ((1, 2), (2, 2, 3)):
        row_writer.append(Table(path), rows(*numbers), partition_by=["number"])
    table = Table(path).open()
    assert table is not None
    assert table_parts.rows(table) == {1: 1, 2: 3, 3: 1}


def test_in_a_store_a_listing_tells_which_tables_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed, clock = list[str](), [0.0]

    class Recorded(DeltaStorageHandler):
        def __init__(self, folder: str, options: dict[str, str]) -> None:
            super().__init__(folder, options)
            listed.append(folder.rpartition("/")[2])

    monkeypatch.setattr(table_io, "DeltaStorageHandler", Recorded)
    monkeypatch.setattr(table_io.time, "monotonic", lambda: clock[0])
    for layer in ("ops", "gold"):
        (tmp_path / layer).mkdir()
    first, second = f"{tmp_path}/ops/one", f"{tmp_path}/ops/other"
    assert [table_io.open_listed(address) for address in (first, second, f"{tmp_path}/gold/one")] == [None, None, None]
    assert listed == ["ops", "gold"], "one listing for all tables of a layer"
    write_deltalake(first, pa.table({"number": [1]}))
    assert table_io.open_listed(first) is None, "some seconds later"
    clock[0] = 15.0
    assert table_io.open_listed(first) is not None
    write_deltalake(second, pa.table({"number": [1]}))
    look_again()
    assert table_io.open_listed(second) is not None, "at once if this process looks again"
    assert listed == ["ops", "gold", "ops", "ops"]
    created = f"{tmp_path}/ops/created"
    assert table_io.open_listed(created) is None
    row_writer.append(Table(created), rows(1))
    assert table_io.open_listed(created) is not None, "at once if this process has created it"
    assert listed == ["ops", "gold", "ops", "ops"]


def test_where_a_store_lets_nobody_list_tables_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(table_io, "DeltaStorageHandler", denied)
    write_deltalake(f"{tmp_path}/one", pa.table({"number": [1]}))
    assert table_io.open_listed(f"{tmp_path}/one") is not None
    assert table_io.open_listed(f"{tmp_path}/other") is None


def test_a_column_is_filled_where_the_log_counts_no_null_in_any_file(tmp_path: Path) -> None:
    path = tmp_path / "table"
    for rows in ({"name": ["a"], "number": [1]}, {"name": ["b", None], "number": [2, 3]}):
        write_deltalake(path, pa.table(rows), mode="append")
    files = table_io.files_with(DeltaTable(path), {})
    assert table_io.is_filled(files, "number")
    assert not table_io.is_filled(files, "name")
    assert not table_io.is_filled(files, "unknown")
    write_deltalake(path, pa.table({"name": ["c"], "later": [1]}), mode="append", schema_mode="merge")
    files = table_io.files_with(DeltaTable(path), {})
    assert not table_io.is_filled(files, "later"), "older files do not have the column"
    assert not table_io.is_filled(files, "number"), "nor does the newest one have this one"
