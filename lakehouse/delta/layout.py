"""How the days of a table share its files: whole, adjacent days, sorted, up to a target size.

Rows of new days are appended in shape by :func:`add_days`. Elsewhere rows are written by day; :func:`keep` then brings the files
into shape, in a commit that changes no row: readers of the change feed and of streams see nothing of it. Where an update has put
the days of several files into one, has left files that cross, or small files side by side, exactly these files are written again.
A few rows that cross many stay in files of their own until there are enough: for each, some tens of rows are written again. A day
larger than the target has files of its own.

A table of an earlier release, which is partitioned by day, stays as it is until :func:`convert` gives it this form, in one commit
that changes no row either. Its earlier versions keep their form.
"""

from __future__ import annotations

import json
import logging
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import dataset as ds

from lakehouse import object_store
from lakehouse.delta import commit_log, data_files, leases, partition_writer, row_writer
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_io, table_parts
from lakehouse.lake.delta_rs_internals import file_system, listed_files
from lakehouse.lake.table_folder import signed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import date

    from deltalake import DeltaTable
    from pyarrow import fs

    from lakehouse.delta.data_files import DamagedFile
    from lakehouse.lake import Lake, Table

    Why = Mapping[str, Any]

_LOG = logging.getLogger(__name__)
#: Rows that are in memory at a time; a group of files with more is read once for each so many.
_ROWS_AT_ONCE = 2**20
#: An update leaves more rows than these to maintenance.
_MANY_ROWS = 2**22
#: Where more rows than these would be written again for fewer than one in so many of them, these few stay where they are, in so
#: many files at most.
_WAIT_FROM, _WAITING_SHARE, _WAITING_FILES = 2**18, 32, 8
#: Of a table without rows.
_BYTES_PER_ROW = 48
#: A file may have grown to this many times the target before it is cut.
_OUTGROWN = 2
#: From so many small files side by side on, they are joined: a commit for each new day would cost more than it saves.
_TOGETHER = 8
#: A table may have so many files more than one in shape.
_MORE_FILES = 64
#: The column of days of Bronze and of what is recorded about its rows.
ARRIVALS = "arrival_date"
#: The metadata of its commits.
METHOD = {"method": "layout"}


class OfDays(NamedTuple):
    """How a new table is created: the column by which it is partitioned, if it is, and its properties."""

    partition_by: str | None
    properties: Mapping[str, str]


def of_days(lake: Lake, column: str, properties: Mapping[str, str]) -> OfDays:
    """How a new table of days is created: its days share files, unless the settings ask for a partition for each.

    :param column: the column of days.
    :param properties: its other properties.
    """
    if not lake.settings.file_bytes:
        return OfDays(column, properties)
    return OfDays(None, {**properties, table_parts.DAYS: column})


def of_silver(lake: Lake) -> OfDays:
    """How a new silver table is created."""
    # A wide source has its day behind the first 32 columns, of which alone there would be statistics.
    return of_days(lake, "event_date", {**partition_writer.CHANGE_FEED, **partition_writer.ALL_STATISTICS})


def of_bronze(lake: Lake) -> OfDays:
    """How a new table of records, by arrival day, is created."""
    return of_days(lake, ARRIVALS, {**partition_writer.APPEND_ONLY, **partition_writer.ALL_STATISTICS})


def table_of_arrivals(lake: Lake, target: Table, schema: pa.Schema) -> DeltaTable:
    """A table of rows by arrival day, created without rows if it does not exist; its columns get wider types of the schema."""
    if target.open() is None:
        new = of_days(lake, ARRIVALS, partition_writer.ALL_STATISTICS)
        return partition_writer.create(target, schema, new.partition_by, properties=new.properties)
    return row_writer.open_or_create(target, schema)


@dataclass(frozen=True)
class DayFile:
    """A data file with the first and the last day that it may hold; ``written`` orders files by their age."""

    path: str
    size: int
    rows: int
    first: Any
    last: Any
    written: int = 0


@dataclass(frozen=True)
class _Unit:
    """Files that stay or go together: one, or all files that hold nothing but one day."""

    files: tuple[DayFile, ...]

    @cached_property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def first(self) -> Any:
        return self.files[0].first

    @cached_property
    def last(self) -> Any:
        return max(file.last for file in self.files)


class NewFile(NamedTuple):
    """A file to be written: the rows of some days in the files that it replaces, in part or as a whole."""

    first: date
    last: date


