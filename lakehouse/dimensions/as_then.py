"""The intervals of a dimension for a set of inputs, computed from Bronze by Spark (R10).

If the inputs are all that silver contains, the rows equal those of the table of intervals.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial, reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.delta.columns import arrow_schema, ddl
from lakehouse.dimensions import intervals as rule
from lakehouse.dimensions import tables
from lakehouse.dimensions.tables import TIME_LENGTH
from lakehouse.dispositions.living_rows import Slice
from lakehouse.ledger import key_log
from lakehouse.silver import merge as silver_merge
from lakehouse.spark import dataframes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from datetime import date, datetime

    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

#: The approximate number of changes that a task holds in memory; more if one key has more.
_TOGETHER = 2**17


def intervals(
    spark: SparkSession,
    lake: Lake,
    contract: SourceContract,
    ids: Collection[str] | None,
    until: datetime | None = None,
    without: Mapping[str, Collection[str]] | None = None,
) -> DataFrame:
    """The intervals of all keys, under today's contract: ``tables.interval_columns``.

    :param ids: use only these ingestions, decisions and rebuild requests, see ``silver.merge.state``; None for all.
    :param until: use only rows that had arrived by this time.
    :param without: by event day (as text) the ids that are not used for the changes of that day.
    """
    days = key_log.days(lake, contract.dataset)
    columns = tables.interval_columns(contract)
    if not days:
        return dataframes.local(spark, arrow_schema(columns).empty_table())
    names = [name for name, _ in tables.changes_of_silver(contract)]
    alike: dict[frozenset[str], list[date]] = defaultdict(list)
    for day in days:
        alike[frozenset((without or {}).get(f"{day}", ()))].append(day)
    parts = [
        silver_merge.state(spark, lake, contract, Slice(own, None if ids is None else set(ids) - lacking, until)).select(*names)
        for lacking, own in alike.items()
    ]
    changes = reduce(DataFrame.unionByName, parts)
    of_key = F.expr(f"substring(record_key, 1, length(record_key) - {TIME_LENGTH})")
    sorted_by_key = changes.withColumn("_key", of_key).repartition("_key").sortWithinPartitions("_key")
    return sorted_by_key.mapInArrow(partial(_intervals_of, contract), ddl(columns))


def _intervals_of(contract: SourceContract, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for changes in whole_keys(batches):
        of_keys = tables.as_changes(contract, tables.by_key(contract, changes.drop_columns(["_key"])))
        yield from rule.intervals(contract, of_keys).to_batches()


def whole_keys(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Regroup sorted batches into pieces that each have all rows of their keys."""
    held: list[pa.Table] = []
    for batch in batches:
        held.append(dataframes.in_utc(pa.Table.from_batches([batch])))
        if sum(map(len, held)) >= _TOGETHER:
            rows = pa.concat_tables(held)
            at = int(pc.index(rows["_key"], rows["_key"][-1]).as_py())
            held = [rows.slice(at)]
            if at:
                yield rows.slice(0, at)
    if held:
        yield pa.concat_tables(held)
