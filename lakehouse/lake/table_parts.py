"""The parts of a table, its days or its buckets, whatever files hold them.

A table is addressed by the values of one column. Either it is partitioned by the column, so that each file has the rows of one
part; or its files hold whole, adjacent days, and the property :data:`DAYS` names the column (see ``delta.layout``). Which parts a
table has, in which files, with how many rows is answered here, and no other module knows which of the two forms a table has.

The answer is taken from the table's log. Of a file with several days, the column of days is read once per process: data files
never change.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.lake.delta_rs_internals import file_system, listed_files
from lakehouse.lake.table_io import read_files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from deltalake import DeltaTable

Item = TypeVar("Item")
#: The property of a table whose days share files: the column of days.
DAYS = "lakehouse.days"
#: The property of such a table that was partitioned before: the version from which its days share files.
SHARED_SINCE = "lakehouse.days.since"
_KEPT_FILES = 50_000
_READ_AT_ONCE = 16


def column(table: DeltaTable) -> str | None:
    """The column by which a table is addressed; None for a table without parts."""
    metadata = table.metadata()
    if DAYS in metadata.configuration:
        return str(metadata.configuration[DAYS])
    return metadata.partition_columns[0] if metadata.partition_columns else None


def share_files(table: DeltaTable) -> bool:
    """Whether a file of the table may hold several days."""
    return DAYS in table.metadata().configuration


def shared_since(table: DeltaTable) -> int:
    """The version from which the days of an open table share files; 0 unless an earlier version was partitioned by them."""
    return int(table.metadata().configuration.get(SHARED_SINCE, 0))


def rows(table: DeltaTable, listed: pa.Table | None = None) -> dict[Any, int]:
    """The number of rows of each part.

    :param listed: only those in these of its files, as ``listed_files`` gives them.
    """
    counts: Counter[Any] = Counter()
    for _, of_file in rows_of_files(table, listed_files(table) if listed is None else listed):
        counts.update(of_file)
    return dict(counts)


def files(table: DeltaTable) -> dict[Any, frozenset[str]]:
    """The paths of the files that hold each part."""
    by_part: dict[Any, set[str]] = {}
    for path, of_file in rows_of_files(table, listed_files(table)):
        for part in of_file:
            by_part.setdefault(part, set()).add(path)
    return {part: frozenset(paths) for part, paths in by_part.items()}


def that_may_be_held(table: DeltaTable, wanted: Collection[Any]) -> set[Any]:
    """Those parts of which a table may hold rows, from the log alone."""
    known = spans(table, listed_files(table))
    if any(low is None for low, _ in known):
        return set(wanted)
    in_order = sorted(wanted)
    held: set[Any] = set()
    for low, high in known:
        held.update(in_order[bisect_left(in_order, low) : bisect_right(in_order, high)])
    return held


def bounds(table: DeltaTable, listed: pa.Table, name: str) -> dict[Any, tuple[Any, Any]]:
    """The least and the greatest value of a column in each part that some of a table's files hold; none for parts without one.

    :param listed: the files, as ``listed_files`` gives them.
    """
    by = column(table)
    if by is None or f"min.{name}" not in listed.column_names:
        return {}
    listed = listed.filter(pc.is_valid(listed[f"min.{name}"]))
    if share_files(table):
        values = read_files(table, listed, [by, name])
        low = high = values[name]
        part = values[by]
    else:
        part, low, high = (listed[f"{kind}.{of}"] for kind, of in (("partition", by), ("min", name), ("max", name)))
    grouped = pa.table({"part": part, "low": low, "high": high}).group_by("part").aggregate([("low", "min"), ("high", "max")])
    each = zip(*(grouped[one].to_pylist() for one in ("part", "low_min", "high_max")))
    return {one: (least, greatest) for one, least, greatest in each if least is not None}


def spans(table: DeltaTable, listed: pa.Table) -> list[tuple[Any, Any]]:
    """The first and the last part that each file may hold, from the log alone; None for both where it does not say."""
    name = column(table)
    if name is None or not len(listed):
        return [(None, None)] * len(listed)
    if f"partition.{name}" in listed.column_names:
        values = listed[f"partition.{name}"].to_pylist()
        return list(zip(values, values))
    if f"min.{name}" not in listed.column_names:
        return [(None, None)] * len(listed)
    return list(zip(listed[f"min.{name}"].to_pylist(), listed[f"max.{name}"].to_pylist()))


def rows_of_files(table: DeltaTable, listed: pa.Table) -> Iterator[tuple[str, Mapping[Any, int]]]:
    """The parts of each file, with their numbers of rows; a file of another writer may lack its number, which counts as 0.

    :param listed: the files, as ``listed_files`` gives them.
    """
    paths, counts = listed["path"].to_pylist(), listed["num_records"].to_pylist()
    bounds = spans(table, listed)
    # A row without a day would not be within the bounds.
    nulls = f"null_count.{column(table)}"
    without = listed[nulls].to_pylist() if nulls in listed.column_names else [0] * len(listed)
    mixed = [path for path, (low, high), empty in zip(paths, bounds, without) if low != high or low is None or empty]
    of_mixed = _read(table, mixed) if share_files(table) else {}
    for path, count, (low, _) in zip(paths, counts, bounds):
        yield path, of_mixed.get(path, {low: count or 0})


#: The parts of files with several days, by table and path; the oldest are dropped beyond a number of files.
_KNOWN: dict[tuple[str, str], Mapping[Any, int]] = {}
_KNOWN_LOCK = Lock()


def _read(table: DeltaTable, paths: list[str]) -> dict[str, Mapping[Any, int]]:
    uri, name, system = table.table_uri, column(table), file_system(table)

    def counted(path: str) -> Mapping[Any, int]:
        with pq.ParquetFile(system.open_input_file(unquote(path))) as file:
            values = pc.value_counts(file.read(columns=[name], use_threads=False)[name])
        return {value["values"].as_py(): value["counts"].as_py() for value in values}

    with _KNOWN_LOCK:
        known = {path: _KNOWN[uri, path] for path in paths if (uri, path) in _KNOWN}
    unknown = [path for path in paths if path not in known]
    if len(unknown) > 1:
        with ThreadPoolExecutor(min(_READ_AT_ONCE, len(unknown))) as readers:
            known |= zip(unknown, readers.map(counted, unknown))
    elif unknown:
        known[unknown[0]] = counted(unknown[0])
    with _KNOWN_LOCK:
        _KNOWN.update({(uri, path): known[path] for path in unknown})
        while len(_KNOWN) > _KEPT_FILES:
            del _KNOWN[next(iter(_KNOWN))]
    return known


def filled(items: Iterable[tuple[Item, float]], at_most: float) -> list[list[Item]]:
    """Items in their order, in groups of at most a size; a larger item is alone.

    :param items: each with its size.
    """
    groups: list[list[Item]] = []
    held = 0.0
    for item, size in items:
        if not groups or held + size > at_most:
            groups.append([])
            held = 0
        groups[-1].append(item)
        held += size
    return groups
