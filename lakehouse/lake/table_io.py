"""Reads Delta tables through delta-rs. Rows are written by ``row_writer``, whole partitions by ``partition_writer``."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import date
from functools import reduce
from itertools import accumulate
from operator import and_, or_
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from lakehouse import pieces
from lakehouse.errors import LakehouseError
from lakehouse.lake import replica
from lakehouse.lake.delta_rs_internals import file_system, has_replica, listed_files
from lakehouse.lake.table_cache import Entry, committing, is_listed_behind, moment_of, newest_moment, next_look, note_listing
from lakehouse.lake.table_folder import UnknownFormError, count_request, names_below

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    import pyarrow.parquet as pq
    from deltalake.transaction import AddAction, RemoveAction

    from lakehouse.lake.table_cache import TableCache

#: The wanted values by column; many are best given as an Arrow array.
Where = Mapping[str, "Collection[Any] | pa.Array"]
#: The rows of a piece of a table that is read in pieces, and the greatest number of rows of a batch.
PIECE_ROWS = 2**18
_BATCH_ROWS = 2**16
#: With more values than this, every file is expected to hold one of them.
_FEW_VALUES = 10_000
#: Up to this many values are compared one by one: then Arrow uses the statistics of row groups.
_SINGLE_VALUES = 32
#: Times that Spark wrote as INT96 would become nanoseconds, which end in 1677 and 2262.
SPARKS_TIMES = ds.ParquetReadOptions(coerce_int96_timestamp_unit="us")


class DamagedLogError(LakehouseError):
    """A table whose log cannot be read. The message names the table, and what to do."""


#: The errors of a table that cannot be read.
UNREADABLE = (OSError, DeltaError, pa.ArrowException, DamagedLogError)


def may_exist(path: str) -> bool:
    """Whether a table has a log, as far as a local disk tells: delta-rs takes half a millisecond for the same answer."""
    return "://" in path or Path(path, "_delta_log").is_dir()


def open_snapshot(path: str, options: Mapping[str, str] | None = None) -> DeltaTable | None:
    """The table at its newest version, as an object that no cache updates; None if it does not exist.

    It stays at its version: a write through it conflicts with every commit since.
    """
    if not may_exist(path):
        return None
    count_request(path, "opens")
    try:
        if replica.is_possible(path, options or {}):
            with suppress(UnknownFormError):
                return replica.open_table(path, dict(options or {}))
        return DeltaTable(path, storage_options=dict(options or {}))
    except TableNotFoundError:
        return None
    except DeltaError as problem:
        if type(problem) is not DeltaError:
            raise  # one with a meaning of its own
        reason = f"{problem}".strip().splitlines()[0]
        msg = (
            f"{path}: its Delta log cannot be read ({reason}). A power failure may have cut its newest entry off: move the "
            f"newest file of {path}/_delta_log away, and run the same command again, which makes up for what it held"
        )
        raise DamagedLogError(msg) from None


def create(path: str, options: Mapping[str, str], **how: Any) -> DeltaTable:
    """Create a table without rows, unless there is one.

    :param how: as for ``DeltaTable.create``.
    :returns: the table at its newest version.
    """
    if replica.is_possible(path, options):
        with suppress(UnknownFormError):
            table = replica.create(path, dict(options), **how) or replica.open_table(path, dict(options))
            if table is not None:
                return table
    return DeltaTable.create(path, mode="ignore", storage_options=dict(options), **how)


def bring(table: DeltaTable, where: Where | None = None) -> None:
    """Bring the files with rows that meet ``where`` to this machine, if the table is in an object store and they are few.

    The next operation of delta-rs that reads rows of the table reads no others.
    """
    if has_replica(table):
        files = files_with(table, where or {})
        replica.bring(table, dict(zip(files["path"].to_pylist(), files["size_bytes"].to_pylist())))


def commit_files(table: DeltaTable, actions: Sequence[AddAction | RemoveAction], mode: str, **named: Any) -> None:
    """Commit files that were written, with an open table, and leave it at the version of the commit.

    :param named: further arguments of ``DeltaTable.create_write_transaction``.
    """
    with committing(table):
        before = table.version()
        table.create_write_transaction(actions, mode, **named)
        if table.version() == before:  # so does delta-rs
            table.update_incremental()


class CachedStorageOptions(dict[str, str]):
    """delta-rs options together with the cache that reads with these options use."""

    def __init__(self, options: Mapping[str, str], cache: TableCache) -> None:
        super().__init__(options)
        self.cache = cache


def cache_of(options: Mapping[str, str] | None) -> TableCache | None:
    """The cache that reads with these options use."""
    return options.cache if isinstance(options, CachedStorageOptions) else None


#: For so many seconds a table counts as absent that a listing of its layer has not shown.
_LISTED_SECONDS = 14.0
_LISTING = Lock()
#: By the address of a layer: when it was listed, after which moment, and the names in it.
_listed: dict[str, tuple[float, int, set[str]]] = {}
#: The tables to which this process has committed: it may have created them since.
_written: set[str] = set()


def open_listed(path: str, options: Mapping[str, str] | None = None) -> DeltaTable | None:
    """The same in an object store, where a listing of the layer tells which tables there are, for some seconds.

    Most tables that a run or a sensor looks at do not exist in most deployments, such as those of redactions. To find that out
    for each would take two requests. Tables that this process creates are noted, and if it meets commits of another one, as in a
    conflict, the layer is listed again.
    """
    if path in _written:
        return open_snapshot(path, options)
    folder, _, name = path.rpartition("/")
    with _LISTING:
        now, moment = time.monotonic(), newest_moment()
        read_at, read_in, names = _listed.get(folder, (-math.inf, -1, set[str]()))
        if now - read_at > _LISTED_SECONDS or read_in < moment_of(path) or not is_listed_behind(folder):
            count_request(f"{folder}/*", "listings")
            number = next_look()
            try:
                if replica.is_possible(folder, options or {}):
                    names = names_below(folder, options or {})
                else:
                    infos = DeltaStorageHandler(folder, dict(options or {})).get_file_info_selector(_DIRECTLY)
                    names = {info.base_name for info in infos}
            except UNREADABLE:  # such as a store that lets nobody list
                names = {name}
            else:
                _listed[folder] = (now, moment, names)
                note_listing(folder, number)
        note_listing(folder)
    return open_snapshot(path, options) if name in names else None


def note_table(path: str) -> None:
    """Note that there is a table, which this process may have created."""
    _written.add(path)


_DIRECTLY = fs.FileSelector("", recursive=False, allow_not_found=True)


def question(path: str, columns: Sequence[str] | None, where: Where | None, *more: Hashable) -> Hashable:
    """The identity of a result that is computed from ``columns`` of the rows that meet ``where``."""
    values_by_column = ((column, frozenset(values)) for column, values in (where or {}).items())
    return (path, tuple(columns or ()), *values_by_column, *more)


def read_version(table: DeltaTable, columns: Sequence[str] | None = None, where: Where | None = None) -> pa.Table:
    """The rows of :meth:`lakehouse.lake.Table.read` for an open table."""
    return _read(table, files_with(table, where or {}), columns, where or {})


def read_files(table: DeltaTable, files: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of some of a table's files.

    :param files: as ``listed_files`` gives them.
    """
    return _read(table, files, columns, {})


