"""Everything that the project uses of delta-rs beyond its public interface: private parts of its package, the files of an open
table.

No other module uses the internals of ``DeltaTable``. delta-rs is pinned to a minor version, and an upgrade is checked against
this list.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deltalake import DeltaTable

#: The attributes in which an open table carries its files, and the file system that knows them, with their version.
_LISTED, _SYSTEM = "_lakehouse_files", "_lakehouse_file_system"
#: The attributes for the transactions of a version; for the commits of its log and for its change feed, which never change.
_TRANSACTIONS, _COMMITS, _FEEDS = "_lakehouse_transactions", "_lakehouse_commits", "_lakehouse_feeds"


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
    """The version of a Delta transaction that an open table records; looked up once per version.

    delta-rs reads the log since the last checkpoint for it.
    """
    version, known = vars(table).get(_TRANSACTIONS, (None, {}))
    if version != table.version():
        known = {}
        vars(table)[_TRANSACTIONS] = (table.version(), known)
    if app_id not in known:
        known[app_id] = table.transaction_version(app_id)
    found: int | None = known[app_id]
    return found


def commits_read(table: DeltaTable) -> dict[int, dict[str, Any]]:
    """The commits of an open table's log that were read before, by version; to be added to."""
    commits: dict[int, dict[str, Any]] = vars(table).setdefault(_COMMITS, {})
    return commits


def feeds_read(table: DeltaTable) -> dict[tuple[int, int], pa.Table | None]:
    """The parts of an open table's change feed that were read before, by first and last version; to be added to."""
    feeds: dict[tuple[int, int], pa.Table | None] = vars(table).setdefault(_FEEDS, {})
    return feeds


def newest_version(table: DeltaTable) -> int:
    """The newest version in the log; ``table`` stays at its own. The public way opens the table a second time."""
    version: int = table._table.get_latest_version()  # noqa: SLF001
    return version


def file_system(table: DeltaTable) -> fs.FileSystem:
    """The file system of a table's folder, with the table's credentials, as delta-rs's own dataset builds it.

    For local tables it is Arrow's own: reading through delta-rs's can end the process with an abort at exit. In an object store,
    small data files are fetched as a whole, by one request instead of several, and kept: they never change.
    """
    uri = table.table_uri
    if "://" not in uri or uri.startswith("file://"):
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
            return super().open_input_file(path)
        with _KEPT_LOCK:
            kept = _KEPT.pop((self.uri, path), None)
        if kept is None:
            with super().open_input_file(path) as file:
                kept = pa.py_buffer(file.read(size))
            with _KEPT_LOCK:
                _held_bytes[0] += kept.size
        with _KEPT_LOCK:
            _KEPT[self.uri, path] = kept
            while _held_bytes[0] > _KEPT_BYTES and len(_KEPT) > 1:
                _held_bytes[0] -= _KEPT.pop(next(iter(_KEPT))).size
        return pa.BufferReader(kept)
