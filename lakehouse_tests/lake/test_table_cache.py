"""What a cache of open tables gives to other processes. Its use by reads is tested in ``test_table_io``."""

from __future__ import annotations

import itertools
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from lakehouse.delta import row_writer
from lakehouse.lake import Lake, Table, table_cache, table_io
from lakehouse.lake import lake as lake_module
from lakehouse.lake.lake import Quiet
from lakehouse.lake.table_cache import Opened, TableCache, look_again
from lakehouse.lake.table_folder import counted_requests
from lakehouse.lake.table_io import CachedStorageOptions, cache_of
from lakehouse.settings import Settings
from lakehouse_tests.support.noted_commits import uncompared
from lakehouse_tests.support.s3_server import BUCKET, Store, s3_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with s3_server(tmp_path_factory.mktemp("store")) as server:
        yield server


def test_options_reach_another_process_with_an_empty_cache(tmp_path: Path) -> None:
    path, options = str(tmp_path / "table"), CachedStorageOptions({"region": "north"}, TableCache())
    row_writer.append(Table(path, options), pa.table({"number": [1]}))
    assert Table(path, options).open() is Table(path, options).open()
    copy = pickle.loads(pickle.dumps(options))
    assert (copy, type(copy)) == ({"region": "north"}, CachedStorageOptions)
    assert cache_of(copy) is not None
    assert Table(path, copy).open() is not Table(path, options).open()
    assert Table(path, copy).version() == 1


def test_an_answer_is_kept_until_the_table_changes(tmp_path: Path) -> None:
    path, options = str(tmp_path / "table"), CachedStorageOptions({}, TableCache())
    computed = 0

    def total() -> list[int]:
        nonlocal computed
        computed += 1
        rows = Table(path, options).read(["number"], None)
        assert rows is not None
        return [sum(rows["number"].to_pylist())]

    answers = []
    for number in (1, 2):
        row_writer.append(Table(path, options), pa.table({"number": [number]}))
        for _ in range(3):
            table = Table(path, options).open()
            assert table is not None
            answers.append(Table(path, options).answer(table, table_io.question(path, None, None, "total"), total))
    assert (answers, computed) == ([[1]] * 3 + [[3]] * 3, 2)
    assert Table(path).answer(table, "total", total) == [3], "without a cache it is computed"


def test_the_log_of_an_open_local_table_is_listed_only_after_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, options = str(tmp_path / "table"), CachedStorageOptions({}, TableCache())
    listed: list[int] = []
    update = DeltaTable.update_incremental
    monkeypatch.setattr(DeltaTable, "update_incremental", lambda table: listed.append(table.version()) or update(table))
    for number in range(3):
        row_writer.append(Table(path), pa.table({"number": [number]}))
    assert [Table(path, options).version() for _ in range(3)] == [3, 3, 3]
    assert listed == []
    row_writer.append(Table(path), pa.table({"number": [3]}))
    assert [Table(path, options).version() for _ in range(3)] == [4, 4, 4]
    assert listed == [3]
    DeltaTable(path).create_checkpoint()
    Path(path, "_delta_log", f"{4:020}.json").unlink()  # cleaned: it is not known what came since
    assert [Table(path, options).version() for _ in range(2)] == [4, 4]
    assert listed == [3, 4], "it was opened again, and is listed from then on"


def test_a_table_that_was_restored_deleted_or_created_again_is_opened_again(tmp_path: Path) -> None:
    path, options = str(tmp_path / "table"), CachedStorageOptions({}, TableCache())

    def numbers() -> list[int] | None:
        rows = Table(path, options).read(["number"], None)
        return None if rows is None else sorted(rows["number"].to_pylist())

    row_writer.append(Table(path, options), pa.table({"number": [1]}))
    shutil.copytree(path, tmp_path / "copy")
    row_writer.append(Table(path, options), pa.table({"number": [2]}))
    assert numbers() == [1, 2]
    shutil.rmtree(path)
    assert numbers() is None
    shutil.copytree(tmp_path / "copy", path)
    assert numbers() == [1]
    row_writer.append(Table(path, options), pa.table({"number": [3]}))
    assert numbers() == [1, 3]
    shutil.rmtree(path)
    row_writer.append(Table(path, options), pa.table({"number": [4]}))
    row_writer.append(Table(path, options), pa.table({"number": [5]}))
    assert numbers() == [4, 5]


