"""A table of an object store that is used through a replica of its log is the table that delta-rs reads and writes by itself."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from obstore.exceptions import GenericError
from pyarrow import fs

from lakehouse.delta import commit_log
from lakehouse.lake import replica, table_folder, table_io
from lakehouse.lake.delta_rs_internals import has_replica, listed_files, raw_of, sizes_of_files
from lakehouse.lake.table_folder import TableFolder, counted_requests
from lakehouse_tests.support.s3_server import BUCKET, Store, s3_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SCHEMA = pa.schema([("day", pa.int64()), ("key", pa.string())])
PROPERTIES = {"delta.checkpointInterval": "3", "delta.enableChangeDataFeed": "true"}
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with s3_server(tmp_path_factory.mktemp("store")) as server:
        yield server


@pytest.fixture(autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{folder}")
    table_folder._work_folders.cache_clear()
    yield folder / "lakehouse"
    table_folder._work_folders.cache_clear()


def rows_of(*rows: tuple[int, str]) -> pa.Table:
    return pa.Table.from_pylist([{"day": day, "key": key} for day, key in rows], schema=SCHEMA)


def in_threads(do: Callable[[int], None], count: int) -> None:
    """Do something in some threads at once, each with its number."""
    with ThreadPoolExecutor(count) as threads:
        list(threads.map(do, range(count), timeout=120))


class OfStore:
    """A table of the store: as a replica has it, and as delta-rs does."""

    def __init__(self, store: Store) -> None:
        self.address, self.options = f"s3://{BUCKET}/lake/ops/t{next(NUMBERS)}", store.options
        self.store = store

    def create(self) -> DeltaTable:
        table = table_io.create(self.address, self.options, schema=SCHEMA, configuration=PROPERTIES)
        assert has_replica(table)
        return table

    def opened(self) -> DeltaTable:
        table = table_io.open_snapshot(self.address, self.options)
        assert table is not None
        assert has_replica(table)
        return table

    def native(self) -> DeltaTable:
        return DeltaTable(self.address, storage_options=self.options)

    def remove(self) -> None:
        self.store.files().delete_dir(self.address.partition("://")[2])

    def copied_to(self, folder: str) -> None:
        files, path = self.store.files(), self.address.partition("://")[2]
        for info in files.get_file_info(fs.FileSelector(path, recursive=True)):
            if info.is_file:
                self.store.put(f"{folder}{info.path.removeprefix(path)}", files.open_input_stream(info.path).read())


def rows_in(table: DeltaTable) -> Counter[tuple[int, str]]:
    return Counter((row["day"], row["key"]) for row in table_io.read_version(table).to_pylist())


def rows_of_native(of_store: OfStore) -> Counter[tuple[int, str]]:
    """The rows as delta-rs reads them, too, without a part of this project."""
    rows = of_store.native().to_pyarrow_table()
    return Counter((row["day"], row["key"]) for row in rows.to_pylist())


def feed_in(table: DeltaTable) -> Counter[tuple[Any, ...]]:
    feed = pa.table(table.load_cdf(starting_version=0))
    return Counter((row["day"], row["key"], row["_change_type"], row["_commit_version"]) for row in feed.to_pylist())


#: What one of the open tables does: a replica, another one, or delta-rs by itself.
_OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["one", "other", "native"]),
        st.sampled_from(
            ["append", "append", "once", "replace", "replace near", "delete", "merge", "merge near", "look", "compact"]
        ),
        st.integers(0, 3),
    ),
    max_size=12,
)


def _done(table: DeltaTable, act: str, new: tuple[int, str], model: Counter[tuple[int, str]]) -> Counter[tuple[int, str]]:
    """Do something with the table; returns its rows afterwards."""
    day = new[0]
    replaced = Counter({row: count for row, count in model.items() if row[0] == day})
    if act in {"delete", "merge"} or (act.startswith("merge") and not has_replica(table)):
        table.update_incremental()  # a row that was not known is not deleted
    if act.endswith("near"):
        table_io.bring(table, {"day": [day]} if act.startswith("replace") else None)
    if act in {"append", "once"}:
        why = CommitProperties(app_transactions=[Transaction(f"once {day}", 1)] if act == "once" else None)
        write_deltalake(table, rows_of(new), mode="append", commit_properties=why)
        return model + Counter([new])
    if act.startswith("replace"):
        write_deltalake(table, rows_of(new), mode="overwrite", predicate=f"day = {day}")
        return model - replaced + Counter([new])
    if act == "delete":
        table.delete(f"day = {day}")
        return model - replaced
    if act.startswith("merge"):
        merging = table.merge(rows_of(new), f"t.day = s.day AND s.day = {day}", source_alias="s", target_alias="t")
        merging.when_matched_delete().when_not_matched_insert_all().execute()
        return model - replaced if replaced else model + Counter([new])
    if act == "compact":
        table.optimize.compact()
    else:
        table.update_incremental()
    return model


@pytest.mark.merge
@examples(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_OPERATIONS)
def test_any_history_of_several_writers_is_the_one_that_delta_rs_reads(store: Store, history: list[tuple[str, str, int]]) -> None:
    of_store, model, names = OfStore(store), Counter[tuple[int, str]](), itertools.count()
    tables = {"one": of_store.create()}
    tables |= {"other": of_store.opened(), "native": of_store.native()}
    native = of_store.native()
    for who, act, day in history:
        before = tables[who].version()
        try:
            model = _done(tables[who], act, (day, f"{next(names)}"), model)
        except CommitFailedError:
            assert before < of_store.native().version(), "nobody else has committed"
            tables[who] = of_store.native() if who == "native" else of_store.opened()
        native = of_store.native()
        assert rows_in(native) == model
    for name in ("one", "other"):
        tables[name].update_incremental()
        assert tables[name].version() == native.version()
        assert rows_in(tables[name]) == model
        assert feed_in(tables[name]) == feed_in(native)
        assert commit_log.history(tables[name], -1) == native.history()
        assert tables[name].metadata().id == native.metadata().id
        known = [native.transaction_version(f"once {day}") for day in range(4)]
        assert [tables[name].transaction_version(f"once {day}") for day in range(4)] == known


@pytest.mark.merge
def test_a_commit_and_a_look_take_few_requests(store: Store) -> None:
    of_store = OfStore(store)
    with counted_requests() as requests:
        table = of_store.create()
        write_deltalake(table, rows_of((1, "a")), mode="append")
    assert [*requests.values()] == [{"listings": 1, "writes": 3}], "the entries, and one data file"
    with counted_requests() as requests:
        assert rows_in(of_store.opened()) == {(1, "a"): 1}
    assert [*requests.values()] == [{"opens": 1, "listings": 1}], "this machine knows the entries, and the rows of its books"
    write_deltalake(of_store.native(), rows_of((1, "b")), mode="append")
    with counted_requests() as requests:
        table.update_incremental()
    assert [*requests.values()] == [{"listings": 1, "log entries": 1}]


@pytest.mark.merge
@pytest.mark.parametrize("is_known", [True, False])
def test_a_table_in_the_place_of_another_one_is_opened_again(store: Store, cache_folder: Path, *, is_known: bool) -> None:
    of_store, copy = OfStore(store), f"lake/copies/{next(NUMBERS)}"
    table = of_store.create()
    write_deltalake(table, rows_of((1, "a")), mode="append")
    of_store.copied_to(copy)
    write_deltalake(table, rows_of((1, "b")), mode="append")
    if not is_known:
        shutil.rmtree(cache_folder / "logs")
    of_store.remove()
    assert table_io.open_snapshot(of_store.address, of_store.options) is None
    of_copy = OfStore(store)
    of_copy.address = f"s3://{BUCKET}/{copy}"
    of_copy.copied_to(of_store.address.partition(f"{BUCKET}/")[2])
    write_deltalake(of_store.native(), rows_of((1, "c")), mode="append")  # it has the version of the lost commit
    assert rows_in(of_store.opened()) == {(1, "a"): 1, (1, "c"): 1}
    with pytest.raises(DeltaError, match="another table, or an earlier state of it"):
        table.update_incremental()


@pytest.mark.merge
def test_what_is_kept_of_a_history_is_forgotten_with_the_first_entry_of_another_one(store: Store) -> None:
    """The table is restored from a copy whose files keep their ETags, and a process that knows the copy goes on with it."""
    of_store, files = OfStore(store), store.files()
    table, path = of_store.create(), of_store.address.partition("://")[2]
    for number in range(3):
        write_deltalake(table, rows_of((number, "a")), mode="append")
    idle = of_store.opened()
    infos = [info for info in files.get_file_info(fs.FileSelector(path, recursive=True)) if info.is_file]
    copy = {info.path.removeprefix(f"{path}/"): files.open_input_stream(info.path).read() for info in infos}
    for number in range(3, 14):  # this machine keeps its checkpoints, too
        write_deltalake(table, rows_of((number, "lost")), mode="append")
    of_store.remove()
    for name, content in copy.items():
        TableFolder(of_store.address, store.options).put(name, content)
    for number in range(3, 17):
        write_deltalake(of_store.native(), rows_of((number, "b")), mode="append")
    idle.update_incremental()
    expected = Counter({(number, "a"): 1 for number in range(3)} | {(number, "b"): 1 for number in range(3, 17)})
    assert rows_in(idle) == rows_in(of_store.opened()) == rows_of_native(of_store) == expected


def failing(put_new: Callable[..., str | None], *, first: bool) -> Callable[..., str | None]:
    """A request whose answer is lost: before the store has got it, or afterwards, and repeated."""
    left = [True]

    def put(folder: TableFolder, name: str, content: bytes) -> str | None:
        if left and left.pop():
            if first:
                msg = "the store does not answer"
                raise GenericError(msg)
            put_new(folder, name, content)
        return put_new(folder, name, content)

    return put


@pytest.mark.merge
def test_after_a_request_that_failed_the_table_is_as_before_and_is_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    of_store = OfStore(store)
    table = of_store.create()
    with monkeypatch.context() as patched:
        patched.setattr(TableFolder, "put_new", failing(TableFolder.put_new, first=True))
        with pytest.raises(OSError, match="the store does not answer"):
            write_deltalake(table, rows_of((1, "a")), mode="append")
        assert (table.version(), rows_in(table), of_store.native().version()) == (0, {}, 0)
        write_deltalake(table, rows_of((1, "b")), mode="append")
    assert rows_in(table) == rows_in(of_store.native()) == {(1, "b"): 1}


@pytest.mark.merge
def test_a_commit_whose_answer_was_lost_is_recognized(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    of_store = OfStore(store)
    table = of_store.create()
    with monkeypatch.context() as patched:
        patched.setattr(TableFolder, "put_new", failing(TableFolder.put_new, first=False))
        write_deltalake(table, rows_of((1, "a")), mode="append")
    write_deltalake(table, rows_of((1, "b")), mode="append")
    assert rows_in(table) == rows_in(of_store.native()) == {(1, "a"): 1, (1, "b"): 1}
    assert table.version() == of_store.native().version() == 2


@pytest.mark.merge
def test_a_commit_to_a_table_that_was_created_again_proves_no_log(store: Store) -> None:
    of_store = OfStore(store)
    stale = of_store.create()
    write_deltalake(stale, rows_of((1, "former")), mode="append")
    of_store.remove()
    write_deltalake(of_store.address, rows_of((2, "new")), mode="append", storage_options=store.options)
    write_deltalake(of_store.native(), rows_of((2, "newer")), mode="append")
    for number in range(6):  # also a checkpoint is due
        write_deltalake(stale, rows_of((3, f"{number}")), mode="append")
        assert rows_in(of_store.opened()) == rows_in(of_store.native())
        stale = of_store.opened() if number else stale
    assert {(2, "new"), (2, "newer")} <= {*rows_in(of_store.native())}
    assert (1, "former") not in rows_in(of_store.native())


@pytest.mark.merge
@pytest.mark.parametrize("left", [0, 20])
def test_a_kept_file_that_a_power_failure_has_cut_off_is_read_again(store: Store, cache_folder: Path, left: int) -> None:
    of_store = OfStore(store)
    table = of_store.create()
    for number in range(8):
        write_deltalake(table, rows_of((number, "a")), mode="append")
    for kept in [*cache_folder.glob("logs/*/*/*"), *cache_folder.glob("files/*/*")]:
        kept.write_bytes(kept.read_bytes()[:left])
    table_folder._small_files.clear()
    again = of_store.opened()
    assert rows_in(again) == rows_in(of_store.native()) == Counter((number, "a") for number in range(8))
    for number in range(8, 12):
        write_deltalake(again, rows_of((number, "a")), mode="append")
    assert len(rows_in(of_store.native())) == 12


@pytest.mark.merge
def test_equal_commits_of_two_threads_are_two(store: Store) -> None:
    of_store, done, together = OfStore(store), list[int](), threading.Barrier(2)
    of_store.create()
    why = CommitProperties({"userMetadata": "{}"}, app_transactions=[Transaction("only one", 1)], max_commit_retries=0)

    def commit(number: int) -> None:
        table = of_store.opened()
        together.wait(timeout=60)
        with suppress(CommitFailedError):
            write_deltalake(table, rows_of(), mode="append", commit_properties=why)
            done.append(number)

    in_threads(commit, 2)
    assert len(done) == 1
    assert of_store.native().version() == 1


@pytest.mark.merge
def test_after_a_lost_answer_commits_of_others_are_seen(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    of_store = OfStore(store)
    table, other = of_store.create(), of_store.native()
    put_new = TableFolder.put_new

    def lost(folder: TableFolder, name: str, content: bytes) -> str | None:
        put_new(folder, name, content)
        for key in "bc":
            write_deltalake(other, rows_of((1, key)), mode="append")
        return put_new(folder, name, content)

    with monkeypatch.context() as patched:
        patched.setattr(TableFolder, "put_new", lost)
        write_deltalake(table, rows_of((1, "a")), mode="append")
    assert rows_in(table) == {(1, "a"): 1}
    write_deltalake(table, rows_of((1, "d")), mode="append")
    assert rows_in(table) == rows_in(of_store.native()) == {(1, key): 1 for key in "abcd"}


@pytest.mark.merge
def test_what_fails_behind_a_commit_here_is_taken_back(store: Store) -> None:
    of_store = OfStore(store)
    table = of_store.create()
    write_deltalake(table, rows_of((1, "a")), mode="append")
    work = raw_of(table)._work / "_delta_log"
    (work / f"{2:020}.checkpoint.parquet").mkdir()  # delta-rs cannot write the checkpoint that is due
    with pytest.raises(DeltaError):
        write_deltalake(table, rows_of((1, "b")), mode="append")
    (work / f"{2:020}.checkpoint.parquet").rmdir()
    assert (table.version(), rows_in(table)) == (1, {(1, "a"): 1})
    write_deltalake(table, rows_of((1, "c")), mode="append")
    assert rows_in(table) == rows_in(of_store.native()) == {(1, "a"): 1, (1, "c"): 1}


@pytest.mark.merge
def test_a_table_whose_log_was_shortened_is_not_created_again(store: Store, cache_folder: Path) -> None:
    of_store = OfStore(store)
    table = of_store.create()
    for number in range(7):
        write_deltalake(table, rows_of((number, "a")), mode="append")
    log = of_store.address.partition("://")[2] + "/_delta_log"
    for version in range(5):
        store.files().delete_file(f"{log}/{version:020}.json")
    shutil.rmtree(cache_folder / "logs")
    again = table_io.create(of_store.address, store.options, schema=SCHEMA, configuration=PROPERTIES)
    write_deltalake(again, rows_of((7, "a")), mode="append")
    assert again.version() == of_store.native().version() == 8
    assert rows_in(of_store.opened()) == rows_in(of_store.native()) == Counter((number, "a") for number in range(8))


@pytest.mark.merge
def test_appends_at_once_follow_each_other_and_one_id_is_appended_once(store: Store) -> None:
    of_store, failed = OfStore(store), list[int]()
    of_store.create()
    together = threading.Barrier(4)

    def append(number: int) -> None:
        table = of_store.opened()
        why = CommitProperties(app_transactions=[Transaction("only one", 1)])
        together.wait(timeout=60)
        for count in range(5):
            write_deltalake(table, rows_of((number, f"{count}")), mode="append")
        together.wait(timeout=60)
        try:
            write_deltalake(table, rows_of((number, "once")), mode="append", commit_properties=why)
        except CommitFailedError:
            failed.append(number)

    in_threads(append, 4)
    written = rows_in(of_store.native())
    assert written == rows_in(of_store.opened())
    assert {row for row in written if row[1] != "once"} == {(number, f"{count}") for number in range(4) for count in range(5)}
    assert sum(key == "once" for _, key in written) + len(failed) == 4
    assert all(count == 1 for count in written.values())


@pytest.mark.merge
def test_many_rows_are_written_and_many_files_are_read_by_delta_rs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica, "_FEW_BYTES", 64)
    of_store = OfStore(store)
    table = of_store.create()
    batches = [batch for number in range(5) for batch in rows_of(*((number, f"{key}") for key in range(9))).to_batches()]
    write_deltalake(table, pa.RecordBatchReader.from_batches(SCHEMA, batches), mode="append")
    table_io.bring(table)
    table.delete("day = 4")
    assert len(rows_in(table)) == len(rows_in(of_store.native())) == 36
    assert feed_in(table) == feed_in(of_store.native())


@pytest.mark.merge
def test_a_part_may_have_any_name(store: Store) -> None:
    of_store = OfStore(store)
    how = {"schema": SCHEMA, "partition_by": ["key"], "configuration": PROPERTIES}
    table = table_io.create(of_store.address, of_store.options, **how)
    names = ["ops/contracts", "a b", "ü=1%", "100%25", "'quoted'"]
    for day, name in enumerate(names):
        write_deltalake(table, rows_of((day, name)), mode="append")
    table_io.bring(table, {"key": [names[0]]})
    write_deltalake(table, rows_of((7, names[0])), mode="overwrite", predicate=f"key = '{names[0]}'")
    expected = Counter([(7, names[0]), *enumerate(names)]) - Counter([(0, names[0])])
    assert rows_in(table) == rows_in(of_store.opened()) == rows_in(of_store.native()) == expected
    assert rows_of_native(of_store) == expected
    paths = [*map(unquote, listed_files(table)["path"].to_pylist())]
    assert sizes_of_files(table, paths).keys() == {*paths}


@pytest.mark.merge
def test_a_table_whose_features_are_others_is_opened_by_delta_rs(store: Store) -> None:
    of_store = OfStore(store)
    DeltaTable.create(
        of_store.address, SCHEMA, storage_options=of_store.options, configuration={"delta.enableDeletionVectors": "true"}
    )
    table = table_io.open_snapshot(of_store.address, of_store.options)
    assert table is not None
    assert not has_replica(table)


@pytest.mark.parametrize(
    ("address", "options", "expected"),
    [
        ("s3://bucket/t", {"AWS_REGION": "eu"}, True),
        ("s3a://bucket/t", {"aws_endpoint_url": "http://store", "access_key_id": "me"}, True),
        ("s3://bucket/t", {"AWS_SERVER_SIDE_ENCRYPTION": "aws:kms"}, False),
        ("s3://bucket/t", {"AWS_CONDITIONAL_PUT": "dynamo"}, False),
        ("gs://bucket/t", {}, False),
        ("/lake/t", {}, False),
    ],
)
def test_only_what_is_known_of_a_store_is_used_through_a_replica(
    address: str, options: dict[str, str], *, expected: bool
) -> None:
    assert replica.is_possible(address, options) is expected


@pytest.mark.merge
def test_without_a_folder_for_its_cache_a_machine_keeps_nothing(store: Store, cache_folder: Path) -> None:
    cache_folder.parent.chmod(0o700)
    cache_folder.write_text("a file in the place of the folder")
    of_store = OfStore(store)
    table = of_store.create()
    write_deltalake(table, rows_of((1, "a")), mode="append")
    assert rows_in(of_store.opened()) == {(1, "a"): 1}
    assert cache_folder.is_file()
