"""The data files of a table: how they are written, their rows by partition, all files in the folder, and the damaged ones.

Files and row counts come from the table's log. Single files are read here, because Arrow's dataset, which ``table_io`` uses,
compares the statistics of row groups with single values only: for many texts, or for a range of texts, it reads all row groups.

Maintenance lists every file in the folder, whether the log references it or not. A data file is damaged if the log lists it and
it is missing or has another length, because of a faulty copy or disk. Restoring its rows belongs to the layer of the table.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timezone
from functools import cached_property, partial
from itertools import accumulate, chain
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import ColumnProperties, WriterProperties
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction
from pyarrow import dataset as ds
from pyarrow import fs

from lakehouse import pieces
from lakehouse.lake import table_io, table_parts
from lakehouse.lake.delta_rs_internals import file_system, listed_files, output_stream, sizes_of_files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from deltalake import DeltaTable

    from lakehouse.lake import Table


_WRITTEN_AT_ONCE = 8
#: A row group is compressed as a whole, and held in memory until then.
_ROW_GROUP_ROWS = 2**17


def compressed(rows_per_group: int, columns: dict[str, ColumnProperties] | None = None) -> WriterProperties:
    """How ``row_writer`` and maintenance write data files: compressed, with row groups of at most ``rows_per_group`` rows.

    Whole partitions, and what Spark appends, have the default of their writer until maintenance compacts them.

    :param columns: encodings of single columns.
    """
    return WriterProperties(compression="ZSTD", compression_level=1, max_row_group_size=rows_per_group, column_properties=columns)


COMPRESSED = compressed(_ROW_GROUP_ROWS)

_LOG = re.compile(r"_delta_log/(\d{20})\.(json|checkpoint)\b.*")


class LogFile(NamedTuple):
    """A commit or a checkpoint in a table's log."""

    version: int
    is_checkpoint: bool
    written: datetime


@dataclass(frozen=True)
class Storage:
    """The files in a table's folder as they were when first listed.

    :param options: delta-rs options, for an object store.
    """

    address: str
    options: Mapping[str, str]

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The size in bytes of every file, by its path relative to the address."""
        return {info.path: info.size for info in self._files}

    @cached_property
    def log(self) -> list[LogFile]:
        """The commits and checkpoints of the table."""
        named = [(match, info.mtime) for info in self._files if (match := _LOG.fullmatch(info.path))]
        return [LogFile(int(match[1]), match[2] == "checkpoint", when.astimezone(timezone.utc)) for match, when in named]

    @cached_property
    def _local(self) -> fs.FileSystem | None:
        if "://" in self.address and not self.address.startswith("file://"):
            return None
        return fs.SubTreeFileSystem(unquote(self.address.removeprefix("file://")), fs.LocalFileSystem())

    @cached_property
    def _system(self) -> fs.FileSystem:
        return self._local or fs.PyFileSystem(DeltaStorageHandler(self.address, dict(self.options)))

    @cached_property
    def _files(self) -> list[fs.FileInfo]:
        infos = self._system.get_file_info(fs.FileSelector("", recursive=True, allow_not_found=True))
        return [info for info in infos if info.type == fs.FileType.File]

    def with_int96(self, table: DeltaTable, partitions: Collection[Any]) -> set[Any]:
        """The partitions among ``partitions`` with a file in which Spark wrote times as INT96, from the files' footers.

        delta-rs reads INT96 as nanoseconds: times before 1677 and after 2262 would be written wrong (measured: 2084 for 1500).
        """
        if not partitions:
            return set()
        columns = table.metadata().partition_columns
        wanted = ds.field(columns[0]).isin(list(partitions)) if columns else None
        with_int96 = set()
        for file in table.to_pyarrow_dataset(filesystem=file_system(table)).get_fragments(wanted):
            schema = file.metadata.schema
            if any(schema.column(place).physical_type == "INT96" for place in range(len(schema))):
                with_int96.add(ds.get_partition_keys(file.partition_expression)[columns[0]] if columns else None)
        return with_int96

    def with_checksums(self, paths: Iterable[str]) -> list[str]:
        """The existing files among ``paths``, without hidden files, but with the checksum files that Spark wrote for them.

        The checksum of a file that is not deleted is kept.
        """
        hidden = {path for path in self.sizes if PurePosixPath(path).name.startswith(".")}
        wanted = set(paths) & self.sizes.keys()
        deleted = wanted - hidden
        checksums = {path for path in wanted & hidden if _checked_by(path) in deleted or _checked_by(path) not in self.sizes}
        return sorted(deleted | checksums)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; a file that does not exist is ignored."""
        for path in paths:
            with suppress(FileNotFoundError):
                self._system.delete_file(path)


