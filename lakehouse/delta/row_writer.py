"""Appends rows to Delta tables and upserts them, through delta-rs. The content of a table is defined by the caller.

Reading is in ``table_io``, replacing whole partitions in ``partition_writer``.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from queue import Full, Queue
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lakehouse.calendar import days
from lakehouse.delta import columns as wider_types
from lakehouse.delta import leases, partition_writer
from lakehouse.delta.data_files import COMPRESSED
from lakehouse.lake import table_io, table_parts
from lakehouse.lake.delta_rs_internals import listed_files, transaction_version
from lakehouse.lake.table_cache import committing, look_again

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import date

    from lakehouse.lake import Table

_COMPACT_ABOVE_FILES = 64
#: Larger files stay as they are until maintenance, also because some files have sorted rows.
_SMALL_FILE_BYTES = 2**23
#: Retries a commit that conflicts with other writers, eight times in all.
retried_on_conflict = retry(
    retry=retry_if_exception_type(CommitFailedError),
    stop=stop_after_attempt(8),
    wait=wait_random_exponential(multiplier=0.05, max=2),
    before_sleep=lambda _: look_again(),
    reraise=True,
)


def open_or_create(
    target: Table,
    schema: pa.Schema,
    partition_by: Sequence[str] | None = None,
    properties: Mapping[str, str] | None = None,
) -> DeltaTable:
    """The table at its newest version, created without rows if it does not exist.

    :param schema: where it has wider types than the table, the table gets them.
    :param properties: besides those of every table; also given to a table of an earlier release that lacks them.
    """
    table = target.open()
    if table is None:
        return partition_writer.create(target, schema, partition_by, properties=properties)
    partition_writer.set_properties(table, properties or {})
    wider_types.widen(table, schema)
    return table


@dataclass(frozen=True)
class Once:
    """Makes an append idempotent: nothing is written if the id has been committed before.

    :param version: for an id with increasing versions: nothing is written if this version has been committed.
    :param since: the version of the id that the rows are based on; nothing is written if a later one has been committed.
    """

    app_id: str
    version: int = 1
    since: int | None = None


@retried_on_conflict
def append(
    target: Table,
    rows: pa.Table,
    *,
    partition_by: Sequence[str] | None = None,
    once: Once | None = None,
    properties: Mapping[str, str] | None = None,
    also: Callable[[DeltaTable], tuple[str, int]] | None = None,
) -> bool:
    """Append rows in one commit.

    :param once: the id of the rows, if they may be written once only.
    :param properties: of the table, see :func:`open_or_create`.
    :param also: returns a further id and version for the commit, from the table before it.
    :returns: whether rows were written.
    :raises CommitFailedError: when other writers win eight times in a row.
    """
    table = open_or_create(target, rows.schema, partition_by, properties)
    why: CommitProperties | None = None
    if once is not None:
        known = transaction_version(table, once.app_id)
        if known is not None and (known >= once.version or (once.since is not None and known > once.since)):
            return False
        further = None if also is None else also(table)
        # If it is committed from here on, that is a conflict.
        why = partition_writer.commit_properties(None, (once.app_id, once.version), further)
    mode = _schema_mode(table, rows.schema)
    with committing(table):
        write_deltalake(table, rows, mode="append", commit_properties=why, writer_properties=COMPRESSED, **mode)
    _compact(target)
    return True


def append_new(
    target: Table,
    table: DeltaTable,
    rows: Iterable[pa.Table],
    app_ids: Collection[str],
    properties: WriterProperties = COMPRESSED,
    app_version: int = 1,
    why: Mapping[str, Any] | None = None,
) -> int:
    """Append rows that the table does not hold at the version at which it was opened, in one commit.

    After a conflict, the new rows must be determined again: the caller must be :data:`retried_on_conflict`.

    :param table: ``target``, opened before the new rows were determined.
    :param rows: in pieces with the columns of the table; each is written while the next one is computed.
    :param app_ids: the ids of the new rows; a later commit that records one of them is a conflict.
    :param app_version: the version of the ids, for ids with increasing versions.
    :param why: metadata of the commit.
    :returns: the number of rows that were written.
    :raises CommitFailedError: in case of a conflict.
    """
    commit = partition_writer.commit_properties(why, *((app_id, app_version) for app_id in app_ids))

    def write(data: Any, schema: pa.Schema) -> None:
        more = _schema_mode(table, schema)
        write_deltalake(table, data, mode="append", commit_properties=commit, writer_properties=properties, **more)

    with committing(table):
        written = in_one_commit(rows, write)
    if written:
        _compact(target)
    return written


def replace(
    table: DeltaTable,
    rows: Iterable[pa.Table],
    column: str,
    values: Collection[date],
    app_id: str,
    properties: WriterProperties = COMPRESSED,
) -> None:
    """Replace the rows whose ``column`` has one of ``values`` by ``rows``, in one commit; for whole partitions see
    ``partition_writer``.

    :param table: opened before the rows were computed.
    :param rows: in pieces with the columns of the table, none of another day; each is written while the next one is computed.
    :param app_id: the Delta transaction that the commit records, with version 1.
    :raises CommitFailedError: when another writer has changed rows of these days since ``table`` was opened.
    """
    predicate = days.condition_among(column, values)
    why = CommitProperties(app_transactions=[Transaction(app_id, 1)])

    def write(data: Any, schema: pa.Schema) -> None:
        how: dict[str, Any] = {"mode": "overwrite", "predicate": predicate, **_schema_mode(table, schema)}
        write_deltalake(table, data, commit_properties=why, writer_properties=properties, **how)

    table_io.bring(table, {column: values})
    with committing(table):
        if not in_one_commit(rows, write):
            table.delete(predicate, commit_properties=why)


def in_one_commit(rows: Iterable[pa.Table], write: Callable[[Any, pa.Schema], None]) -> int:
    """Write rows that come in pieces by one call of ``write``, unless there are none; returns their number.

    :param write: is called with the rows and their schema.
    """
    pieces = (piece for piece in rows if len(piece))
    first, second = next(pieces, None), next(pieces, None)
    if first is None:
        return 0
    if second is None:
        write(first, first.schema)
        return len(first)
    return _while_computed(chain([first, second], pieces), first.schema, write)


def _schema_mode(table: DeltaTable, schema: pa.Schema) -> dict[str, Any]:
    """The option that adds columns which the table lacks: it may be of an earlier release."""
    existing = {item.name for item in table.schema().fields}
    return {} if existing.issuperset(schema.names) else {"schema_mode": "merge"}


def _while_computed(pieces: Iterable[pa.Table], schema: pa.Schema, write: Callable[[Any, pa.Schema], None]) -> int:
    """Write pieces in a separate thread while the next ones are computed here; returns the number of rows.

    The computation may read tables through delta-rs, which is not possible from within a call of delta-rs.
    """
    handed: Queue[pa.Table | None] = Queue(maxsize=1)
    given_up = threading.Event()

    def batches() -> Iterator[pa.RecordBatch]:
        while (piece := handed.get()) is not None:
            yield from piece.to_batches()
        if given_up.is_set():
            msg = "the rows could not be computed"
            raise RuntimeError(msg)  # the write fails, and nothing is committed

    count = 0
    with ThreadPoolExecutor(1) as writer:
        writing = writer.submit(write, pa.RecordBatchReader.from_batches(schema, batches()), schema)

        def hand(piece: pa.Table | None) -> None:
            while not writing.done():
                with suppress(Full):
                    handed.put(piece, timeout=1)
                    return

        try:
            for piece in pieces:
                hand(piece.cast(schema))
                count += len(piece)
                if writing.done():  # it has failed: the other pieces need not be computed
                    break
        except BaseException:
            given_up.set()
            raise
        finally:
            hand(None)
        writing.result()
    return count


@retried_on_conflict
def upsert(
    target: Table,
    rows: pa.Table,
    keys: Sequence[str],
    *,
    partition_by: str | None = None,
    app_ids: Collection[str] = (),
) -> bool:
    """Update the rows with the same ``keys`` and insert the others, in one commit; new columns are added.

    :param partition_by: one of the keys, by which a new table is partitioned; only files that may hold one of its values are read
        and written.
    :param app_ids: the ids of rows that :func:`append_new` may be writing at the same time: the later of the two is a conflict.
        Delta lets an append pass beside a MERGE.
    :returns: whether any row was inserted or changed.
    :raises CommitFailedError: when other writers win eight times in a row.
    """
    if not len(rows):
        return False
    table = open_or_create(target, rows.schema, [partition_by] if partition_by else None)
    properties = partition_writer.commit_properties(None, *((app_id, 1) for app_id in app_ids)) if app_ids else None
    return merge(table, rows, keys, partition_by=partition_by, properties=properties)


def merge(
    table: DeltaTable,
    rows: pa.Table,
    keys: Sequence[str],
    *,
    partition_by: str | None = None,
    properties: CommitProperties | None = None,
) -> bool:
    """The operation of :func:`upsert` on an open table.

    :raises CommitFailedError: when another writer has changed one of the rows since ``table`` was opened.
    """
    same = " AND ".join(f"t.{key} = s.{key}" for key in keys)
    if partition_by:
        partitions = ", ".join(f"'{value}'" for value in sorted(map(str, pc.unique(rows[partition_by]).to_pylist())))
        same = f"t.{partition_by} IN ({partitions}) AND {same}"
    existing = {item.name for item in table.schema().fields}
    values = [name for name in rows.column_names if name not in keys]
    differs = " OR ".join(
        f"(t.{name} IS DISTINCT FROM s.{name})" if name in existing else f"(s.{name} IS NOT NULL)" for name in values
    )
    table_io.bring(table, {partition_by: pc.unique(rows[partition_by]).to_pylist()} if partition_by else None)
    merging = table.merge(
        rows,
        same,
        source_alias="s",
        target_alias="t",
        merge_schema=True,
        writer_properties=COMPRESSED,
        commit_properties=properties,
    )
    with committing(table):
        metrics = merging.when_matched_update_all(differs).when_not_matched_insert_all().execute()
    return bool(metrics["num_target_rows_inserted"] + metrics["num_target_rows_updated"])


def _compact(target: Table) -> None:
    """Compact the table when its partitions have many small files: every append adds one, and every read opens them all."""
    table = target.open()
    if table is None or table_parts.share_files(table) or len(files := listed_files(table)) <= _COMPACT_ABOVE_FILES:
        return  # for days that share files see ``layout``
    small = files.filter(pc.less(files["size_bytes"], _SMALL_FILE_BYTES))["path"].to_pylist()
    if len(small) <= _COMPACT_ABOVE_FILES * len({file.rpartition("/")[0] for file in small}):
        return
    # A conflict: another writer updated rows of these files.
    with leases.held(target, leases.COMPACTION) as is_ours, suppress(CommitFailedError):
        if is_ours and (newest := target.snapshot()) is not None:
            newest.optimize.compact(target_size=_SMALL_FILE_BYTES, writer_properties=COMPRESSED)
            target.committed()