@dataclass(frozen=True)
class Rewrite:
    """The files that :func:`keep` replaces, and those that it writes instead, in the order of their days.

    :param out_of_place: the old files that cross others, have outgrown the target, or are joined to a larger one.
    """

    old: Sequence[DayFile] = ()
    new: Sequence[NewFile] = ()
    out_of_place: Sequence[DayFile] = ()

    def __bool__(self) -> bool:
        return bool(self.new)

    @property
    def can_wait(self) -> bool:
        """Whether an update leaves it to a later one, or to maintenance."""
        rows, few = (sum(file.rows for file in files) for files in (self.old, self.out_of_place))
        are_few = few * _WAITING_SHARE < rows and len(self.out_of_place) <= _WAITING_FILES
        return rows > _MANY_ROWS or (rows > _WAIT_FROM and are_few)


def keep(lake: Lake, target: Table, *, alone: bool = False, at_once: bool = False) -> bool:
    """Bring the files of a table into shape, unless they are, another writer commits meanwhile, or a file cannot be read.

    :param target: a table of any form, or none.
    :param alone: whether only one process at a time may commit to it in S3, see :func:`lakehouse.delta.leases.alone`.
    :param at_once: whether to do also what can wait, see :attr:`Rewrite.can_wait`.
    :returns: whether files were written.
    """
    table = target.open()
    wanted = out_of_shape(lake, table)
    if table is None or not wanted or (wanted.can_wait and not at_once):
        return False
    if alone:
        with leases.alone(target, is_noted=True):
            return keep(lake, target, at_once=at_once)
    try:
        _commit(table, wanted.old, [*_written(table, wanted)], METHOD, changes_rows=False)
    except CommitFailedError:
        return False  # the next update tries again
    except (DeltaError, LakehouseError, OSError, pa.ArrowException) as problem:
        _LOG.warning("the files of %s stay as they are: %s", target.name, problem)
        return False
    return True


