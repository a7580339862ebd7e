"""The commits to Bronze and Silver: each is made by a function of this module and carries metadata with its cause.

Spark commits many rows; delta-rs commits few rows, in a tenth of the time and without a JVM, and rows in pieces. Only one process
at a time commits to these tables in S3. The table properties keep every engine able to read: no deletion vectors, no column
mapping, classic checkpoints. Gold is committed through delta-rs, in ``gold.publication.revisions``.

The completed tasks of the running stages are reported to the listeners of ``lakehouse.pieces``. A Connect client does not see the
server's stages and reports nothing.
"""

from __future__ import annotations

import json
import threading
import uuid
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from delta import exceptions
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lakehouse import pieces
from lakehouse.calendar import days as day_conditions
from lakehouse.delta import columns as delta_columns
from lakehouse.delta import commit_log, data_files, layout, partition_writer
from lakehouse.delta.leases import alone
from lakehouse.delta.row_writer import in_one_commit
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_parts
from lakehouse.lake.delta_rs_internals import transaction_version
from lakehouse.lake.table_cache import committing, look_again

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import date

    from deltalake import CommitProperties, DeltaTable
    from pyspark import StatusTracker
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.delta.columns import Columns
    from lakehouse.lake import Lake, Table


#: Readers of some event days skip most row groups of a large delivery, whose rows are sorted by event day.
_IN_SMALL_GROUPS = data_files.compressed(2**15)
#: The key of a commit's id in its metadata.
_COMMIT_ID = "commit_id"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


class AppendedMeanwhileError(LakehouseError):
    """Another writer has appended to a table since it was read; see :func:`append_alone`."""

    passes_by_itself = True


#: The errors raised if another writer has committed first. In Python, Delta's other conflict classes do not inherit from the
#: first one.
CONFLICTS = (
    AppendedMeanwhileError,
    CommitFailedError,
    exceptions.DeltaConcurrentModificationException,
    exceptions.ConcurrentWriteException,
    exceptions.MetadataChangedException,
    exceptions.ProtocolChangedException,
    exceptions.ConcurrentAppendException,
    exceptions.ConcurrentDeleteReadException,
    exceptions.ConcurrentDeleteDeleteException,
    exceptions.ConcurrentTransactionException,
)


#: After a conflict with another writer, everything is recomputed from a fresh read: writing the same DataFrame again would undo
#: the other writer's commit.
recomputed_on_conflict = retry(
    retry=retry_if_exception_type(CONFLICTS),
    stop=stop_after_attempt(5),
    wait=wait_random_exponential(multiplier=0.2, max=5),
    before_sleep=lambda _: look_again(),
    reraise=True,
)


class MergeClauses(NamedTuple):
    """The rules for merging rows ``s`` into a table ``t``, in SQL that Spark and delta-rs both understand.

    Rows are matched by ``on``. Matched rows that meet ``delete`` are deleted; other matched rows that meet ``update`` are
    updated; unmatched rows that meet ``insert`` are inserted. ``columns`` are taken from ``s``, the columns ``emptied`` become
    NULL.
    """

    on: str
    delete: str
    update: str
    insert: str
    columns: Sequence[str]
    emptied: Sequence[str]


def table_of(target: Table, columns: Columns, partition_by: str | None, properties: Mapping[str, str]) -> DeltaTable:
    """The table at its newest version, created if it does not exist; columns get the wider types of the contract.

    :param partition_by: the column by which a new table is partitioned, if any; see also ``delta.layout.of_days``.
    :param properties: the properties of a new table; a table of an earlier release gets missing ones, but stays partitioned.
    """
    table = target.open()
    if table is None:
        return partition_writer.create(target, delta_columns.arrow_schema(columns), partition_by, properties=properties)
    of_new = () if table_parts.share_files(table) else (table_parts.DAYS, *partition_writer.ALL_STATISTICS)
    wanted = {name: value for name, value in properties.items() if name not in of_new}
    lacking = wanted.items() - table.metadata().configuration.items()
    if lacking:
        with alone(target):
            table.alter.set_table_properties(dict(lacking))
    return _widened(target, columns, table)


def _widened(target: Table, columns: Columns, table: DeltaTable) -> DeltaTable:
    """A table whose columns have the wider types of a contract."""
    if not _other_types(table, columns):
        return table
    with alone(target):
        newest = target.snapshot()
        if newest is not None and delta_columns.widen(newest, delta_columns.arrow_schema(columns)):
            return newest
    return table


def _other_types(table: DeltaTable, columns: Columns) -> list[tuple[str, pa.DataType, pa.DataType]]:
    """The columns of a table that have another type in a contract: name, type there, type here."""
    actual = {item.name: item.type for item in pa.schema(table.schema().to_arrow())}
    wanted = ((item.name, actual.get(item.name, item.type), item.type) for item in delta_columns.arrow_schema(columns))
    return [(name, before, now) for name, before, now in wanted if before != now]