def _checked_by(checksum: str) -> str:
    """The file whose checksum is in ``.<name>.crc``."""
    path = PurePosixPath(checksum)
    return f"{path.with_name(path.name[1:].removesuffix('.crc'))}"


def with_texts(
    table: DeltaTable, columns: Sequence[str], column: str, texts: pa.Array, where: table_io.Where | None = None
) -> pa.Table:
    """The rows whose ``column`` of text holds one of ``texts``.

    Files and row groups whose statistics exclude all of the texts are not read: most of them, if the texts are few and each file
    is sorted by the column. Rows are filtered row group by row group, so that memory holds little more than the result.

    :param where: the partitions that may hold them. ``columns`` must not contain a partition column.
    """
    schema = pa.schema(table.schema().to_arrow())
    known = [name for name in columns if name in schema.names]
    read = pa.schema([schema.field(name) for name in dict.fromkeys([*known, column])])
    texts = texts.cast(pa.string())
    within = table_io.Within(texts)
    paths = [unquote(path) for path in sorted(table_io.files_with(table, {**(where or {}), column: texts})["path"].to_pylist())]
    system = file_system(table, paths)
    parts = [read.empty_table().select(known)]
    for path in paths:
        file = pq.ParquetFile(system.open_input_file(path))
        for group in table_io.row_groups_with(file.metadata, column, within):
            rows = conformed(read, file.read_row_group(group, columns=read.names, use_threads=False))
            parts.append(rows.filter(pc.is_in(rows[column], value_set=texts)).select(known))
    return table_io.with_columns(pa.concat_tables(parts), columns)


def in_ranges(table: DeltaTable, columns: Sequence[str], column: str, at_most: int) -> Iterator[pa.Table]:
    """All rows, range by range of a ``column`` of text, so that rows with equal texts come together; rows without a text come
    first.

    For each range, the row groups whose statistics admit its texts are read. In files sorted by the column, a row group is read
    once, or twice if it lies across the end of a range.

    :param at_most: the approximate number of rows of a range; more if more rows have the same text.
    """
    schema = pa.schema(table.schema().to_arrow())
    known = [name for name in columns if name in schema.names]
    read = pa.schema([schema.field(name) for name in dict.fromkeys([*known, column])])
    names = [unquote(name) for name in sorted(listed_files(table)["path"].to_pylist())]
    system = file_system(table, names)
    files = [pq.ParquetFile(system.open_input_file(name)) for name in names]
    groups = [list(_row_groups(file, column)) for file in files]
    cuts = _cuts(chain.from_iterable(groups), at_most)

    def rows_from_to(low: str | None, high: str | None) -> pa.Table:
        parts = [read.empty_table()]
        for file, of_file in zip(files, groups):
            admitted = [group.number for group in of_file if group.may_lie(low, high)]
            if admitted:
                rows = conformed(read, file.read_row_groups(admitted, columns=read.names))
                parts.append(rows.filter(_lie(rows[column], low, high)) if cuts else rows)
        return table_io.with_columns(pa.concat_tables(parts), columns)

    yield from pieces.ahead(rows_from_to(*ends) for ends in zip([None, *cuts], [*cuts, None]))


class _RowGroup(NamedTuple):
    """A row group with the bounds of a column; None where they are unknown."""

    number: int
    rows: int
    least: str | None
    greatest: str | None

    def may_lie(self, low: str | None, high: str | None) -> bool:
        """Whether the row group may hold a text that is at least ``low`` and less than ``high``."""
        below = low is not None and self.greatest is not None and self.greatest < low
        return not below and not (high is not None and self.least is not None and self.least >= high)


