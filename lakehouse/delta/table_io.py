"""Reads Delta tables through delta-rs, appends rows and upserts them. What a table holds is defined by its writer.

Replacing whole partitions is in ``partition_writer``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial, reduce
from itertools import accumulate
from operator import and_
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from pyarrow import fs
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lakehouse.delta import compaction
from lakehouse.delta.table_cache import cache_of

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The values wanted of some columns; many are best given as an Arrow array.
Where = Mapping[str, "Collection[Any] | pa.Array"]
_COMPACT_ABOVE_FILES = 64
#: Larger files stay as they are until maintenance, also because the rows of some are sorted.
_SMALL_FILE_BYTES = 2**23
#: Times that Spark wrote as INT96 would become nanoseconds, which end in 1677 and 2262.
_SPARKS_TIMES = ds.ParquetReadOptions(coerce_int96_timestamp_unit="us")
#: Retries a commit that conflicts with other writers, eight times in all.
retried_on_conflict = retry(
    retry=retry_if_exception_type(CommitFailedError),
    stop=stop_after_attempt(8),
    wait=wait_random_exponential(multiplier=0.05, max=2),
    reraise=True,
)


def open_table(path: str, options: Mapping[str, str] | None = None) -> DeltaTable | None:
    """The table at its newest version; None if it does not exist.

    :param options: delta-rs options; if they carry a table cache, the table is kept open in it and shared with later reads.
    """
    cache = cache_of(options)
    return open_snapshot(path, options) if cache is None else cache.table(path, partial(open_snapshot, path, options))


def open_or_create(
    path: str, schema: pa.Schema, options: Mapping[str, str] | None = None, partition_by: Sequence[str] | None = None
) -> DeltaTable:
    """The table at its newest version, created without rows if it does not exist."""
    table = open_table(path, options)
    if table is not None:
        return table
    partitions = {"partition_by": list(partition_by)} if partition_by else {}
    write_deltalake(path, schema.empty_table(), storage_options=dict(options or {}), mode="ignore", **partitions)
    return DeltaTable(path, storage_options=dict(options or {}))


def version(path: str, options: Mapping[str, str] | None = None) -> int:
    """The table's newest version, -1 if it does not exist."""
    table = open_table(path, options)
    return -1 if table is None else table.version()


def open_snapshot(path: str, options: Mapping[str, str] | None = None) -> DeltaTable | None:
    """The table at its newest version, as an object that no cache updates; None if it does not exist.

    It stays at its version: a write through it conflicts with every commit since.
    """
    try:
        return DeltaTable(path, storage_options=dict(options or {}))
    except TableNotFoundError:
        return None


def read(
    path: str, columns: Sequence[str] | None = None, where: Where | None = None, options: Mapping[str, str] | None = None
) -> pa.Table | None:
    """The rows whose columns hold one of the values given for them in ``where``; None if the table does not exist."""
    table = open_table(path, options)
    if table is None:
        return None
    cache = cache_of(options)
    if cache is None:
        return read_version(table, columns, where)
    question = (path, tuple(columns or ()), *((column, frozenset(values)) for column, values in (where or {}).items()))
    return cache.rows(table, question, partial(read_version, table, columns, where))


def read_version(table: DeltaTable, columns: Sequence[str] | None = None, where: Where | None = None) -> pa.Table:
    """The same as :func:`read` for an open table."""
    rows = table.to_pyarrow_dataset(
        filesystem=local_files(table), file_pruning_predicate=_pruning(table, where), parquet_read_options=_SPARKS_TIMES
    )
    if columns is not None and (new := [name for name in columns if name not in rows.schema.names]):
        # A table that was written before the contract named these columns: they are empty in it.
        existing = read_version(table, [name for name in columns if name not in new], where)
        for name in new:
            existing = existing.append_column(name, pa.nulls(len(existing)))
        return existing.select(list(columns))
    wanted, condition = None if columns is None else list(columns), _condition(where, rows.schema)
    try:
        return rows.to_table(columns=wanted, filter=condition)
    except pa.ArrowNotImplementedError:
        # delta-rs's own MERGE writes string views, which Arrow cannot compare with a file's statistics: filter after reading.
        pruning = _condition(
            {column: values for column, values in (where or {}).items() if column in _partitions(table)}, rows.schema
        )
        loaded = rows.to_table(columns=None if wanted is None else list({*wanted, *(where or {})}), filter=pruning)
        return loaded.filter(condition).select(wanted or loaded.column_names)