def test_each_thread_has_open_tables_of_its_own(tmp_path: Path) -> None:
    path, options = str(tmp_path / "table"), CachedStorageOptions({}, TableCache())
    row_writer.append(Table(path, options), pa.table({"number": [1]}))
    here = Table(path, options).open()
    with ThreadPoolExecutor(1) as other:
        elsewhere = [other.submit(Table(path, options).open).result() for _ in range(2)]
    assert here is Table(path, options).open()
    assert here is not elsewhere[0] is elsewhere[1]


def test_a_step_looks_at_a_table_once_and_again_after_a_commit_or_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, cache = str(tmp_path / "table"), TableCache()
    table = Table(path, CachedStorageOptions({}, cache))
    looked: list[str] = []
    look = TableCache._newest
    monkeypatch.setattr(TableCache, "_newest", lambda self, at, *how: looked.append(at) or look(self, at, *how))
    with cache.step():
        assert [table.version() for _ in range(3)] == [-1, -1, -1], "a table that does not exist is looked at once, too"
        assert len(looked) == 1
        row_writer.append(table, pa.table({"number": [1]}))
        looked.clear()
        with cache.step():
            assert [table.version() for _ in range(3)] == [1, 1, 1]
        assert table.version() == 1, "the inner step belongs to the outer one"
        assert len(looked) <= 1
        looked.clear()
        row_writer.append(Table(str(tmp_path / "other")), pa.table({"number": [1]}))
        assert [table.version() for _ in range(3)] == [1, 1, 1]
        assert not looked, "a commit to another table tells nothing about this one"
        look_again()
        assert [table.version() for _ in range(3)] == [1, 1, 1]
        assert len(looked) == 1
    looked.clear()
    assert [table.version() for _ in range(3)] == [1, 1, 1]
    assert len(looked) == 3, "outside of a step nothing is taken as known"


def test_a_write_that_commits_nothing_is_no_look(tmp_path: Path) -> None:
    table = Table(str(tmp_path / "table"), CachedStorageOptions({}, TableCache(is_of_one_step=True)))
    row_writer.append(table, pa.table({"key": ["k"], "value": ["a"]}))
    held = table.open()
    assert held is not None
    with uncompared():
        write_deltalake(table.address, pa.table({"key": ["k"], "value": ["b"]}), mode="overwrite")
        assert not row_writer.merge(held, pa.table({"key": ["k"], "value": ["a"]}), ["key"])
        assert table.read() == pa.table({"key": ["k"], "value": ["b"]})


@pytest.mark.merge
def test_in_an_object_store_a_table_that_was_removed_or_created_again_is_opened_again(tmp_path: Path) -> None:
    with s3_server(tmp_path) as store:
        lake = Lake(Settings(root=f"s3://{BUCKET}/lake", storage_options=store.options))

        def numbers() -> list[int] | None:
            rows = lake.for_step().table("ops", "log").read()
            return None if rows is None else sorted(rows["number"].to_pylist())

        for number in range(3):
            row_writer.append(lake.table("ops", "log"), pa.table({"number": [number]}))
        assert numbers() == [0, 1, 2]
        store.files().delete_dir(f"{BUCKET}/lake/ops/log")
        assert numbers() is None
        row_writer.append(lake.table("ops", "log"), pa.table({"number": [7]}))
        assert numbers() == [7]


def test_in_an_object_store_a_step_goes_on_with_the_tables_of_earlier_ones_and_sees_new_commits(tmp_path: Path) -> None:
    opened = Opened()
    table = Table(str(tmp_path / "table"))
    row_writer.append(table, pa.table({"number": [1]}))

    def in_a_step() -> tuple[DeltaTable | None, int]:
        read = Table(table.address, CachedStorageOptions({}, TableCache(is_of_one_step=True, opened=opened)))
        return read.open(), read.version()

    first = in_a_step()
    row_writer.append(table, pa.table({"number": [2]}))
    second = in_a_step()
    assert first[0] is second[0]
    assert (first[1], second[1]) == (1, 2)
    store = Lake(Settings(root="s3://bucket/lake"))
    assert store.for_step().cache is not store.for_step().cache
    assert store.for_step().cache._kept.tables is store.for_step().cache._kept.tables
    assert Lake(Settings(root=f"{tmp_path}")).for_step().cache._kept.tables == {}


