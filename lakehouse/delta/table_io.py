"""Reading Delta tables through delta-rs, and adding rows to them. Other modules say what is in them.

Whole partitions are replaced in ``partitions``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial, reduce
from itertools import accumulate
from operator import and_
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from pyarrow import fs
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lakehouse.delta.table_cache import cache_of

if TYPE_CHECKING:
    from collections.abc import Sequence

Where = Mapping[str, Collection[Any]]
_COMPACT_ABOVE_FILES = 64
#: Times that Spark wrote as INT96 would become nanoseconds, which end in 1677 and 2262.
_SPARKS_TIMES = ds.ParquetReadOptions(coerce_int96_timestamp_unit="us")
#: Commits again where other writers were quicker, eight times.
_against_others = retry(
    retry=retry_if_exception_type(CommitFailedError),
    stop=stop_after_attempt(8),
    wait=wait_random_exponential(multiplier=0.05, max=2),
    reraise=True,
)


def open_table(path: str, options: Mapping[str, str] | None = None) -> DeltaTable | None:
    """The table at its newest version, or None where there is none.

    :param options: delta-rs options; where they carry a table cache, the table is kept open in it and shared with later reads.
    """
    cache = cache_of(options)
    return pinned(path, options) if cache is None else cache.table(path, partial(pinned, path, options))


def version(path: str, options: Mapping[str, str] | None = None) -> int:
    """The table's newest version, -1 where there is no table."""
    table = open_table(path, options)
    return -1 if table is None else table.version()


def pinned(path: str, options: Mapping[str, str] | None = None) -> DeltaTable | None:
    """As :func:`open_table`, but an object of one's own that stays at its version: what is written through it conflicts with
    everything that was committed since.
    """
    try:
        return DeltaTable(path, storage_options=dict(options or {}))
    except TableNotFoundError:
        return None


def read(
    path: str, columns: Sequence[str] | None = None, where: Where | None = None, options: Mapping[str, str] | None = None
) -> pa.Table | None:
    """The rows whose columns hold one of the values given for them in ``where``; None where there is no table."""
    table = open_table(path, options)
    if table is None:
        return None
    cache = cache_of(options)
    if cache is None:
        return read_version(table, columns, where)
    question = (path, tuple(columns or ()), *((column, frozenset(values)) for column, values in (where or {}).items()))
    return cache.rows(table, question, partial(read_version, table, columns, where))


def read_version(table: DeltaTable, columns: Sequence[str] | None = None, where: Where | None = None) -> pa.Table:
    """As :func:`read`, of a table that is open already."""
    rows = table.to_pyarrow_dataset(
        filesystem=local_files(table), file_pruning_predicate=_pruning(table, where), parquet_read_options=_SPARKS_TIMES
    )
    if columns is not None and (new := [name for name in columns if name not in rows.schema.names]):
        # A table that was written before the contract named these columns: they are empty in it.
        found = read_version(table, [name for name in columns if name not in new], where)
        for name in new:
            found = found.append_column(name, pa.nulls(len(found)))
        return found.select(list(columns))
    wanted, condition = None if columns is None else list(columns), _condition(where, rows.schema)
    try:
        return rows.to_table(columns=wanted, filter=condition)
    except pa.ArrowNotImplementedError:
        # delta-rs's own MERGE writes string views, which Arrow cannot hold against a file's statistics: filter behind it.
        pruning = _condition(
            {column: values for column, values in (where or {}).items() if column in _partitions(table)}, rows.schema
        )
        loaded = rows.to_table(columns=None if wanted is None else list({*wanted, *(where or {})}), filter=pruning)
        return loaded.filter(condition).select(wanted or loaded.column_names)


def split(rows: pa.Table, column: str) -> dict[Any, pa.Table]:
    """The rows of each value of a column, in the order in which they were."""
    values = rows[column].to_pylist()
    places: dict[Any, list[int]] = {}
    for position, value in enumerate(values):
        places.setdefault(value, []).append(position)
    ordered = rows.combine_chunks().take(pa.array([position for own in places.values() for position in own], pa.int64()))
    ends = list(accumulate(len(own) for own in places.values()))
    return {value: ordered.slice(end - len(own), len(own)) for (value, own), end in zip(places.items(), ends)}


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
    typed = {column: pa.array(list(values), schema.field(column).type) for column, values in (where or {}).items()}
    parts = [ds.field(column).isin(values) for column, values in typed.items()]
    return reduce(and_, parts) if parts else None


def _pruning(table: DeltaTable, where: Where | None) -> list[tuple[str, str, list[str]]] | None:
    """The part of a condition that tells files apart by partition.

    Without it Arrow makes an object of every file of the table before it looks at one: 0.7 s in one of 750 days.
    """
    partitioned = _partitions(table)
    wanted = [
        (column, "in", [str(value) for value in values]) for column, values in (where or {}).items() if column in partitioned
    ]
    return wanted or None


@_against_others
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

    :param app_id: makes the append idempotent: where this id has been committed before, nothing is written.
    :param app_version: for an id that goes on: nothing is written where it has come this far.
    :param since: how far that id had come when the rows were made; where it is further by now, nothing is written either.
    :returns: whether rows were written.
    :raises CommitFailedError: when other writers win eight times in a row.
    """
    arguments: dict[str, Any] = {"storage_options": dict(options or {}), "mode": "append"}
    if partition_by:
        arguments["partition_by"] = list(partition_by)
    table: DeltaTable | None = None
    if app_id is not None:
        table = open_table(path, options)
        if table is None:
            write_deltalake(path, rows.slice(0, 0), **{**arguments, "mode": "ignore"})
            table = DeltaTable(path, storage_options=dict(options or {}))
        reached = table.transaction_version(app_id)
        if reached is not None and (reached >= app_version or (since is not None and reached > since)):
            return False
        arguments["commit_properties"] = CommitProperties(app_transactions=[Transaction(app_id, app_version)])
    write_deltalake(path if table is None else table, rows, **arguments)  # the same id written since we looked is a conflict
    _compact(path, options)
    return True


@_against_others
def upsert(
    path: str, rows: pa.Table, keys: Sequence[str], *, options: Mapping[str, str] | None = None, partition_by: str | None = None
) -> bool:
    """Put rows in the place of those with the same ``keys``, or beside the others, in one commit; new columns are added.

    :param partition_by: one of the keys; files of other partitions are neither read nor written.
    :returns: whether any row was new or another.
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
        partitions = ", ".join(f"'{value}'" for value in sorted({str(one) for one in rows[partition_by].to_pylist()}))
        same = f"t.{partition_by} IN ({partitions}) AND {same}"
    there = {item.name for item in table.schema().fields}
    told = [name for name in rows.column_names if name not in keys]
    differs = " OR ".join(
        f"(t.{name} IS DISTINCT FROM s.{name})" if name in there else f"(s.{name} IS NOT NULL)" for name in told
    )
    merging = table.merge(rows, same, source_alias="s", target_alias="t", merge_schema=True)
    did = merging.when_matched_update_all(differs).when_not_matched_insert_all().execute()
    return bool(did["num_target_rows_inserted"] + did["num_target_rows_updated"])


def _compact(path: str, options: Mapping[str, str] | None) -> None:
    """Put small files together now and then: every append adds one, and every look-up opens them all."""
    table = open_table(path, options)
    if table is not None and len(table.file_uris()) > _COMPACT_ABOVE_FILES:
        with suppress(CommitFailedError):  # another writer did, or will
            table.optimize.compact()