def split(rows: pa.Table, column: str) -> dict[Any, pa.Table]:
    """The rows of each value of a column, in their order."""
    codes = rows[column].combine_chunks().dictionary_encode(null_encoding="encode")
    places = codes.indices.to_numpy()
    ordered = rows.combine_chunks().take(pa.array(np.argsort(places, kind="stable")))
    counts = np.bincount(places, minlength=len(codes.dictionary)).tolist()
    begins = accumulate(counts, initial=0)
    return {value: ordered.slice(*part) for value, part in zip(codes.dictionary.to_pylist(), zip(begins, counts))}


def local_files(table: DeltaTable) -> fs.FileSystem | None:
    """Arrow's own file system for local tables: reading through delta-rs's can end the process with an abort at exit."""
    uri = table.table_uri
    if "://" in uri and not uri.startswith("file://"):
        return None
    return fs.SubTreeFileSystem(unquote(uri.removeprefix("file://")), fs.LocalFileSystem())


def rows_at_most(table: DeltaTable, where: Where) -> int:
    """How many rows the files of the wanted partitions hold, from the log alone."""
    files = pa.table(table.get_add_actions(flatten=True))
    for column in set(where) & _partitions(table):
        values = files[f"partition.{column}"]
        files = files.filter(pc.is_in(values, pa.array(list(where[column]), values.type)))
    return pc.sum(files["num_records"]).as_py() or 0


def _partitions(table: DeltaTable) -> set[str]:
    return set(table.metadata().partition_columns)


def _condition(where: Where | None, schema: pa.Schema) -> ds.Expression | None:
    # With its type: Arrow cannot guess one from no values.
    typed = {column: _typed(values, schema.field(column).type) for column, values in (where or {}).items()}
    parts = [ds.field(column).isin(values) for column, values in typed.items()]
    return reduce(and_, parts) if parts else None


def _typed(values: Collection[Any] | pa.Array, kind: pa.DataType) -> pa.Array:
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(list(values), kind)


def _pruning(table: DeltaTable, where: Where | None) -> list[tuple[str, str, list[str]]] | None:
    """The part of a condition that selects files by partition.

    Without it Arrow creates an object for every file of the table first: 0.7 s in a table of 750 days.
    """
    partitioned = _partitions(table)
    wanted = [
        (column, "in", [str(value) for value in values]) for column, values in (where or {}).items() if column in partitioned
    ]
    return wanted or None


@retried_on_conflict
def append(
    path: str,
    rows: pa.Table,
    *,
    options: Mapping[str, str] | None = None,
    partition_by: Sequence[str] | None = None,
    app_id: str | None = None,
    app_version: int = 1,
    since: int | None = None,
) -> bool:
    """Append rows in one commit.

    :param app_id: makes the append idempotent: nothing is written if this id has been committed before.
    :param app_version: for an id with increasing versions: nothing is written if this version has been committed.
    :param since: the version of the id that the rows are based on; nothing is written if a later one has been committed.
    :returns: whether rows were written.
    :raises CommitFailedError: when other writers win eight times in a row.
    """
    arguments: dict[str, Any] = {"storage_options": dict(options or {}), "mode": "append"}
    if partition_by:
        arguments["partition_by"] = list(partition_by)
    table: DeltaTable | None = None
    if app_id is not None:
        table = open_or_create(path, rows.schema, options, partition_by)
        committed = table.transaction_version(app_id)
        if committed is not None and (committed >= app_version or (since is not None and committed > since)):
            return False
        arguments["commit_properties"] = CommitProperties(app_transactions=[Transaction(app_id, app_version)])
    write_deltalake(path if table is None else table, rows, **arguments)  # the same id committed since then is a conflict
    _compact(path, options)
    return True


