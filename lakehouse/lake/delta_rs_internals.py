"""Everything that the project uses of delta-rs beyond its public interface: private parts of its package, the files and the log
of an open table. How a table of an object store is opened and written is in ``replica``, which uses the parts that are here.

No other module uses the internals of ``DeltaTable``. delta-rs is pinned to a minor version, and an upgrade is checked against
this list.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake._internal import RawDeltaTable
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from lakehouse.lake import table_folder
from lakehouse.lake.table_folder import count_request, is_local

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lakehouse.lake.table_folder import TableFolder

#: The attributes in which an open table carries its files, and the file system that knows them, with their version.
_LISTED, _SYSTEM = "_lakehouse_files", "_lakehouse_file_system"
#: The attributes for the transactions of a version; for the commits of its log and for its change feed, which never change.
_TRANSACTIONS, _COMMITS, _FEEDS = "_lakehouse_transactions", "_lakehouse_commits", "_lakehouse_feeds"
#: The attribute for the entries of its log that were read. The number of entries that are read for all their transactions, at
#: once, and the size up to which an entry is read by one request and kept.
_ENTRIES = "_lakehouse_log_entries"
_FEW_ENTRIES, _AT_ONCE, _ENTRY_BYTES = 20, 8, 2**18
_LOCK = Lock()
#: Of more files in an object store, the sizes are listed.
_FEW_FILES = 2


def raw_table(address: str, version: int | None = None, options: Mapping[str, str] | None = None) -> RawDeltaTable:
    """What ``DeltaTable`` uses of delta-rs."""
    return RawDeltaTable(address, version, None if options is None else dict(options))


def table_of(raw: Any, options: Mapping[str, str]) -> DeltaTable:
    """A ``DeltaTable`` that uses another object in the place of delta-rs."""
    table = DeltaTable.__new__(DeltaTable)
    table._storage_options, table._table = dict(options), raw  # noqa: SLF001
    return table


def raw_of(table: DeltaTable) -> Any:
    """What a ``DeltaTable`` uses."""
    return table._table  # noqa: SLF001


def has_replica(table: DeltaTable) -> bool:
    """Whether an open table is used through a replica of its log, see ``replica``."""
    return getattr(raw_of(table), "is_replica", False)


def listed_files(table: DeltaTable) -> pa.Table:
    """The files of an open table with their partitions and statistics, from its log; listed once per version.

    delta-rs decodes the statistics of all files for each listing: 30 ms in a table of 2,000 days.
    """
    version, files = vars(table).get(_LISTED, (None, None))
    if files is None or version != table.version():
        files = pa.table(table.get_add_actions(flatten=True))
        vars(table)[_LISTED] = (table.version(), files)
    return files


def transaction_version(table: DeltaTable, app_id: str) -> int | None:
    """The version of a Delta transaction that an open table records.

    delta-rs reads the log since the last checkpoint for each question. Here a short log is read once, and of any log, once a
    transaction is known, only the entries since.
    """
    of_version, known, is_whole = vars(table).get(_TRANSACTIONS, (-1, {}, True))
    version = table.version()
    if of_version != version:
        entries, newer = range(of_version + 1, version + 1), None
        if 0 < len(entries) <= _FEW_ENTRIES:
            newer = _transactions_in(table, entries)
        before, is_whole = ({}, False) if newer is None else (known, is_whole)
        known = before | {app: number for app, number in (newer or {}).items() if is_whole or app in before}
        vars(table)[_TRANSACTIONS] = (version, known, is_whole)
    if app_id not in known and not is_whole:
        known[app_id] = table.transaction_version(app_id)
    recorded: int | None = known.get(app_id)
    return recorded


def _transactions_in(table: DeltaTable, versions: Collection[int]) -> dict[str, int] | None:
    """The transactions in the entries of some versions, the last ones of each application; None if the log was shortened."""
    newest = {}
    for entry in log_entries(table, versions):
        if entry is None:
            return None
        for line in entry.splitlines():
            if b'"txn"' in line and "txn" in (action := json.loads(line)):
                newest[action["txn"]["appId"]] = action["txn"]["version"]
    return newest


def log_entries(table: DeltaTable, versions: Collection[int]) -> list[bytes | None]:
    """The entries of some versions in an open table's log; see :func:`log_entry`."""
    if len(versions) <= 1 or is_local(table.table_uri):
        return [log_entry(table, version) for version in versions]
    with ThreadPoolExecutor(min(len(versions), _AT_ONCE)) as threads:
        return [*threads.map(partial(log_entry, table), versions)]


