"""Everything that the project uses of delta-rs beyond its public interface: private parts of its package, the files and the log
of an open table. Here is also the count of what is done in object stores.

No other module uses the internals of ``DeltaTable``. delta-rs is pinned to a minor version, and an upgrade is checked against
this list.
"""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

#: The attributes in which an open table carries its files, and the file system that knows them, with their version.
_LISTED, _SYSTEM = "_lakehouse_files", "_lakehouse_file_system"
#: The attributes for the transactions of a version; for the commits of its log and for its change feed, which never change.
_TRANSACTIONS, _COMMITS, _FEEDS = "_lakehouse_transactions", "_lakehouse_commits", "_lakehouse_feeds"
#: The attribute for the entries of its log that were read. The number of entries that are read for all their transactions, at
#: once, and the size up to which an entry is read by one request and kept.
_ENTRIES = "_lakehouse_log_entries"
_FEW_ENTRIES, _AT_ONCE, _ENTRY_BYTES = 20, 8, 2**18


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
    if len(versions) <= 1 or _is_local(table.table_uri):
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
    if _is_local(uri):
        return Path(unquote(uri.removeprefix("file://")), name).read_bytes()
    entries: dict[int, bytes] = vars(table).setdefault(_ENTRIES, {})
    if version in entries:
        return entries[version]
    count_request(uri, "log entries")
    # The size is not known. More is asked for, so that nothing has to be looked up before.
    for sizes in ({name: _ENTRY_BYTES}, None):
        with DeltaStorageHandler.from_table(table._table, known_sizes=sizes).open_input_file(name) as file:  # noqa: SLF001
            entry = bytes(file.read())
        if len(entry) < _ENTRY_BYTES:
            with _KEPT_LOCK:
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


def newest_version(table: DeltaTable) -> int:
    """The newest version in the log; ``table`` stays at its own. The public way opens the table a second time."""
    count_request(table.table_uri, "looks")
    version: int = table._table.get_latest_version()  # noqa: SLF001
    return version


def file_system(table: DeltaTable) -> fs.FileSystem:
    """The file system of a table's folder, with the table's credentials, as delta-rs's own dataset builds it.

    For local tables it is Arrow's own: reading through delta-rs's can end the process with an abort at exit. In an object store,
    small data files are fetched as a whole, by one request instead of several, and kept: they never change.
    """
    uri = table.table_uri
    if _is_local(uri):
        return fs.SubTreeFileSystem(unquote(uri.removeprefix("file://")), fs.LocalFileSystem())
    version, system = vars(table).get(_SYSTEM, (None, None))
    if system is None or version != table.version():
        listed = listed_files(table)
        sizes = dict(zip(map(unquote, listed["path"].to_pylist()), listed["size_bytes"].to_pylist()))
        handler = _SmallFilesWhole.from_table(table._table, known_sizes=sizes)  # noqa: SLF001
        handler.uri, handler.sizes = uri, sizes
        system = fs.PyFileSystem(handler)
        vars(table)[_SYSTEM] = (table.version(), system)
    return system


def _is_local(uri: str) -> bool:
    return "://" not in uri or uri.startswith("file://")


#: What this process has done in object stores, by table and kind.
_requests: Counter[tuple[str, str]] = Counter()


def count_request(path: str, kind: str, amount: int = 1) -> None:
    """Count what is done with a table, if it is in an object store: a request or some, or bytes."""
    if path and not _is_local(path):
        _requests["/".join(path.rstrip("/").split("/")[-2:]), kind] += amount


@contextmanager
def counted_requests() -> Iterator[dict[str, dict[str, int]]]:
    """What is done in object stores within the context, by table and kind; known at its end."""
    before, during = _requests.copy(), dict[str, dict[str, int]]()
    yield during
    for (table, kind), amount in sorted((_requests - before).items()):
        during.setdefault(table, {})[kind] = amount


_SMALL_BYTES, _KEPT_BYTES = 2**20, 2**26
_KEPT: dict[tuple[str, str], pa.Buffer] = {}
_held_bytes = [0]
_KEPT_LOCK = Lock()


class _SmallFilesWhole(DeltaStorageHandler):  # type: ignore[misc] # a class without types
    """A table's folder in an object store; its small data files are read as a whole.

    ``sizes`` are the bytes of the data files.
    """

    uri: str
    sizes: Mapping[str, int]

    def open_input_file(self, path: str) -> pa.NativeFile:
        """A data file for random access."""
        size = self.sizes.get(path, _SMALL_BYTES)
        if size >= _SMALL_BYTES:
            count_request(self.uri, "files")
            return super().open_input_file(path)
        with _KEPT_LOCK:
            kept = _KEPT.pop((self.uri, path), None)
        if kept is None:
            count_request(self.uri, "files")
            count_request(self.uri, "bytes", size)
            with super().open_input_file(path) as file:
                kept = pa.py_buffer(file.read(size))
            with _KEPT_LOCK:
                _held_bytes[0] += kept.size
        with _KEPT_LOCK:
            _KEPT[self.uri, path] = kept
            while _held_bytes[0] > _KEPT_BYTES and len(_KEPT) > 1:
                _held_bytes[0] -= _KEPT.pop(next(iter(_KEPT))).size
        return pa.BufferReader(kept)
