"""The rows of silver on given event days as known at a time, or computed from a snapshot, by Spark.

They come in pieces, so that any number of rows can be written with little memory. Writing them belongs to ``export``; few rows,
and present rows, are read without Spark in ``local_rows``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.delta.columns import silver_columns
from lakehouse.dispositions.living_rows import Slice
from lakehouse.ledger import ingestions
from lakehouse.silver import merge as silver_merge
from lakehouse.snapshots import comparison, input_sets, local_rows
from lakehouse.snapshots.input_sets import known_at
from lakehouse.spark.session import sized_for

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import date, datetime

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.snapshots.comparison import RowsComparison
    from lakehouse.snapshots.named import NamedSnapshot

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
    with sized_for(spark, lake, many=_is_large(lake, contract)):
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
    with sized_for(spark, lake, many=_is_large(lake, contract)):
        rows = silver_merge.state(spark, lake, contract, Slice(in_order, ids, until)).select(*columns).persist()
        try:
            for start in range(0, len(in_order), _DAYS_AT_ONCE):
                some = rows.where(rows.event_date.isin(in_order[start : start + _DAYS_AT_ONCE]))
                yield some.orderBy("event_date", "record_key").toArrow()
        finally:
            rows.unpersist()


def _is_large(lake: Lake, contract: SourceContract) -> bool:
    """Whether Bronze is large enough for Spark to plan for many rows."""
    return ingestions.row_count(lake, contract.dataset) > lake.settings.local_rows