def _read(table: DeltaTable, files: pa.Table, columns: Sequence[str] | None, where: Where) -> pa.Table:
    rows, left = _dataset(table, files, where)
    wanted = rows.schema.names if columns is None else list(columns)
    known = [name for name in wanted if name in rows.schema.names]
    condition = _condition(left, rows.schema)
    try:
        found = rows.to_table(columns=known, filter=condition)
    except pa.ArrowNotImplementedError:
        # delta-rs's own MERGE writes string views, which Arrow cannot compare with a file's statistics: filter after reading.
        found = rows.to_table(columns=list({*known, *left})).filter(condition).select(known)
    return found if known == wanted else with_columns(found, wanted)


def parsed(
    table: DeltaTable, where: Where, parse: Callable[[pa.Table], list[Entry]], options: Mapping[str, str] | None
) -> list[Entry]:
    """The entries that ``parse`` makes of the rows of whole partitions; with a cache, only files that it does not cover are
    parsed.

    :param parse: the entry of a row must not depend on other rows.
    """
    cache, files = cache_of(options), files_with(table, where)
    if cache is None or table.protocol().min_reader_version > 1:  # see ``_dataset``
        return parse(read_version(table, None, where))

    def parse_new(paths: frozenset[str]) -> list[Entry]:
        return parse(_read(table, files.filter(pc.is_in(files["path"], pa.array(sorted(paths)))), None, {}))

    return cache.grown(question(table.table_uri, None, where), frozenset(files["path"].to_pylist()), parse_new)


def pieces_of_version(
    table: DeltaTable, columns: Sequence[str], where: Where | None = None, listed: pa.Table | None = None
) -> Iterator[pa.Table]:
    """The pieces of :meth:`lakehouse.lake.Table.pieces` for an open table, at least one; a piece has no order and no meaning.

    :param listed: only of these of its files, as ``listed_files`` gives them.
    """
    files = files_with(table, where or {}, listed)
    if rows_of(files) <= PIECE_ROWS:
        yield _read(table, files, columns, where or {})
        return
    rows, left = _dataset(table, files, where or {})
    yield from pieces.ahead(_pieces(rows, columns, left))