def keep_at_times(lake: Lake, target: Table) -> None:
    """:func:`keep` for a table that grows by a file with each delivery, where there are many; otherwise maintenance does it."""
    table, file_bytes = target.open(), lake.settings.file_bytes
    if table is None or not file_bytes:
        return
    listed = listed_files(table)
    # Of two buckets side by side, which have less than so many files each, one has half the target at least.
    in_shape = _TOGETHER * (2 * (pc.sum(listed["size_bytes"]).as_py() or 0) // file_bytes + 1)
    if len(listed) > _MORE_FILES + in_shape:
        keep(lake, target)


def out_of_shape(lake: Lake, table: DeltaTable | None) -> Rewrite:
    """What :func:`keep` would write again."""
    if table is None or not _is_of_files(lake, table):
        return Rewrite()
    return planned(_files(table), lake.settings.file_bytes, lambda files: _rows_by_day(table, files))


def _is_of_files(lake: Lake, table: DeltaTable) -> bool:
    """Whether the days of a table share files in shape, and the files alone define its rows."""
    return bool(lake.settings.file_bytes) and table_parts.share_files(table) and table.protocol().min_reader_version <= 1


def planned(
    files: Iterable[DayFile], file_bytes: int, rows_by_day: Callable[[Sequence[DayFile]], Mapping[DayFile, Mapping[date, int]]]
) -> Rewrite:
    """Which files are to be replaced by which, so that each day is in one file, files do not cross, and small ones are joined.

    Of files that cross, the older ones stay, as far as the newer ones hold none of the days between their first and last one: an
    update that has put the rows of distant days into one file makes no other file be written again.

    :param file_bytes: the target size of a file.
    :param rows_by_day: returns the days of files, each with its number of rows.
    """
    kept, taken_apart = _uncrossed(_units(files), file_bytes)
    out_of_place = [file for unit in taken_apart for file in unit.files]
    days_of: dict[DayFile, Mapping[date, int]] = {}
    waiting = taken_apart
    while waiting:
        found = rows_by_day([file for unit in waiting for file in unit.files])
        days_of |= found
        entered = {place for place in (_holder(kept, day) for days in found.values() for day in days) if place is not None}
        waiting = [kept[place] for place in sorted(entered)]
        kept = [unit for place, unit in enumerate(kept) if place not in entered]
    sizes: dict[date, float] = {}
    for file, days in days_of.items():
        for day, count in days.items():
            sizes[day] = sizes.get(day, 0) + count * file.size / max(file.rows, 1)
    old, new = [*days_of], []
    for bucket in _packed(kept, sizes, file_bytes):
        units = [item for item in bucket if isinstance(item, _Unit)]
        if len(units) == len(bucket) and len(units) < _TOGETHER and not any(_has_many_files(unit, file_bytes) for unit in units):
            continue
        whole = [file for unit in units for file in unit.files]
        old += whole
        out_of_place += sorted(whole, key=lambda file: file.rows)[:-1]
        firsts = [item.first if isinstance(item, _Unit) else item for item in bucket]
        new.append(NewFile(min(firsts), max(item.last if isinstance(item, _Unit) else item for item in bucket)))
    return Rewrite(old, new, out_of_place)


def _units(files: Iterable[DayFile]) -> list[_Unit]:
    """The files, those of one and the same day together, the oldest first."""
    of_one_day: dict[date, list[DayFile]] = {}
    units: list[_Unit] = []
    for file in sorted(files, key=lambda one: (one.written, one.path)):
        if file.first == file.last:
            of_one_day.setdefault(file.first, []).append(file)
        else:
            units.append(_Unit((file,)))
    units += [_Unit(tuple(stack)) for stack in of_one_day.values()]
    return sorted(units, key=lambda unit: (unit.files[0].written, unit.files[0].path))


def _uncrossed(units: Sequence[_Unit], file_bytes: int) -> tuple[list[_Unit], list[_Unit]]:
    """Units that do not cross, in the order of their days, and the others, with those that have outgrown the target."""
    kept: list[_Unit] = []
    others: list[_Unit] = []
    for unit in units:
        place = bisect_left(kept, unit.first, key=lambda one: one.last)
        crosses = place < len(kept) and kept[place].first <= unit.last
        outgrown = unit.size > _OUTGROWN * file_bytes and unit.first != unit.last
        if crosses or outgrown:
            others.append(unit)
        else:
            kept.insert(place, unit)
    return kept, others


def _holder(kept: Sequence[_Unit], day: date) -> int | None:
    """The place of the unit between whose first and last day a day lies."""
    place = bisect_left(kept, day, key=lambda one: one.last)
    return place if place < len(kept) and kept[place].first <= day else None


def _packed(kept: Sequence[_Unit], sizes: Mapping[date, float], file_bytes: int) -> list[list[_Unit | date]]:
    """Units and single days in the order of days, as many in a bucket as a file may hold."""
    items: list[tuple[date, float, _Unit | date]] = [(unit.first, unit.size, unit) for unit in kept]
    items += [(day, size, day) for day, size in sizes.items()]
    return table_parts.filled(((item, size) for _, size, item in sorted(items, key=lambda one: one[0])), file_bytes)


def _has_many_files(unit: _Unit, file_bytes: int) -> bool:
    """Whether the files of one day should be fewer."""
    if unit.size <= file_bytes:
        return len(unit.files) > 1
    return sum(file.size < file_bytes for file in unit.files) > _OUTGROWN


def make_again(table: DeltaTable, damaged: Collection[DamagedFile], days: Collection[date], rows: pa.Table, why: Why) -> None:
    """Replace damaged files by the rows of the days that they may have held, in one commit.

    :param days: all days that one of the files may have held.
    :param rows: all rows of these days.
    :raises CommitFailedError: when another writer has committed since ``table`` was opened.
    """
    by, listed = table_parts.column(table), listed_files(table)
    lost = {file.path for file in damaged}
    paths = listed["path"].to_pylist()
    crossed = [
        path
        for path, (first, last) in zip(paths, table_parts.spans(table, listed))
        if unquote(path) not in lost and (first is None or any(first <= day <= last for day in days))
    ]
    held = table_io.read_files(table, listed.filter(pc.is_in(listed["path"], pa.array(crossed, pa.string()))))
    schema = pa.schema(table.schema().to_arrow())
    others = data_files.conformed(schema, held.filter(pc.invert(pc.is_in(held[by], pa.array(sorted(days), pa.date32())))))
    whole = data_files.sorted_by_day(pa.concat_tables([others, data_files.conformed(schema, rows)]), by)
    added = [data_files.write_file(table, whole, changes_rows=True)] if len(whole) else []
    sizes = zip(paths, listed["size_bytes"].to_pylist())
    going = {*crossed}
    removed = [DayFile(path, size, 0, None, None) for path, size in sizes if path in going or unquote(path) in lost]
    _commit(table, removed, added, {**why, commit_log.APPENDED: None}, changes_rows=True)


def is_of_earlier_form(lake: Lake, table: DeltaTable, column: str) -> bool:
    """Whether :func:`convert` has work to do: the table is partitioned by its days, and the settings let them share files."""
    partitions = table.metadata().partition_columns
    return bool(lake.settings.file_bytes) and partitions == [column] and table.protocol().min_reader_version <= 1


def convert(lake: Lake, target: Table, column: str) -> bool:
    """Let the days of a table of an earlier release share files, in one commit that changes no row.

    Readers of any version go on; a writer that has opened the table before conflicts. Until the commit, the new files belong to
    no version: a process that is killed leaves the table as it was.

    :param column: the column of days, by which the table is partitioned.
    :returns: whether the table has been converted; False if another writer has committed meanwhile.
    :raises LakehouseError: if rows have no day.
    """
    table = target.snapshot()
    if table is None or not is_of_earlier_form(lake, table, column):
        return False
    added = [*_converted(lake, table, column)]
    listed, version, now = listed_files(table), table.version() + 1, int(time.time() * 1000)
    old = zip(listed["path"].to_pylist(), listed[f"partition.{column}"].to_pylist(), listed["size_bytes"].to_pylist())
    gone = {"deletionTimestamp": now, "dataChange": False, "extendedFileMetadata": True}
    metadata, kept = table.metadata(), {"partitionValues": {}, "dataChange": False}
    properties = {**partition_writer.ALL_STATISTICS, table_parts.DAYS: column, table_parts.SHARED_SINCE: f"{version}"}
    new_metadata = {
        "id": f"{metadata.id}",
        "name": metadata.name,
        "description": metadata.description,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": table.schema().to_json(),
        "partitionColumns": [],
        "configuration": {**metadata.configuration, **properties},
        "createdTime": metadata.created_time,
    }
    why = {"timestamp": now, "operation": "OPTIMIZE", "operationParameters": {}, "userMetadata": json.dumps(METHOD)}
    actions: list[dict[str, Any]] = [{"commitInfo": why}, {"metaData": new_metadata}]
    actions += [
        {"remove": {"path": path, "partitionValues": {column: f"{day}"}, "size": size, **gone}} for path, day, size in old
    ]
    for file in added:
        numbers = {"size": file.size, "modificationTime": file.modification_time, "stats": file.stats}
        actions.append({"add": {"path": file.path, **numbers, **kept}})
    entry = signed("\n".join(map(json.dumps, actions)).encode())
    with leases.alone(target):
        is_done = object_store.write_new(lake.storage_options, f"{target.address}/_delta_log/{version:020}.json", entry)
    if not is_done:
        for file in added:
            file_system(table).delete_file(file.path)
    return is_done


def _converted(lake: Lake, table: DeltaTable, column: str) -> Iterator[AddAction]:
    """Write the rows of a partitioned table to files that its days share; a quarter of a million rows are in memory at a time."""
    listed = listed_files(table)
    if listed[f"partition.{column}"].null_count:
        msg = f"{table.table_uri}: rows have no {column}, so its files are left as they are"
        raise LakehouseError(msg)
    names = [item.name for item in table.schema().fields]
    days = table_parts.filled(sorted(table_parts.rows(table).items()), table_io.PIECE_ROWS)
    # One piece for each group of days, unless a single day has several.
    read = (piece for some in days for piece in table_io.pieces_of_version(table, names, {column: some}))
    sizes = lake.settings.file_bytes, _bytes_per_row(table)
    yield from data_files.write_days(table, read, column, *sizes, changes_rows=False, every_column=True)


def add_days(lake: Lake, table: DeltaTable, rows: Iterable[pa.Table], why: Why, transaction: tuple[str, int]) -> bool:
    """Append rows of days that an open table does not have, in one commit of files in shape; without rows there is none.

    :param rows: in pieces of several days each, or a day in several pieces.
    :param transaction: the Delta transaction, by id and version, that the commit records.
    :returns: False if the days of the table do not share files, or the files alone do not define its rows.
    :raises CommitFailedError: when another writer has committed since ``table`` was opened: it may have brought these days.
    """
    by = table_parts.column(table)
    if by is None or not _is_of_files(lake, table):
        return False
    sizes = lake.settings.file_bytes, _bytes_per_row(table)
    if files := [*data_files.write_days(table, rows, by, *sizes, changes_rows=True)]:
        count = sum(json.loads(file.stats)["numRecords"] for file in files)
        named = partition_writer.commit_properties({**why, commit_log.APPENDED: count}, transaction, is_alone=True)
        table_io.commit_files(table, files, mode="append", schema=table.schema(), commit_properties=named)
    return True


def _commit(table: DeltaTable, removed: Sequence[DayFile], added: Sequence[AddAction], why: Why, *, changes_rows: bool) -> None:
    now = int(time.time() * 1000)
    actions: list[AddAction | RemoveAction] = [*added]
    actions += [RemoveAction(file.path, changes_rows, now, file.size, {}) for file in removed]
    table_io.commit_files(
        table,
        actions,
        mode="append",
        schema=table.schema(),
        # Without retries, any other commit is a conflict: delta-rs would not find that it has removed one of the files.
        commit_properties=CommitProperties(custom_metadata={"userMetadata": json.dumps(why, default=str)}, max_commit_retries=0),
    )


def _files(table: DeltaTable) -> list[DayFile]:
    """The files of a table; those without bounds or counts, and those with rows of no day, are left alone."""
    listed, nulls = listed_files(table), f"null_count.{table_parts.column(table)}"
    if nulls in listed.column_names:
        listed = listed.filter(pc.equal(pc.fill_null(listed[nulls], 0), 0))
    numbers = zip(*(listed[name].to_pylist() for name in ("path", "size_bytes", "num_records", "modification_time")))
    return [
        DayFile(path, size, count, first, last, written)
        for (path, size, count, written), (first, last) in zip(numbers, table_parts.spans(table, listed))
        if first is not None and last is not None and count is not None
    ]


def _rows_by_day(table: DeltaTable, files: Sequence[DayFile]) -> dict[DayFile, Mapping[date, int]]:
    listed = listed_files(table)
    by_path = {file.path: file for file in files}
    of_these = listed.filter(pc.is_in(listed["path"], pa.array([*by_path], pa.string())))
    return {by_path[path]: days for path, days in table_parts.rows_of_files(table, of_these)}


def _written(table: DeltaTable, wanted: Rewrite) -> Iterator[AddAction]:
    """Write the new files; some million rows are in memory at a time."""
    system, by = file_system(table), table_parts.column(table)
    assert by is not None  # noqa: S101 (its days share files)
    schema = pa.schema(table.schema().to_arrow())
    counts: Counter[date] = Counter()
    for of_file in _rows_by_day(table, wanted.old).values():
        counts.update(of_file)
    left = sum(file.rows for file in wanted.old)
    days = sorted(counts)
    sizes = [sum(counts[day] for day in days[bisect_left(days, new.first) : bisect_right(days, new.last)]) for new in wanted.new]
    for together in table_parts.filled(zip(wanted.new, sizes), _ROWS_AT_ONCE):
        rows = _read(system, wanted.old, schema, by, (together[0].first, together[-1].last))
        left -= len(rows)
        for new in together:
            own = rows.filter(_between(ds.field(by), schema.field(by).type, new.first, new.last))
            for begin in range(0, len(own), _ROWS_AT_ONCE):
                yield data_files.write_file(table, own.slice(begin, _ROWS_AT_ONCE), changes_rows=False)
    if left:
        msg = f"{table.table_uri}: {left} rows are in no day of their files' bounds, so the files are left as they are"
        raise LakehouseError(msg)


def _between(day: ds.Expression, kind: pa.DataType, first: date, last: date) -> ds.Expression:
    return (day >= pa.scalar(first, kind)) & (day <= pa.scalar(last, kind))


def _read(system: fs.FileSystem, group: Sequence[DayFile], schema: pa.Schema, by: str, days: tuple[date, date]) -> pa.Table:
    form = ds.ParquetFileFormat(read_options=table_io.SPARKS_TIMES)
    pieces = []
    for file in sorted(group, key=lambda one: (one.first, one.path)):
        if file.last >= days[0] and file.first <= days[1]:
            fragment = form.make_fragment(unquote(file.path), system)
            wanted = _between(ds.field(by), schema.field(by).type, *days)
            try:
                rows = data_files.conformed(schema, fragment.to_table(schema=fragment.physical_schema, filter=wanted))
            except pa.ArrowNotImplementedError:  # the file has string views, which Arrow cannot filter
                rows = data_files.conformed(schema, fragment.to_table(schema=fragment.physical_schema)).filter(wanted)
            pieces.append(rows)
    return data_files.sorted_by_day(pa.concat_tables(pieces), by)


def rows_per_file(lake: Lake, table: DeltaTable) -> int:
    """About how many rows of a table make a file of the target size."""
    return max(int(lake.settings.file_bytes / _bytes_per_row(table)), 1)


def _bytes_per_row(table: DeltaTable) -> float:
    listed = listed_files(table)
    rows = table_io.rows_of(listed)
    return pc.sum(listed["size_bytes"]).as_py() / rows if rows else _BYTES_PER_ROW
