"""The silver rows that numbers are computed from now, with the present attributes of dimensions.

DataFrames out, with the columns that the metric reads. Rows for earlier inputs belong to ``of_then``, the query of a metric to
``restatement.metric_query``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse import locations
from lakehouse.contracts.series import source_days
from lakehouse.delta import table_io
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.dimensions.joins import as_of
from lakehouse.gold.rows_read import tables, union, without_late
from lakehouse.spark import dataframes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.several_sources.metric_source import MetricSource
    from lakehouse.settings import Settings


def silver_rows(
    spark: SparkSession,
    settings: Settings,
    metric: MetricContract,
    days: Collection[date],
    instead: Mapping[str, DataFrame] | None = None,
    named: Mapping[date, Collection[str]] | None = None,
) -> DataFrame:
    """The Silver rows that the numbers of ``days`` are computed from, with the columns that the metric reads.

    Files of other days are not read.

    :param instead: by silver table, rows that replace those that the table holds.
    :param named: for a metric with late events, the inputs of each day that is read from silver.
    """
    others = instead or {}
    rows = {
        entry.silver: others[entry.silver] if entry.silver in others else rows_held(spark, settings, metric, entry, days, named)
        for entry in metric.read
    }
    united = union.united(rows, metric)
    if not metric.joins:
        return united
    facts = None if others or metric.late_events else _few_facts(settings, metric, {"event_date": source_days(metric, days)})
    return as_of.joined(united, metric, as_of.present(spark, settings, metric, facts))


def rows_held(
    spark: SparkSession,
    settings: Settings,
    metric: MetricContract,
    entry: MetricSource,
    days: Collection[date],
    named: Mapping[date, Collection[str]] | None = None,
) -> DataFrame:
    """The rows that silver holds of one source for the numbers of ``days``, with the source's own column names.

    :param named: see :func:`silver_rows`; rows of keys that late rows concern are computed as if the late rows had never arrived.
    """
    target = locations.silver_read_of(settings, entry)
    table = table_io.open_table(target, settings.storage_options)
    if table is None and metric.sources:  # the other sources may have rows
        types = dict(silver_columns(metric.source_contracts[entry.source]))
        names = union.columns_of(metric, entry, types)
        return dataframes.local(spark, arrow_schema(tuple((name, types[name]) for name in names)).empty_table())
    columns = [] if table is None else union.columns_of(metric, entry, [field.name for field in table.schema().fields])
    where: table_io.Where = {"event_date": source_days(metric, days)}
    if not named:
        return dataframes.scan(spark, settings, target, columns, where)
    held = dataframes.scan(spark, settings, target, list(dict.fromkeys(["record_key", *columns])), where)
    return without_late.rows(spark, settings, metric, held, named).select(*columns)


def _few_facts(settings: Settings, metric: MetricContract, where: table_io.Where) -> pa.Table | None:
    """The join columns of silver rows that meet ``where``; None if there are many."""
    held = [(entry, table) for entry, table in tables.tables_read(settings, metric) if table is not None]
    if not held or sum(table_io.rows_at_most(table, where) for _, table in held) > dataframes.FEW_ROWS:
        return None
    names = sorted({name for on in metric.joined_on for name in on})
    parts = []
    for entry, table in held:
        columns = list(dict.fromkeys(entry.column(name) for name in names))
        found = table_io.with_columns(table_io.read_version(table, columns, where), columns)
        parts.append(pa.table([found[entry.column(name)] for name in names], names=names))
    return pa.concat_tables(parts, promote_options="permissive")