def _pieces(rows: ds.Dataset, columns: Sequence[str], where: Where) -> Iterator[pa.Table]:
    known = [name for name in columns if name in rows.schema.names]
    schema = pa.schema([rows.schema.field(name) for name in known])
    held: list[pa.RecordBatch] = []
    count, any_piece = 0, False
    for fragment in rows.get_fragments():
        for batch in _batches(fragment, rows.schema, known, where):
            held.append(batch)
            count += len(batch)
            if count >= PIECE_ROWS:
                yield with_columns(pa.Table.from_batches(held, schema), columns)
                held, count, any_piece = [], 0, True
    if held or not any_piece:
        yield with_columns(pa.Table.from_batches(held, schema), columns)


def _batches(fragment: ds.ParquetFileFragment, schema: pa.Schema, columns: list[str], where: Where) -> Iterator[pa.RecordBatch]:
    fragment, condition = _with_days(fragment, schema, where), _condition(where, schema, single_values=1)
    options: dict[str, Any] = {"batch_size": _BATCH_ROWS, "batch_readahead": 2}
    batches = fragment.scanner(schema=schema, columns=columns, filter=condition, **options).to_reader()
    try:
        first = next(batches, None)
    except pa.ArrowNotImplementedError:  # the file has string views, see ``read_version``
        for batch in fragment.scanner(schema=schema, columns=list({*columns, *where}), **options).to_reader():
            yield from pa.Table.from_batches([batch]).filter(condition).select(columns).to_batches()
        return
    if first is not None:
        yield first
    yield from batches


def _with_days(fragment: ds.ParquetFileFragment, schema: pa.Schema, where: Where) -> ds.ParquetFileFragment:
    """The row groups of a file that may hold one of several wanted days; Arrow reads all between the first and the last one."""
    for column, values in where.items():
        if len(values) > 1 and pa.types.is_date(schema.field(column).type) and column in fragment.physical_schema.names:
            fragment = fragment.subset(row_group_ids=row_groups_with(fragment.metadata, column, Within(values)))
    return fragment


def row_groups_with(metadata: pq.FileMetaData, column: str, within: Within) -> list[int]:
    """The row groups of a file that may hold one of some values of a plain column, by their statistics."""
    if column not in metadata.schema.names:
        return [*range(metadata.num_row_groups)]  # the file is older than the column
    place = leaf(metadata, column)
    bounds = [metadata.row_group(group).column(place).statistics for group in range(metadata.num_row_groups)]
    may_hold = [known is None or not known.has_min_max or within(known.min, known.max) for known in bounds]
    return [group for group, holds in enumerate(may_hold) if holds]


def leaf(metadata: pq.FileMetaData, name: str) -> int:
    """The place of a plain column among the leaves of a file's schema; a column of lists or structs has leaves of its own."""
    return next(place for place in range(metadata.num_columns) if metadata.schema.column(place).path == name)