def test_what_a_step_has_begun_to_open_is_as_new_as_if_it_had_opened_it_and_a_later_step_looks_at_it(tmp_path: Path) -> None:
    tables = [Table(str(tmp_path / name)) for name in ("read", "committed", "left")]
    for table in tables:
        row_writer.append(table, pa.table({"number": [1]}))
    opens, shared = Counter[str](), Opened()

    def open_table(path: str) -> DeltaTable | None:
        opens[Path(path).name] += 1
        return Table(path).snapshot()

    first, second = (TableCache(is_of_one_step=True, opened=shared) for _ in range(2))
    first.expect([*(table.address for table in tables), str(tmp_path / "absent")], open_table)
    while sum(opens.values()) < 4 or not all(coming.opened.done() for coming in shared.coming.values()):
        time.sleep(0.001)
    for table in tables[1:]:
        row_writer.append(table, pa.table({"number": [2]}))
    read, committed, left = (replace(table, options=CachedStorageOptions({}, first)) for table in tables)
    assert (read.version(), committed.version()) == (1, 2)
    assert replace(read, address=str(tmp_path / "absent")).open() is None
    assert replace(left, options=CachedStorageOptions({}, second)).version() == 2
    assert opens == {"read": 1, "committed": 1, "left": 1, "absent": 1}
    assert not shared.coming


def test_what_another_process_commits_is_seen_by_the_next_step_and_where_it_is_looked_for(tmp_path: Path) -> None:
    path, cache = str(tmp_path / "table"), TableCache()
    table = Table(path, CachedStorageOptions({}, cache))
    row_writer.append(table, pa.table({"number": [1]}))
    rows = "pa.table({'number': [2]})"
    script = f"from deltalake import write_deltalake; import pyarrow as pa; write_deltalake({path!r}, {rows}, mode='append')"
    with cache.step():
        assert table.version() == 1
        subprocess.run([sys.executable, "-c", script], check=True)
        assert table.newest_version() == 2
        row_writer.append(table, pa.table({"number": [3]}))
    subprocess.run([sys.executable, "-c", script], check=True)
    with cache.step():
        assert table.version() == 4, "the commit of an earlier step is no look"


#: Another process commits to two tables, the second of which follows from the first, or to the first alone; the step reads one,
#: begins again, expects both, commits to one, or asks that the first is as new as the second.
_FOLLOWING = st.lists(
    st.sampled_from(["other", "other", "other source", "read source", "read target", "own source", "own target", "again", "ask"]),
    max_size=14,
)


