"""Joins facts with the attributes of their dimensions as of the event time, with Spark.

A DataFrame in, a DataFrame with the same number of rows out. The intervals are the present ones (:func:`present`), or those of a
set of inputs, computed from Bronze (:func:`intervals_as_then`, rule R10). If the inputs are all that silver contains, the latter
equal the rows of the table of intervals.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial, reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.contracts.metric_sources import brought_by
from lakehouse.delta.columns import arrow_schema, arrow_type, ddl
from lakehouse.dimensions import interval_table as rule
from lakehouse.dimensions import tables
from lakehouse.dimensions.tables import TIME_LENGTH
from lakehouse.dispositions.living_rows import Slice
from lakehouse.ledger import key_log
from lakehouse.silver import merge as silver_merge
from lakehouse.spark import dataframes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from datetime import date, datetime

    from pyspark.sql import SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.metric_sources import Join
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


#: The value of a text column for facts without a match.
UNKNOWN = "unknown"


def joined(rows: DataFrame, metric: MetricContract, intervals_of: Callable[[Join], DataFrame]) -> DataFrame:
    """The facts with the attributes that the metric's joins bring; each fact once.

    A fact without a match has :data:`UNKNOWN` in columns of text and NULL in others. A fact with only an event day counts as
    of the first moment of that day in the zone of the dimension.

    :param rows: facts with the columns that the metric reads, ``event_date`` and ``event_ts`` among them.
    :param intervals_of: returns the intervals of a join's dimension: valid_from, valid_to, and the fields.
    """
    if not metric.joins:
        return rows
    names = [name for join in metric.joins for name in join.names]
    rows = rows.drop(*names)
    for position, join in enumerate(metric.joins):
        rows = _joined(rows, metric, join, position, intervals_of(join))
    for position, join in enumerate(metric.joins):
        texts = {field.name for field in metric.dimensions[join.dimension].typed_fields if field.type == "string"}
        for column, name in join.attributes:
            if column in texts:
                rows = rows.withColumn(name, F.when(F.col(f"_is_{position}"), F.col(name)).otherwise(F.lit(UNKNOWN)))
    return rows.drop(*(f"_is_{position}" for position in range(len(metric.joins))))


def _joined(rows: DataFrame, metric: MetricContract, join: Join, position: int, intervals: DataFrame) -> DataFrame:
    key = metric.dimensions[join.dimension].primary_key
    keys = [F.col(column).alias(f"_key_{number}") for number, column in enumerate(key)]
    attributes = [F.col(column).alias(name) for column, name in join.attributes]
    place = [F.col("valid_from").alias("_from"), F.col("valid_to").alias("_to"), F.lit(True).alias(f"_is_{position}")]
    side = intervals.select(*keys, *attributes, *place)
    starts = dataframes.start_of_day(F.col("event_date"), metric.day_zone(join))
    at = F.coalesce(F.col("event_ts"), starts)
    condition = (at >= F.col("_from")) & (F.col("_to").isNull() | (at < F.col("_to")))
    for number, name in enumerate(join.on):
        condition = (rows[name] == side[f"_key_{number}"]) & condition
    dropped = ["_from", "_to", *(f"_key_{number}" for number in range(len(key)))]
    found = rows.join(side, condition, "left").drop(*dropped)
    return found.withColumn(f"_is_{position}", F.coalesce(F.col(f"_is_{position}"), F.lit(False)))


def present(spark: SparkSession, lake: Lake, metric: MetricContract, facts: pa.Table | None) -> Callable[[Join], DataFrame]:
    """A function that returns the present intervals of the dimension of a join.

    :param facts: the facts to be joined, with the join columns, if they are few: then only the intervals of their keys are read.
        None if they are many.
    """
    known: dict[int, pa.Table] = {}

    def intervals_of(join: Join) -> DataFrame:
        columns, table = _columns(metric, join), locations.intervals(lake, join.dimension)
        if table.open() is None:
            return dataframes.local(spark, _typed(pa.table({}), metric, join))
        wanted = _keys(metric, join, facts, known)
        if wanted is None or len(wanted) > tables.FEW_KEYS:
            return dataframes.scan(spark, lake, table, columns, {})
        found = tables.intervals_of_keys(lake, metric.dimensions[join.dimension], columns, wanted)
        known[metric.joins.index(join)] = found
        return F.broadcast(dataframes.local(spark, _typed(found, metric, join)))

    return intervals_of


def _columns(metric: MetricContract, join: Join) -> list[str]:
    key = metric.dimensions[join.dimension].primary_key
    return list(dict.fromkeys([*key, *(column for column, _ in join.attributes), "valid_from", "valid_to"]))


def _typed(rows: pa.Table, metric: MetricContract, join: Join) -> pa.Table:
    """The rows with the types of the contract; columns that the table lacks, because it does not exist or is older than a field,
    are NULL.
    """
    kinds = {field.name: arrow_type(field.type) for field in metric.dimensions[join.dimension].typed_fields}
    kinds |= dict.fromkeys(("valid_from", "valid_to"), arrow_type("timestamp"))
    columns = _columns(metric, join)
    values = [rows[name].cast(kinds[name]) if name in rows.column_names else pa.nulls(len(rows), kinds[name]) for name in columns]
    return pa.table(values, names=columns)


def _keys(metric: MetricContract, join: Join, facts: pa.Table | None, known: dict[int, pa.Table]) -> pa.Array | None:
    """The keys of the few facts in the dimension; None if they are unknown."""
    earlier = brought_by(metric.joins, join)
    if earlier is None:
        columns, rows = join.on, facts
    else:
        column_of = {name: column for column, name in earlier.attributes}
        columns, rows = [column_of[name] for name in join.on], known.get(metric.joins.index(earlier))
    return None if rows is None else tables.key_texts([rows[name] for name in columns]).unique().drop_null()


#: The approximate number of changes that a task holds in memory; more if one key has more.
_TOGETHER = 2**17


def intervals_as_then(
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