def log_entry(table: DeltaTable, version: int) -> bytes | None:
    """The entry of a version in an open table's log, None if it has none; in an object store it is read once, by one request."""
    with suppress(FileNotFoundError):
        return _log_entry(table, version)
    return None


def _log_entry(table: DeltaTable, version: int) -> bytes:
    name, uri = f"_delta_log/{version:020}.json", table.table_uri
    if is_local(uri):
        return Path(unquote(uri.removeprefix("file://")), name).read_bytes()
    if has_replica(table):
        entry: bytes = raw_of(table).entry(version)
        return entry
    entries: dict[int, bytes] = vars(table).setdefault(_ENTRIES, {})
    if version in entries:
        return entries[version]
    count_request(uri, "log entries")
    # The size is not known. More is asked for, so that nothing has to be looked up before.
    for sizes in ({name: _ENTRY_BYTES}, None):
        with DeltaStorageHandler.from_table(table._table, known_sizes=sizes).open_input_file(name) as file:  # noqa: SLF001
            entry = bytes(file.read())
        if len(entry) < _ENTRY_BYTES:
            with _LOCK:
                newest = sorted(vars(table)[_ENTRIES].items())[1 - _FEW_ENTRIES :]
                vars(table)[_ENTRIES] = {**dict(newest), version: entry}
            break
    return entry


def commits_read(table: DeltaTable) -> dict[int, dict[str, Any]]:
    """The commits of an open table's log that were read before, by version; to be added to."""
    commits: dict[int, dict[str, Any]] = vars(table).setdefault(_COMMITS, {})
    return commits


def feeds_read(table: DeltaTable) -> dict[tuple[int, int], pa.Table | None]:
    """The parts of an open table's change feed that were read before, by first and last version; to be added to."""
    feeds: dict[tuple[int, int], pa.Table | None] = vars(table).setdefault(_FEEDS, {})
    return feeds


def at_version(table: DeltaTable, version: int) -> DeltaTable:
    """An earlier version of an open table.

    :raises DeltaError: if its log no longer has it.
    """
    count_request(table.table_uri, "opens")
    return DeltaTable(table.table_uri, version=version, storage_options=table._storage_options)  # noqa: SLF001


def newest_version(table: DeltaTable, listed: Mapping[str, str] | None = None) -> int:
    """The newest version in the log; ``table`` stays at its own. The public way opens the table a second time.

    :param listed: the log of a replica as a look has shown it (``replica.look``).
    """
    if not has_replica(table):
        count_request(table.table_uri, "looks")
    version: int = table._table.get_latest_version(*([] if listed is None else [listed]))  # noqa: SLF001
    return version


def brought_up_to_date(path: str, table: DeltaTable, listed: Mapping[str, str] | None) -> bool:
    """Whether an open table is at its newest version now; not if another table has taken its place in an object store.

    :param listed: as for :func:`newest_version`.
    """
    try:
        if not _is_newest(path, table, listed):
            table.update_incremental()
    except (DeltaError, OSError):
        if "://" not in path:
            raise
        return False
    return True


def _is_newest(path: str, table: DeltaTable, listed: Mapping[str, str] | None = None) -> bool:
    """Whether a table's log ends with the version of an open table; see :func:`newest_version`.

    To list a log on a local disk, delta-rs examines each of its files: ten milliseconds for a thousand commits. In an object
    store a listing is one request, and an update two.
    """
    version = table.version()
    if "://" in path:
        return bool(newest_version(table, listed) == version)
    return os.path.exists(_entry(path, version)) and not os.path.exists(_entry(path, version + 1))  # noqa: PTH110


def identity_of(path: str, version: int) -> tuple[int, int, int] | None:
    """What tells the entry of a version in a table's log apart from another one: the number of the file on its disk, its size and
    the time at which it was written. None if it is not on a local disk, or gone.
    """
    if "://" in path:
        return None
    try:
        entry = os.stat(_entry(path, version))  # noqa: PTH116 (a path object costs more than the look)
    except FileNotFoundError:
        return None
    return entry.st_ino, entry.st_size, entry.st_mtime_ns


def _entry(path: str, version: int) -> str:
    return f"{path}/_delta_log/{version:020}.json"