def append_new(
    path: str,
    table: DeltaTable,
    rows: pa.Table,
    app_ids: Collection[str],
    options: Mapping[str, str] | None,
    row_group_rows: int | None = None,
) -> bool:
    """Append rows of which the table holds none at the version at which it was opened, in one commit.

    What is new has to be determined again after a conflict: a caller is to be :data:`retried_on_conflict`.

    :param table: the table at ``path``, opened before it was determined what is new.
    :param app_ids: of what is new; a commit with one of them since then is a conflict.
    :param row_group_rows: how many rows a row group of the file has at most, for rows that are sorted.
    :returns: whether there were rows to write.
    :raises CommitFailedError: in case of a conflict.
    """
    if not len(rows):
        return False
    transactions = [Transaction(app_id, 1) for app_id in app_ids]
    properties = WriterProperties(max_row_group_size=row_group_rows) if row_group_rows else None
    why = CommitProperties(app_transactions=transactions)
    write_deltalake(table, rows, mode="append", commit_properties=why, writer_properties=properties)
    _compact(path, options)
    return True


@retried_on_conflict
def upsert(
    path: str, rows: pa.Table, keys: Sequence[str], *, options: Mapping[str, str] | None = None, partition_by: str | None = None
) -> bool:
    """Update the rows with the same ``keys`` and insert the others, in one commit; new columns are added.

    :param partition_by: one of the keys; files of other partitions are neither read nor written.
    :returns: whether any row was inserted or changed.
    :raises CommitFailedError: when other writers win eight times in a row.
    """
    if not len(rows):
        return False
    table = open_table(path, options)
    if table is None:
        write_deltalake(path, rows.slice(0, 0), storage_options=dict(options or {}), partition_by=partition_by, mode="ignore")
        table = DeltaTable(path, storage_options=dict(options or {}))
    same = " AND ".join(f"t.{key} = s.{key}" for key in keys)
    if partition_by:
        partitions = ", ".join(f"'{value}'" for value in sorted(map(str, pc.unique(rows[partition_by]).to_pylist())))
        same = f"t.{partition_by} IN ({partitions}) AND {same}"
    existing = {item.name for item in table.schema().fields}
    values = [name for name in rows.column_names if name not in keys]
    differs = " OR ".join(
        f"(t.{name} IS DISTINCT FROM s.{name})" if name in existing else f"(s.{name} IS NOT NULL)" for name in values
    )
    merging = table.merge(rows, same, source_alias="s", target_alias="t", merge_schema=True)
    metrics = merging.when_matched_update_all(differs).when_not_matched_insert_all().execute()
    return bool(metrics["num_target_rows_inserted"] + metrics["num_target_rows_updated"])


def _compact(path: str, options: Mapping[str, str] | None) -> None:
    """Compact the table when its partitions have many small files: every append adds one, and every read opens them all."""
    table = open_table(path, options)
    if table is None or len(table.file_uris()) <= _COMPACT_ABOVE_FILES:
        return
    files = pa.table(table.get_add_actions())
    small = files.filter(pc.less(files["size_bytes"], _SMALL_FILE_BYTES))["path"].to_pylist()
    if len(small) <= _COMPACT_ABOVE_FILES * len({file.rpartition("/")[0] for file in small}):
        return
    with compaction.claimed(path, options) as is_ours, suppress(CommitFailedError):  # another writer updated rows of these files
        if is_ours and (newest := open_snapshot(path, options)) is not None:
            newest.optimize.compact(target_size=_SMALL_FILE_BYTES)