def _row_groups(file: pq.ParquetFile, column: str) -> Iterator[_RowGroup]:
    leaf = table_io.leaf(file.metadata, column)
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        statistics = group.column(leaf).statistics
        # A group with NULL has to be read for the first range, and so has no lower bound.
        is_bounded = statistics is not None and statistics.has_min_max and statistics.null_count == 0
        bounds = (statistics.min, statistics.max) if is_bounded else (None, None)
        yield _RowGroup(number, group.num_rows, *bounds)


def _cuts(groups: Iterable[_RowGroup], at_most: int) -> list[str]:
    """Texts between which about ``at_most`` rows lie."""
    cuts: list[str] = []
    held = 0
    for group in sorted((group for group in groups if group.least is not None), key=lambda group: group.least or ""):
        if held and held + group.rows > at_most and group.least is not None and (not cuts or group.least > cuts[-1]):
            cuts.append(group.least)
            held = 0
        held += group.rows
    return cuts


def _lie(texts: pa.ChunkedArray, low: str | None, high: str | None) -> pa.ChunkedArray:
    """Whether texts are at least ``low`` and less than ``high``; rows without a text lie in the first range."""
    not_below = pa.scalar(True) if low is None else pc.greater_equal(texts, low)
    not_above = pa.scalar(True) if high is None else pc.less(texts, high)
    return pc.fill_null(pc.and_(not_below, not_above), low is None)


def conformed(schema: pa.Schema, rows: pa.Table) -> pa.Table:
    """The rows with the columns of a schema: older files may lack one, and delta-rs writes string views when it merges."""
    columns = [
        rows[item.name].cast(item.type) if item.name in rows.column_names else pa.nulls(len(rows), item.type) for item in schema
    ]
    return pa.table(columns, schema=schema)


#: The suffix of the new name of a truncated file; maintenance deletes the file, because no log lists it.
_SUFFIX = ".damaged"


class DamagedFile(NamedTuple):
    """A data file.

    :param path: below the table's folder.
    :param first: the first day, or other part of the table, of which it may have had rows; None where its table has no parts.
    :param rows: the number of rows that it had.
    """

    path: str
    first: Any
    last: Any
    rows: int
    is_missing: bool

    def may_hold(self, part: Any) -> bool:
        """Whether it may have had rows of a part; a file of unknown bounds may have had rows of any."""
        return self.first is None or bool(self.first <= part <= self.last)


def damaged_files(table: Table) -> list[DamagedFile]:
    """The damaged files of a table, by path; only names and lengths are looked up."""
    opened = table.open()
    return [] if opened is None else damaged_files_of_table(opened)


def damaged_files_of_table(table: DeltaTable) -> list[DamagedFile]:
    """The damaged files of an open table, by path."""
    listed = listed_files(table)
    if not len(listed):
        return []
    counts = listed["num_records"].to_pylist() if "num_records" in listed.column_names else [0] * len(listed)
    paths = [unquote(path) for path in listed["path"].to_pylist()]
    sizes = sizes_of_files(table, paths)
    expected = zip(paths, listed["size_bytes"].to_pylist(), table_parts.spans(table, listed), counts)
    damaged = [
        DamagedFile(path, first, last, count or 0, path not in sizes)
        for path, size, (first, last), count in expected
        if sizes.get(path) != size
    ]
    return sorted(damaged, key=lambda file: file.path)


def lost_parts(table: DeltaTable, files: Collection[DamagedFile], known: Collection[Any]) -> list[Any]:
    """The parts, such as days, of which damaged files may have had rows, in order.

    :param known: all parts of which the table may have had rows; where each file has the rows of one part, it names it itself.
    """
    if not table_parts.share_files(table):
        return sorted({file.first for file in files})
    return sorted(part for part in known if any(file.may_hold(part) for file in files))


def set_aside(table: DeltaTable, files: Iterable[DamagedFile]) -> None:
    """Rename truncated files, so that every reader finds them missing, a case that code following a table's changes handles."""
    system = file_system(table)
    for file in files:
        if not file.is_missing:
            system.move(file.path, f"{file.path}{_SUFFIX}")


