"""Everything that the project uses of delta-rs beyond its public interface: private parts of its package, the files of an open
table.

No other module uses the internals of ``DeltaTable``. delta-rs is pinned to a minor version, and an upgrade is checked against
this list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

if TYPE_CHECKING:
    from deltalake import DeltaTable

#: The attribute in which an open table carries its files, with the version that they belong to.
_LISTED = "_lakehouse_files"


def listed_files(table: DeltaTable) -> pa.Table:
    """The files of an open table with their partitions and statistics, from its log; listed once per version.

    delta-rs decodes the statistics of all files for each listing: 30 ms in a table of 2,000 days.
    """
    version, files = vars(table).get(_LISTED, (None, None))
    if files is None or version != table.version():
        files = pa.table(table.get_add_actions(flatten=True))
        vars(table)[_LISTED] = (table.version(), files)
    return files


def newest_version(table: DeltaTable) -> int:
    """The newest version in the log; ``table`` stays at its own. The public way opens the table a second time."""
    version: int = table._table.get_latest_version()  # noqa: SLF001
    return version


def file_system(table: DeltaTable) -> fs.FileSystem:
    """The file system of a table's folder, with the table's credentials, as delta-rs's own dataset builds it.

    For local tables it is Arrow's own: reading through delta-rs's can end the process with an abort at exit.
    """
    uri = table.table_uri
    if "://" not in uri or uri.startswith("file://"):
        return fs.SubTreeFileSystem(unquote(uri.removeprefix("file://")), fs.LocalFileSystem())
    return fs.PyFileSystem(DeltaStorageHandler.from_table(table._table))  # noqa: SLF001