class SchemaChangeError(LakehouseError):
    """A table's columns and its contract's cannot be reconciled. The message names them and the remedy."""


def add_missing_columns(spark: Callable[[], SparkSession], target: Table, columns: Columns) -> None:
    """Add the columns of a contract that a table lacks, and give others their wider types.

    Columns that the contract no longer has stay, and stay empty.

    :param spark: called only when there is a column to add.
    :raises SchemaChangeError: when a column has another type that is not only wider.
    """
    new = missing_columns(target, columns)
    table = target.open()
    if table is not None:
        _widened(target, columns, table)
    if new:
        with alone(target):
            spark().sql(f"ALTER TABLE delta.`{target}` ADD COLUMNS ({delta_columns.ddl(new)})")


def missing_columns(target: Table, columns: Columns) -> Columns:
    """The columns of a contract that a table lacks; none if there is no table.

    :raises SchemaChangeError: when a column has another type that is not only wider.
    """
    table = target.open()
    if table is None:
        return ()
    changed = [
        (name, before, now) for name, before, now in _other_types(table, columns) if not delta_columns.is_wider(before, now)
    ]
    if changed:
        types = ", ".join(f"{name} is {before} in the table and {now} in the contract" for name, before, now in changed)
        msg = (
            f"{types}: a type may only become wider (int to bigint, a decimal with more digits before the point), because older "
            "files cannot be read as another one; give the field another name (with 'column:' it reads the same column of the "
            "file), or set the old type again"
        )
        raise SchemaChangeError(msg)
    actual = {item.name for item in table.schema().fields}
    return tuple((name, kind) for name, kind in columns if name not in actual)


def append_alone(frame: DataFrame, target: Table, app_id: str, since: int, metadata: Mapping[str, Any]) -> None:
    """Append rows in one commit, unless another writer has appended under the same ``app_id`` since version ``since``.

    If two such appends run at once, Delta fails one of them; an append that begins later is dropped by Spark without an error. So
    the commit is looked up by a unique id.

    :param since: the version of the table that the rows are based on.
    :raises AppendedMeanwhileError: if another writer has appended; other :data:`CONFLICTS` are possible as well.
    """
    commit_id = uuid.uuid4().hex
    named = json.dumps({**metadata, _COMMIT_ID: commit_id}, default=str)
    options = {"txnAppId": app_id, "txnVersion": f"{since + 1}", "userMetadata": named}
    with alone(target), watched(frame.sparkSession, f"append to {target}"):
        frame.write.format("delta").mode("append").options(**options).save(target.address)
    table = target.open()
    commits = [] if table is None else commit_log.history(table, since)
    if not any(commit_log.commit_metadata(commit).get(_COMMIT_ID) == commit_id for commit in commits):
        msg = f"another writer has appended to {target} since version {since}"
        raise AppendedMeanwhileError(msg)


def append_rows_alone(
    rows: Iterable[pa.Table],
    target: Table,
    app_id: str,
    since: int,
    metadata: Mapping[str, Any],
    also: Mapping[str, int] | None = None,
) -> None:
    """Append rows in pieces through delta-rs, with the guarantee of :func:`append_alone`.

    :param also: further Delta transactions that the commit records, as id to version.
    :raises CommitFailedError: if another writer has appended at the same moment.
    """
    with _appending(target, app_id, since) as table:
        _append(table, rows, partition_writer.commit_properties(metadata, (app_id, since + 1), *(also or {}).items()))


def append_days_alone(
    lake: Lake, rows: Iterable[pa.Table], target: Table, app_id: str, since: int, metadata: Mapping[str, Any]
) -> None:
    """The same for rows of days that a table of days did not have at version ``since``, in files in shape where days share them.

    A rebuild or a MERGE may bring the same rows, and records no transaction: any other commit is a conflict.

    :param rows: in pieces of several days each, or a day in several pieces.
    """
    with _appending(target, app_id, since) as table:
        if table.version() != since:
            msg = f"another writer has committed to {target} since version {since}"
            raise AppendedMeanwhileError(msg)
        if not layout.add_days(lake, table, rows, metadata, (app_id, since + 1)):
            _append(table, rows, partition_writer.commit_properties(metadata, (app_id, since + 1), is_alone=True))


@contextmanager
def _appending(target: Table, app_id: str, since: int) -> Iterator[DeltaTable]:
    """Open a table to which nobody else appends meanwhile.

    :raises AppendedMeanwhileError: if another writer has appended since version ``since``.
    """
    with alone(target, is_noted=True):
        look_again(target.address)
        table = target.open()
        if table is None or (transaction_version(table, app_id) or -1) > since:
            msg = f"another writer has appended to {target} since version {since}"
            raise AppendedMeanwhileError(msg)
        yield table