def file_system(table: DeltaTable, reads: Sequence[str] = ()) -> fs.FileSystem:
    """The file system of a table's folder, with the table's credentials, as delta-rs's own dataset builds it.

    For local tables it is Arrow's own: reading through delta-rs's can end the process with an abort at exit. In an object store,
    small data files are fetched as a whole, by one request instead of several, and kept: they never change.

    :param reads: the data files that are about to be read: small ones are fetched at once; Arrow would fetch one after the other.
    """
    uri = table.table_uri
    if is_local(uri):
        return fs.SubTreeFileSystem(unquote(uri.removeprefix("file://")), fs.LocalFileSystem())
    version, system = vars(table).get(_SYSTEM, (None, None))
    if system is None or version != table.version():
        listed = listed_files(table)
        sizes = dict(zip(map(unquote, listed["path"].to_pylist()), listed["size_bytes"].to_pylist()))
        if has_replica(table):
            handler = _SmallFilesWhole(uri, dict(table._storage_options or {}), sizes)  # noqa: SLF001
            handler.folder = raw_of(table).folder
        else:
            handler = _SmallFilesWhole.from_table(table._table, known_sizes=sizes)  # noqa: SLF001
        handler.uri, handler.sizes = uri, sizes
        system = fs.PyFileSystem(handler)
        vars(table)[_SYSTEM] = (table.version(), system)
    if len(reads) > 1:
        system.handler.fetch_small(reads)
    return system


def sizes_of_files(table: DeltaTable, paths: Sequence[str]) -> dict[str, int]:
    """The sizes of those of the files in a table's folder that exist."""
    if has_replica(table) and len(paths) > _FEW_FILES:
        listed: dict[str, int] = raw_of(table).folder.sizes()
        return {path: listed[path] for path in paths if path in listed}
    return {info.path: info.size for info in file_system(table).get_file_info([*paths]) if info.is_file}


@contextmanager
def output_stream(table: DeltaTable, path: str) -> Iterator[pa.NativeFile]:
    """A stream to a new file in a table's folder. In the store of a table with a replica it is written as a whole, at the end."""
    if not has_replica(table):
        with file_system(table).open_output_stream(path) as stream:
            yield stream
        return
    content = pa.BufferOutputStream()
    yield content
    raw_of(table).folder.put(path, content.getvalue())


class _SmallFilesWhole(DeltaStorageHandler):  # type: ignore[misc] # a class without types
    """A table's folder in an object store; its small data files are read as a whole.

    ``sizes`` are the bytes of the data files.
    """

    uri: str
    sizes: Mapping[str, int]
    folder: TableFolder | None = None

    def open_input_file(self, path: str) -> pa.NativeFile:
        """A data file for random access."""
        size = self.sizes.get(path)
        if size is None or not table_folder.is_small(size):
            count_request(self.uri, "files")
            return super().open_input_file(path)
        if self.folder is not None:
            return pa.BufferReader(self.folder.read_small([path])[0])
        kept = table_folder.small_file(self.uri, path)
        if kept is not None:
            return pa.BufferReader(kept)
        count_request(self.uri, "files")
        count_request(self.uri, "bytes", size)
        with super().open_input_file(path) as file:
            content = pa.py_buffer(file.read(size))
        table_folder.keep_small_file(self.uri, path, content)
        return pa.BufferReader(content)

    def fetch_small(self, paths: Sequence[str]) -> None:
        """Fetch small data files at once, as far as they fit into memory."""
        if self.folder is not None:
            small = [path for path in paths if table_folder.is_small(self.sizes[path])]
            together = accumulate(self.sizes[path] for path in small)
            self.folder.read_small(small[: bisect_right([*together], table_folder.SMALL_FILES_BYTES // 2)])


class StatedMerge:
    """A merge as it is stated, so that it can be executed on this machine or in the store.

    :param raw: the table of which it is, for what the merge says of it.
    """

    def __init__(self, raw: RawDeltaTable, source: pa.Table, how: Mapping[str, Any]) -> None:
        self._source, self._how = source, how
        self._clauses: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._first = self._begun(raw)

    def _begun(self, raw: RawDeltaTable) -> Any:
        return raw.create_merge_builder(source=self._source.to_reader(), **self._how)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("when_"):
            return getattr(self._first, name)
        return lambda *args, **named: self._clauses.append((name, args, named))

    def on(self, raw: RawDeltaTable) -> Any:
        """Execute the merge on a table."""
        builder = self._begun(raw)
        for name, args, named in self._clauses:
            getattr(builder, name)(*args, **named)
        return raw.merge_execute(builder)


def few_or_stream(data: Any, at_most: int) -> tuple[pa.Table | None, Any]:
    """Rows in memory if they have few bytes, and else None; and a stream of them."""
    reader = pa.RecordBatchReader.from_stream(data)
    batches, size = list[pa.RecordBatch](), 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size > at_most:
            stream = pa.RecordBatchReader.from_batches(reader.schema, chain(batches, reader))
            return None, stream
    rows = pa.Table.from_batches(batches, reader.schema)
    return rows, rows.to_reader()