#: Longer texts are no bounds in the log.
_TEXT_IN_STATISTICS = 64


def write_file(table: DeltaTable, rows: pa.Table, *, changes_rows: bool, every_column: bool = False) -> AddAction:
    """Write the rows to a new data file in the folder of an open table, in no partition.

    :param every_column: whether there are statistics of all columns, whatever the table asks for.
    :returns: the action with which a commit adds it, with the statistics that the table asks for.
    """
    path = f"part-{uuid.uuid4()}.zstd.parquet"
    with output_stream(table, path) as stream:
        pq.write_table(rows, stream, _ROW_GROUP_ROWS, compression="zstd", compression_level=1, coerce_timestamps="us")
        size = stream.tell()
    with_bounds = -1 if every_column else int(table.metadata().configuration.get("delta.dataSkippingNumIndexedCols", 32))
    names = rows.column_names if with_bounds < 0 else rows.column_names[:with_bounds]
    return AddAction(path, size, {}, int(time.time() * 1000), changes_rows, json.dumps(statistics(rows.select(names))))


def statistics(rows: pa.Table) -> dict[str, Any]:
    """The statistics of a file as Delta's log has them: the number of rows; the bounds and the number of NULLs of each column."""
    bounds: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}}
    for name in rows.column_names:
        if not _has_bounds(rows[name].type):
            continue
        both = pc.min_max(rows[name])
        try:
            low, high = both["min"].as_py(), both["max"].as_py()
        except (OverflowError, ValueError):  # a day or a time that Python does not have
            continue
        if low is None or any(isinstance(end, str) and len(end) > _TEXT_IN_STATISTICS for end in (low, high)):
            continue
        bounds["minValues"][name], bounds["maxValues"][name] = _in_log(low), _in_log(high)
    nulls = {name: rows[name].null_count for name in rows.column_names if not pa.types.is_nested(rows[name].type)}
    return {"numRecords": len(rows), **bounds, "nullCount": nulls}


def _has_bounds(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_date, pa.types.is_timestamp, pa.types.is_string, pa.types.is_boolean)
    return any(test(kind) for test in tests)


def _in_log(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value


def write_days(
    table: DeltaTable,
    read: Iterable[pa.Table],
    by: str,
    file_bytes: int,
    bytes_per_row: float,
    *,
    changes_rows: bool,
    every_column: bool = False,
) -> Iterator[AddAction]:
    """Write rows to new data files of whole, adjacent days, sorted.

    :param read: the rows in pieces of several days each, or a day in several pieces.
    :param by: their column of days.
    :param file_bytes: a file of several days has about as many bytes at most.
    :param bytes_per_row: what a row is expected to take.
    :returns: the actions, as :func:`write_file`.
    """
    write = partial(write_file, table, changes_rows=changes_rows, every_column=every_column)
    schema = pa.schema(table.schema().to_arrow())
    in_order = pieces.mapped(lambda piece: sorted_by_day(conformed(schema, piece), by), read)
    with ThreadPoolExecutor(_WRITTEN_AT_ONCE) as threads:
        for rows in in_order:
            if not len(rows):
                continue
            first = _cut(rows, by, file_bytes / bytes_per_row)[0]
            yield (file := write(first))
            # Of small files, most bytes are not rows: what a row takes is known from the first new file on.
            bytes_per_row = file.size / len(first)
            yield from threads.map(write, _cut(rows.slice(len(first)), by, file_bytes / bytes_per_row))


def _cut(rows: pa.Table, by: str, at_most: float) -> list[pa.Table]:
    """Sorted rows in parts of whole days, of at most so many rows if they have several days."""
    counts = pc.value_counts(rows[by]).field("counts").to_pylist()
    sizes = [sum(group) for group in table_parts.filled(zip(counts, counts), at_most)]
    return [rows.slice(begin, size) for begin, size in zip(accumulate(sizes, initial=0), sizes)]


def sorted_by_day(rows: pa.Table, by: str | None) -> pa.Table:
    """Rows by their days; those of an arrival day by their event days, by which readers skip row groups."""
    return rows.sort_by([(name, "ascending") for name in dict.fromkeys([by, "event_date"]) if name in rows.column_names])
