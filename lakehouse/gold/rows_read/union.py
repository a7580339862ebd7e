"""The rows of several sources as one table, with the metric's column names, and without rows that an earlier source has too.

DataFrames in, a DataFrame out. Reading the rows belongs to ``now`` and ``of_then``.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.contracts.several_sources.fit import wider
from lakehouse.delta.columns import silver_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import DataFrame

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.several_sources.metric_source import MetricSource


def columns_of(metric: MetricContract, entry: MetricSource, columns: Collection[str]) -> list[str]:
    """The columns of a silver table that the numbers of a metric may depend on.

    :param columns: the columns of the table.
    """
    if not metric.sources:
        return metric.columns_read(columns)
    return list(dict.fromkeys(entry.column(name) for name in types_read(metric)))


def united(rows: Mapping[str, DataFrame], metric: MetricContract) -> DataFrame:
    """The rows of a metric's sources that count, as rows of one table.

    :param rows: by silver table, with its own column names. For a metric with one source they are returned unchanged.
    """
    if not metric.sources:
        [only] = rows.values()
        return only
    types = types_read(metric)
    frames = [_mapped(rows[entry.silver], entry, types) for entry in metric.sources]
    return reduce(lambda earlier, later: earlier.unionByName(_without(later, earlier, metric.deduplicate_by)), frames)


def types_read(metric: MetricContract) -> dict[str, str]:
    """The columns that a metric with several sources reads, by the metric's names, with their Spark types."""
    types = dict(silver_columns(metric.source_contracts[metric.source]))
    read = {name: {types[name]} for name in metric.columns_read(list(types))}
    for entry in metric.sources[1:]:
        theirs = dict(silver_columns(metric.source_contracts[entry.source]))
        for name, kinds in read.items():
            kinds.update({theirs[entry.column(name)]} if entry.column(name) in theirs else ())
    return {name: wider(kinds) or types[name] for name, kinds in read.items()}


def _mapped(rows: DataFrame, entry: MetricSource, types: Mapping[str, str]) -> DataFrame:
    """The columns that a metric reads of a source; a column that is newer than the rows is empty."""
    held = set(rows.columns)
    values = {name: F.col(entry.column(name)) if entry.column(name) in held else F.lit(None) for name in types}
    return rows.select(*(values[name].cast(kind).alias(name) for name, kind in types.items()))


def _without(rows: DataFrame, earlier: DataFrame, by: Collection[str]) -> DataFrame:
    """The rows without an equal row of an earlier source on their event day; a NULL equals nothing.

    Rows of earlier sources that do not count themselves can be included: a still earlier source has their values.
    """
    if not by:
        return rows
    on = ["event_date", *by]
    return rows.join(earlier.select(*on).distinct(), on, "left_anti").select(rows.columns)
