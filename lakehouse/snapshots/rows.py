"""The rows of silver, or the intervals of a dimension, as known at a time or computed from a snapshot; and files with these rows.

Spark computes the rows of given event days in pieces, so that any number of rows can be written with little memory: to Parquet,
CSV, or a new Delta table. A file gets its name when it is complete. Few rows, and present rows, are read without Spark in
``local_rows``.

The intervals are those that contain a moment. They are computed from the changes of that state by the rule in
``dimensions.interval_table``: few in this process, any number by Spark. Present intervals are read in ``dimensions.tables``.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from deltalake import write_deltalake

from lakehouse.calendar.days import condition_among
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.dimensions import tables
from lakehouse.dimensions.interval_table import intervals
from lakehouse.dispositions.living_rows import Slice
from lakehouse.errors import LakehouseError
from lakehouse.ledger import ingestions
from lakehouse.silver import merge as silver_merge
from lakehouse.snapshots import comparison, input_sets, local_rows
from lakehouse.snapshots.input_sets import known_at
from lakehouse.spark.session import sized_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from datetime import date, datetime
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.snapshots.comparison import RowsComparison
    from lakehouse.snapshots.input_sets import NamedSnapshot

_DAYS_AT_ONCE = 31


def as_known_at(
    spark: SparkSession, lake: Lake, contract: SourceContract, days: Collection[date], when: datetime
) -> Iterator[pa.Table]:
    """The rows that silver would hold on ``days`` with everything arrived and decided by ``when``; see :func:`computed`."""
    lake = lake.cached()
    return computed(spark, lake, contract, days, known_at(lake, contract.dataset, when), when)


def of_snapshot(
    spark: SparkSession, lake: Lake, contract: SourceContract, days: Collection[date], snapshot: NamedSnapshot
) -> Iterator[pa.Table]:
    """The rows that silver would hold on ``days`` with the inputs of a snapshot; see :func:`computed`."""
    lake = lake.cached()
    ids = input_sets.ids_of(lake, contract.dataset, snapshot.inputs)
    return computed(spark, lake, contract, days, ids, snapshot.until)


def compare_snapshots(
    spark: SparkSession, lake: Lake, contract: SourceContract, before: NamedSnapshot, after: NamedSnapshot
) -> RowsComparison:
    """Compare the rows that silver would hold with the inputs of two snapshots, on every day, under today's contract."""
    lake = lake.cached()
    days, source = local_rows.days_of(lake, contract), contract.dataset
    with sized_for(spark, lake, many=ingestions.are_many(lake, contract.dataset)):
        states = [
            silver_merge.state(spark, lake, contract, Slice(days, input_sets.ids_of(lake, source, one.inputs), one.until))
            for one in (before, after)
        ]
        return comparison.compare(states[0], states[1], contract)


def computed(
    spark: SparkSession,
    lake: Lake,
    contract: SourceContract,
    days: Collection[date],
    ids: Collection[str],
    until: datetime | None = None,
) -> Iterator[pa.Table]:
    """The rows that silver would hold on ``days`` with the inputs ``ids``, under today's contract, from Bronze.

    Redactions always apply. The rows come in the order of the days.

    :param days: at least one, of ``local_rows.days_of``.
    :param until: only rows that had arrived by this time.
    """
    in_order, columns = sorted(days), [name for name, _ in silver_columns(contract)]
    with sized_for(spark, lake, many=ingestions.are_many(lake, contract.dataset)):
        rows = silver_merge.state(spark, lake, contract, Slice(in_order, ids, until)).select(*columns).persist()
        try:
            for start in range(0, len(in_order), _DAYS_AT_ONCE):
                some = rows.where(condition_among("event_date", in_order[start : start + _DAYS_AT_ONCE]))
                yield some.orderBy("event_date", "record_key").toArrow()
        finally:
            rows.unpersist()


ENDINGS = (".parquet", ".csv", ".delta")


class ExportError(LakehouseError):
    """A file that cannot be written. The message names alternatives."""


def check_file(path: Path) -> None:
    """Check that rows can be written to ``path``.

    :raises ExportError: for another ending, a name that is taken, or a folder that does not exist.
    """
    if path.suffix not in ENDINGS:
        msg = f"{path}: the name has to end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]} (a Delta table)"
        raise ExportError(msg)
    if path.exists():
        msg = f"{path} exists, and is not overwritten: choose another name, or remove it first"
        raise ExportError(msg)
    if not path.parent.is_dir():
        msg = f"{path}: the folder {path.parent} does not exist; create it first"
        raise ExportError(msg)


def write_file(pieces: Iterable[pa.Table], path: Path) -> int:
    """Write rows to a new file or table, by the suffix of its name.

    :returns: the number of rows written.
    :raises ExportError: see :func:`check`.
    """
    check_file(path)
    in_order = iter(pieces)
    first = next(in_order, None)
    if first is None:
        return 0
    schema, counts = _plain(first.schema), list[int]()

    def counted() -> Iterable[pa.Table]:
        for piece in chain([first], in_order):
            counts.append(len(piece))
            yield piece.cast(schema)

    if path.suffix == ".delta":
        batches = (batch for piece in counted() for batch in piece.to_batches())
        write_deltalake(str(path), pa.RecordBatchReader.from_batches(schema, batches))
        return sum(counts)
    incomplete = path.with_name(f".{path.name}.incomplete")
    writer: Callable[..., Any] = pq.ParquetWriter if path.suffix == ".parquet" else pa_csv.CSVWriter
    try:
        with writer(incomplete, schema) as file:
            for piece in counted():
                file.write_table(piece)
        incomplete.rename(path)
    finally:
        incomplete.unlink(missing_ok=True)
    return sum(counts)


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema with NULL allowed everywhere and without the metadata of an engine."""
    return pa.schema([pa.field(item.name, item.type) for item in schema])


def valid_as_of(
    lake: Lake,
    contract: SourceContract,
    moment: datetime,
    as_of: datetime | NamedSnapshot,
    session: Callable[[], SparkSession],
) -> Iterator[pa.Table]:
    """The intervals that contain ``moment``, as known at the time ``as_of``, or with the inputs of the snapshot ``as_of``.

    :param moment: in event time.
    :param session: called only if more changes are concerned than this process computes.
    :returns: ``tables.interval_columns``, in pieces, each in the order of keys.
    """
    days = local_rows.days_of(lake, contract)
    changes = local_rows.computed(lake, contract, days, as_of, lake.settings.local_rows) if days else None
    if changes is not None:
        of_keys = tables.as_changes(contract, tables.by_key(contract, changes))
        yield tables.valid_intervals(intervals(contract, of_keys), moment)
    elif days:
        yield from _by_spark(lake, contract, moment, as_of, session())
    else:
        yield arrow_schema(tables.interval_columns(contract)).empty_table()


def _by_spark(
    lake: Lake, contract: SourceContract, moment: datetime, as_of: datetime | NamedSnapshot, spark: SparkSession
) -> Iterator[pa.Table]:
    from lakehouse.dimensions import joins  # noqa: PLC0415 (Spark loads in seconds)

    ids, until = local_rows.inputs(lake, contract.dataset, as_of)
    every = joins.intervals_as_then(spark, lake, contract, ids, until).persist()
    try:
        for bucket in range(contract.dimension.buckets):
            of_bucket = every.where(every.bucket == bucket).orderBy("dimension_key", "valid_from")
            yield tables.valid_intervals(tables.as_intervals(contract, of_bucket.toArrow()), moment)
    finally:
        every.unpersist()
