"""Data files that a table's log lists but that are missing or have another length, because of a faulty copy or disk.

Restoring their rows belongs to the layer of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from lakehouse.lake.delta_rs_internals import file_system, listed_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deltalake import DeltaTable

    from lakehouse.lake import Table

#: The suffix of the new name of a truncated file; maintenance deletes the file, because no log lists it.
_SUFFIX = ".damaged"


class DamagedFile(NamedTuple):
    """A data file.

    :param path: below the table's folder.
    :param partition: the value of the column that the table is partitioned by; None without one.
    :param rows: the number of rows that it had.
    """

    path: str
    partition: Any
    rows: int
    is_missing: bool


def of(table: Table) -> list[DamagedFile]:
    """The damaged files of a table, by path; only names and lengths are looked up."""
    opened = table.snapshot()
    return [] if opened is None else of_table(opened)


def of_table(table: DeltaTable) -> list[DamagedFile]:
    """The damaged files of an open table, by path."""
    listed = listed_files(table)
    if not len(listed):
        return []
    columns = table.metadata().partition_columns
    values = listed[f"partition.{columns[0]}"].to_pylist() if columns else [None] * len(listed)
    counts = listed["num_records"].to_pylist() if "num_records" in listed.column_names else [0] * len(listed)
    infos = file_system(table).get_file_info([unquote(path) for path in listed["path"].to_pylist()])
    expected = zip(infos, listed["size_bytes"].to_pylist(), values, counts)
    damaged = [
        DamagedFile(info.path, value, count or 0, not info.is_file)
        for info, size, value, count in expected
        if not info.is_file or info.size != size
    ]
    return sorted(damaged, key=lambda file: file.path)


def set_aside(table: DeltaTable, files: Iterable[DamagedFile]) -> None:
    """Rename truncated files, so that every reader finds them missing, a case that code following a table's changes handles."""
    system = file_system(table)
    for file in files:
        if not file.is_missing:
            system.move(file.path, f"{file.path}{_SUFFIX}")
