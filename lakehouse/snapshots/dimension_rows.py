"""The intervals of a dimension that contain a moment, as known at a time or computed from a snapshot.

They are computed from the changes of that state by the rule in ``dimensions.intervals``: few in this process, any number by
Spark. Present intervals are read in ``dimensions.interval_reads``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.delta.columns import arrow_schema
from lakehouse.dimensions import interval_reads, tables
from lakehouse.dimensions.intervals import intervals
from lakehouse.snapshots import local_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.snapshots.named import NamedSnapshot


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
        yield interval_reads.valid(intervals(contract, of_keys), moment)
    elif days:
        yield from _by_spark(lake, contract, moment, as_of, session())
    else:
        yield arrow_schema(tables.interval_columns(contract)).empty_table()


def _by_spark(
    lake: Lake, contract: SourceContract, moment: datetime, as_of: datetime | NamedSnapshot, spark: SparkSession
) -> Iterator[pa.Table]:
    from lakehouse.dimensions import as_then  # noqa: PLC0415 (Spark loads in seconds)

    ids, until = local_rows.inputs(lake, contract.dataset, as_of)
    every = as_then.intervals(spark, lake, contract, ids, until).persist()
    try:
        for bucket in range(contract.dimension.buckets):
            of_bucket = every.where(every.bucket == bucket).orderBy("dimension_key", "valid_from")
            yield interval_reads.valid(tables.as_intervals(contract, of_bucket.toArrow()), moment)
    finally:
        every.unpersist()