def with_columns(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows with these columns; columns that are newer than the table from which the rows were read are empty."""
    for name in columns:
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(len(rows)))
    return rows.select(list(columns))


def distinct_of_version(table: DeltaTable, columns: Sequence[str], where: Where | None = None) -> pa.Table:
    """The distinct combinations of values in ``columns`` of an open table."""
    values = [piece.group_by(list(columns)).aggregate([]) for piece in pieces_of_version(table, columns, where)]
    return pa.concat_tables(values).group_by(list(columns)).aggregate([])


def meeting(rows: pa.Table, where: Where) -> pa.Table:
    """Those ``rows`` in memory that meet ``where``, see :meth:`lakehouse.lake.Table.read`."""
    condition = _condition(where, rows.schema)
    return rows if condition is None else rows.filter(condition)


def split(rows: pa.Table, column: str) -> dict[Any, pa.Table]:
    """The rows for each value of ``column``, in their order."""
    codes = rows[column].combine_chunks().dictionary_encode(null_encoding="encode")
    places = codes.indices.to_numpy()
    ordered = rows.combine_chunks().take(pa.array(np.argsort(places, kind="stable")))
    counts = np.bincount(places, minlength=len(codes.dictionary)).tolist()
    begins = accumulate(counts, initial=0)
    return {value: ordered.slice(*part) for value, part in zip(codes.dictionary.to_pylist(), zip(begins, counts))}


def files_with(table: DeltaTable, where: Where, listed: pa.Table | None = None) -> pa.Table:
    """The files that may hold rows which meet ``where``, as delta-rs lists them from the log.

    :param listed: only those of these files.
    """
    files = listed_files(table) if listed is None else listed
    if any(not len(values) for values in where.values()):
        return files.slice(0, 0)
    for column, values in where.items():
        if f"partition.{column}" in files.column_names:
            kept = files[f"partition.{column}"]
            files = files.filter(pc.is_in(kept, value_set=_typed(values, kept.type)))
        elif f"min.{column}" in files.column_names and len(values) <= _FEW_VALUES:
            within = Within(values)
            bounds = zip(files[f"min.{column}"].to_pylist(), files[f"max.{column}"].to_pylist())
            files = files.filter(pa.array([within(least, greatest) for least, greatest in bounds], pa.bool_()))
    return files


class Within:
    """A test whether one of ``values`` lies between two bounds from file statistics; texts are compared by code points.

    Bounds of times and numbers may have been rounded, so they exclude nothing; nor do bounds that are None.
    """

    def __init__(self, values: Collection[Any] | pa.Array) -> None:
        known = values.to_pylist() if isinstance(values, pa.Array) else list(values)
        self._sorted = sorted(map(_in_order, known)) if {type(value) for value in known} in ({str}, {date}) else None

    def __call__(self, least: Any, greatest: Any) -> bool:
        """Whether a value may lie between the bounds, themselves included."""
        if self._sorted is None or least is None or greatest is None:
            return True
        place = bisect_left(self._sorted, _in_order(least))
        return place < len(self._sorted) and bool(self._sorted[place] <= _in_order(greatest))


def _in_order(value: str | date) -> Any:
    return value.encode() if isinstance(value, str) else value


def rows_at_most(table: DeltaTable, where: Where) -> int:
    """An upper bound of the number of rows that meet ``where``, from the log alone."""
    return rows_of(files_with(table, where))


def is_filled(files: pa.Table, column: str) -> bool:
    """Whether the log says that no row of the listed ``files`` has NULL in a column."""
    nulls = f"null_count.{column}"
    return nulls in files.column_names and bool(pc.all(pc.fill_null(pc.equal(files[nulls], 0), False)).as_py())


def rows_of(files: pa.Table) -> int:
    """The number of rows in the listed ``files``."""
    return pc.sum(files["num_records"]).as_py() or 0


def _dataset(table: DeltaTable, files: pa.Table, where: Where) -> tuple[ds.Dataset, Where]:
    """The files that may hold wanted rows (see :func:`files_with`), and the part of ``where`` that their rows do not all meet.

    delta-rs's own dataset holds an expression for the statistics of every file: 1 s in a table of 750 days, and as much again to
    read it.
    """
    if table.protocol().min_reader_version > 1:  # delta-rs knows what it can read, and reports what it cannot
        return table.to_pyarrow_dataset(filesystem=file_system(table), parquet_read_options=SPARKS_TIMES), where
    schema = pa.schema(table.schema().to_arrow())
    partitions = [column for column in table.metadata().partition_columns if f"partition.{column}" in files.column_names]
    values = [files[f"partition.{column}"].to_pylist() for column in partitions]
    system = file_system(table, [unquote(path) for path in files["path"].to_pylist()])
    form = ds.ParquetFileFormat(read_options=SPARKS_TIMES)
    fragments = [
        form.make_fragment(unquote(path), system, _equal(partitions, own), file_size=size)
        for path, size, *own in zip(files["path"].to_pylist(), files["size_bytes"].to_pylist(), *values)
    ]
    left = {column: wanted for column, wanted in where.items() if column not in partitions}
    return ds.FileSystemDataset(fragments, schema, form, system), left


def _equal(columns: list[str], values: list[Any]) -> ds.Expression | None:
    parts = [ds.field(column).is_null() if value is None else ds.field(column) == value for column, value in zip(columns, values)]
    return reduce(and_, parts) if parts else None


def _condition(where: Where | None, schema: pa.Schema, single_values: int = _SINGLE_VALUES) -> ds.Expression | None:
    typed = {column: _typed(values, schema.field(column).type) for column, values in (where or {}).items()}
    parts = [_holds(column, values, single_values) for column, values in typed.items()]
    return reduce(and_, parts) if parts else None


def _holds(column: str, values: pa.Array, single_values: int) -> ds.Expression:
    """The condition that ``column`` holds one of ``values``; Arrow uses the statistics of row groups for single values only."""
    few = 1 if pa.types.is_string(values.type) else single_values
    if values.null_count or not len(values):
        return ds.field(column).isin(values)
    if len(values) <= few:
        return reduce(or_, (ds.field(column) == value for value in values))
    if not pa.types.is_date(values.type):
        return ds.field(column).isin(values)
    ends = pc.min_max(values)  # Arrow skips row groups beyond them, and none by the list
    return (ds.field(column) >= ends["min"]) & (ds.field(column) <= ends["max"]) & ds.field(column).isin(values)


def _typed(values: Collection[Any] | pa.Array, kind: pa.DataType) -> pa.Array:
    """The values with the type of their column: Arrow cannot infer a type from an empty collection."""
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(list(values), kind)