@examples(max_examples=60, deadline=None)
@given(_FOLLOWING, st.booleans())
def test_what_is_read_after_a_newest_version_is_as_new_as_it(events: list[str], snapshot: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _follow(events, folder, {}, snapshot=snapshot)


@examples(max_examples=15, deadline=None)
@given(events=_FOLLOWING, snapshot=st.booleans())
def test_the_same_in_an_object_store(store: Store, events: list[str], snapshot: bool) -> None:
    _follow(events, f"s3://{BUCKET}/{next(_NUMBERS)}", store.options, snapshot=snapshot)


def _follow(events: list[str], folder: str, options: Mapping[str, str], *, snapshot: bool) -> None:
    cache = TableCache()
    source, target = (Table(f"{folder}/{layer}/t", CachedStorageOptions(options, cache)) for layer in ("ops", "gold"))
    for table in (source, target):
        row_writer.append(table, pa.table({"follows": [0]}))

    def newest(table: Table) -> int:
        return DeltaTable(table.address, storage_options=dict(options)).version()

    def by_other(table: Table, version: int = 0) -> None:
        rows = pa.table({"follows": [version]})
        write_deltalake(table.address, rows, mode="append", storage_options=dict(options))

    def begin_again() -> None:
        steps.close()
        steps.enter_context(cache.step())
        cache.expect([source.address, target.address], lambda path: Table(path, options).snapshot())

    def ask() -> None:
        table = target.newest_snapshot() if snapshot else None
        assert table is not None or target.newest_version() == newest(target)
        rows = target.read() if table is None else table_io.read_version(table)
        assert len(rows) == newest(target)
        assert source.version() >= max(rows["follows"].to_pylist())

    done = {
        "other": lambda: (by_other(source), by_other(target, newest(source))),
        "other source": lambda: by_other(source),
        "read source": source.version,
        "read target": target.version,
        "own source": lambda: row_writer.append(source, pa.table({"follows": [0]})),
        "own target": lambda: row_writer.append(target, pa.table({"follows": [source.version()]})),
        "again": begin_again,
        "ask": ask,
    }
    with ExitStack() as steps, uncompared():
        steps.enter_context(cache.step())
        for event in [*events, "ask"]:
            done[event]()


def test_a_step_looks_at_open_tables_at_once_and_as_often_as_one_that_did_not_expect_them(store: Store) -> None:
    cache, root = TableCache(), f"s3://{BUCKET}/{next(_NUMBERS)}"
    options = CachedStorageOptions(store.options, cache)
    tables = [Table(f"{root}/ops/{name}", options) for name in ("read", "changed", "committed", "left")]
    for table in tables:
        row_writer.append(table, pa.table({"number": [1]}))
    read, changed, committed, left = tables
    write_deltalake(changed.address, pa.table({"number": [2]}), mode="append", storage_options=store.options)
    with cache.step(), counted_requests() as requests:
        cache.expect([table.address for table in tables], lambda path: pytest.fail(f"{path} is open"))
        assert [table.version() for table in (read, changed, committed)] == [1, 2, 1]
        row_writer.append(committed, pa.table({"number": [2]}))
        write_deltalake(left.address, pa.table({"number": [2]}), mode="append", storage_options=store.options)
    assert [requests[f"ops/{name}"]["listings"] for name in ("read", "changed", "committed")] == [1, 1, 1]
    with cache.step():
        assert [table.version() for table in (committed, left)] == [2, 2], "what a step has not read, the next one looks at"


def test_the_cache_of_one_step_is_in_a_step_from_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Lake(Settings(root=str(tmp_path))).for_step().table("ops", "log")
    row_writer.append(table, pa.table({"number": [1]}))
    looked: list[str] = []
    look = TableCache._newest
    monkeypatch.setattr(TableCache, "_newest", lambda self, at, *how: looked.append(at) or look(self, at, *how))
    assert [table.version() for _ in range(3)] == [1, 1, 1]
    assert len(looked) <= 1


_QUIET_EVENTS = st.one_of(
    st.tuples(st.sampled_from(["look", "find"]), st.sampled_from(["gold/a", "gold/b", "ops/c"])),
    st.tuples(st.just("sign"), st.sampled_from(["one", "two", None])),
    st.tuples(st.just("seconds"), st.integers(1, 400)),
    st.just(("commit", None)),
)


@given(st.lists(_QUIET_EVENTS, max_size=30))
def test_a_quiet_holds_for_what_was_looked_at_since_anybody_may_have_written(history: list[tuple[str, object]]) -> None:
    clock, sign, moment = 0.0, None, 0
    looks: dict[object, tuple[object, int, float]] = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lake_module.time, "monotonic", lambda: clock)
        quiet = Quiet(lambda path: path.startswith("gold/"), 300.0)
        for event, of in history:
            if event in {"look", "find"}:
                quiet.looked(str(of), table_cache.newest_moment(), is_new=event == "find")
                looks = {} if event == "find" else looks
                if sign is not None and str(of).startswith("gold/"):
                    looks[of] = (sign, moment, clock)
            elif event == "sign":
                sign, looks = of, looks if of else {}
                quiet.is_at(of)  # type: ignore[arg-type]
            elif event == "commit":
                look_again()
                moment += 1
            else:
                clock += int(str(of))
            for path in ("gold/a", "gold/b", "ops/c"):
                since = looks.get(path)
                known = since is not None and since[:2] == (sign, moment) and clock - since[2] < 300
                assert quiet.holds(path) == known


def test_a_cache_with_a_quiet_sees_commits_when_it_ends(tmp_path: Path) -> None:
    path, other = str(tmp_path / "gold"), str(tmp_path / "ops")
    quiet = Quiet(lambda address: address == path, 300.0)
    options = CachedStorageOptions({}, TableCache(quiet=quiet))

    def commit(to: str) -> None:
        write_deltalake(to, pa.table({"number": [1]}), mode="append")

    with uncompared():
        commit(path)
        commit(other)
        quiet.is_at("run 1")
        assert Table(other, options).version() == 0
        assert [Table(other, options).version(), Table(path, options).version()] == [0, 0]
        commit(path)
        assert Table(path, options).version() == 0
        quiet.is_at("run 2")
        assert Table(path, options).version() == 1, "a run has ended"
        commit(path)
        commit(other)
        assert [Table(path, options).version(), Table(other, options).version()] == [1, 1], "other tables are looked at"
        assert Table(path, options).version() == 2, "and what is new there ends the quiet"
        commit(path)
        assert Table(path, options).newest_version() == 3, "as after each conflict"
        commit(path)
        quiet.is_at(None)
        assert Table(path, options).version() == 4, "a run is in progress"