def _append(table: DeltaTable, rows: Iterable[pa.Table], why: CommitProperties) -> None:
    def write(data: Any, schema: pa.Schema) -> None:
        mode: dict[str, Any] = {"mode": "append", "writer_properties": _IN_SMALL_GROUPS}
        if {item.name for item in table.schema().fields} > set(schema.names):
            mode["schema_mode"] = "merge"  # the table has columns that were removed from the contract
        write_deltalake(table, data, commit_properties=why, **mode)

    with committing(table):
        in_one_commit(rows, write)


def replace_days(frame: DataFrame, target: Table, days: Collection[date], metadata: Mapping[str, Any]) -> None:
    """Replace the content of event days in one commit; a day for which ``frame`` has no rows becomes empty."""
    replaced = day_conditions.condition_among("event_date", days)
    options = {"replaceWhere": replaced, "userMetadata": json.dumps(metadata, default=str)}
    what = f"replacement of {len(days)} days of {target}"
    with alone(target), watched(frame.sparkSession, what):
        frame.write.format("delta").mode("overwrite").options(**options).save(target.address)


def merge(spark: SparkSession, source: DataFrame, target: Table, clauses: MergeClauses, metadata: Mapping[str, Any]) -> None:
    """Merge rows into a table in one commit.

    The merge is written in SQL because the class ``DeltaTable`` does not work over Spark Connect.
    """
    sets = [f"t.`{name}` = s.`{name}`" for name in clauses.columns] + [f"t.`{name}` = NULL" for name in clauses.emptied]
    names, values = (", ".join(f"{of}`{name}`" for name in clauses.columns) for of in ("", "s."))
    view = f"merge_source_{uuid.uuid4().hex}"
    source.createOrReplaceTempView(view)
    try:
        with alone(target), _commit_metadata(spark, metadata), watched(spark, f"MERGE into {target}"):
            spark.sql(f"""
                MERGE INTO delta.`{target}` t USING {view} s ON {clauses.on}
                WHEN MATCHED AND {clauses.delete} THEN DELETE
                WHEN MATCHED AND {clauses.update} THEN UPDATE SET {", ".join(sets)}
                WHEN NOT MATCHED AND {clauses.insert} THEN INSERT ({names}) VALUES ({values})
            """)  # noqa: S608 (dates and names of the contract, and no value of a row)
    finally:
        spark.catalog.dropTempView(view)


def merge_rows(
    table: DeltaTable,
    target: Table,
    rows: pa.Table,
    clauses: MergeClauses,
    metadata: Mapping[str, Any],
    transaction: tuple[str, int] | None = None,
) -> None:
    """Merge rows in memory into a table through delta-rs. A merge that changes nothing makes no commit.

    :param table: the ``target``, opened before the rows were computed.
    :param transaction: the Delta transaction, by id and version, that the commit records.
    :raises CommitFailedError: if another writer has changed one of these event days since then.
    """
    values = {name: f's."{name}"' for name in clauses.columns}
    merging = table.merge(
        rows,
        clauses.on,
        source_alias="s",
        target_alias="t",
        commit_properties=partition_writer.commit_properties(metadata, transaction),
        writer_properties=data_files.COMPRESSED,
    )
    merging = merging.when_matched_delete(clauses.delete)
    merging = merging.when_matched_update(values | dict.fromkeys(clauses.emptied, "NULL"), predicate=clauses.update)
    with alone(target, is_noted=True), committing(table):
        merging.when_not_matched_insert(values, predicate=clauses.insert).execute()


@contextmanager
def _commit_metadata(spark: SparkSession, metadata: Mapping[str, Any]) -> Iterator[None]:
    """Set the metadata of SQL commits in the session. It is unset after the context, or later commits would carry it."""
    spark.conf.set(_METADATA, json.dumps(metadata, default=str))
    try:
        yield
    finally:
        spark.conf.unset(_METADATA)


_SECONDS = 1


@contextmanager
def watched(spark: SparkSession, work: str) -> Iterator[None]:
    """Within the context, report the progress of the session's running stages to the listeners every second."""
    if not pieces.is_listened_to() or not hasattr(spark, "_jsc"):
        yield
        return
    ended = threading.Event()
    watch = partial(_watch, spark.sparkContext.statusTracker(), f"{work}, tasks of Spark", ended)
    thread = threading.Thread(target=copy_context().run, args=(watch,), daemon=True)  # the listeners belong to the context
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _watch(tracker: StatusTracker, work: str, ended: threading.Event) -> None:
    while not ended.wait(_SECONDS):
        stages = [stage for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()) if stage is not None]
        if stages:
            done, total = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
            pieces.report(work, done, total)
