"""The query of a metric: its number per event day and grain, computed from Silver with Spark.

Which of the numbers are published is decided in ``days`` and ``rollups``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.contracts.series import source_days
from lakehouse.delta import table_io
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.dimensions import as_then
from lakehouse.dimensions.joins import as_of
from lakehouse.errors import LakehouseError
from lakehouse.gold.restatement import lineage
from lakehouse.gold.rows_read import union
from lakehouse.ledger import applied_inputs
from lakehouse.snapshots import input_sets, known_inputs
from lakehouse.spark import commits as spark_commits
from lakehouse.spark import dataframes, stages
from lakehouse.spark.session import sized_for

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date, datetime

    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.joins.join import Join
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.several_sources.metric_source import MetricSource
    from lakehouse.settings import Settings


def compute(rows: DataFrame, metric: MetricContract, days: Collection[date], grain: list[str] | None = None) -> DataFrame:
    """The metric on ``days``: columns event_date, the grain, the measures, and row_count (the number of silver rows).

    :param rows: silver rows, at least of the days that the window covers, with the attributes that the metric's joins bring.
    :param grain: another grain than the contract's.
    """
    if metric.window > 1:
        covered = F.explode(F.sequence("event_date", F.date_add("event_date", metric.window - 1)))
        rows = rows.withColumn("_day", covered).drop("event_date").withColumnRenamed("_day", "event_date")
    measures = [F.expr(f"cast(({measure.sql}) as {measure.type})").alias(measure.name) for measure in metric.measures]
    by = ["event_date", *(metric.grain if grain is None else grain)]
    wanted = rows.where(f"event_date IN ({spark_commits.day_literals(days)})")
    return wanted.groupBy(*by).agg(*measures, F.count(F.lit(1)).alias("row_count"))


def numbers(spark: SparkSession, settings: Settings, metric: MetricContract, days: Collection[date]) -> dict[date, pa.Table]:
    """The number of each day that Silver has rows for: grain, measures and row_count, in the order of the grain.

    The rows are collected in this process, because a day of gold is small.
    """
    many = _rows_at_most(settings, metric, days) > dataframes.FEW_ROWS
    with sized_for(spark, settings, many=many), stages.watched(spark, f"{metric.name} on {len(days):,} days"):
        found = compute(silver_rows(spark, settings, metric, days), metric, days).toArrow()
    return by_day(found, metric)


def by_day(found: pa.Table, metric: MetricContract) -> dict[date, pa.Table]:
    """The rows of :func:`compute` per day, in the order of the grain."""
    found = found.cast(pa.schema([pa.field(item.name, item.type) for item in found.schema]))
    rows = found.sort_by([(name, "ascending") for name in ["event_date", *metric.grain]])
    return {day: own.drop_columns(["event_date"]) for day, own in table_io.split(rows, "event_date").items()}


def of_periods(rows: DataFrame, metric: MetricContract, periods: Collection[Period]) -> dict[date, pa.Table]:
    """The numbers of whole periods by first day; ``rows`` are all Silver rows of them."""
    cases = [f"WHEN event_date BETWEEN DATE'{one.start}' AND DATE'{one.last}' THEN DATE'{one.start}'" for one in periods]
    starts = rows.withColumn("event_date", F.expr(f"CASE {' '.join(cases)} END"))
    with stages.watched(rows.sparkSession, f"{metric.name} on {len(periods):,} periods"):
        return by_day(compute(starts, metric, [one.start for one in periods]).toArrow(), metric)


def nothing(spark: SparkSession, settings: Settings, metric: MetricContract) -> pa.Table:
    """The number of a day without rows: one row without a grain, which distinguishes an emptied day from a missing one."""
    rows = silver_rows(spark, settings, metric, []).where("false")
    measures = [F.expr(f"cast(({measure.sql}) as {measure.type})").alias(measure.name) for measure in metric.measures]
    empty = rows.agg(*measures, F.count(F.lit(1)).alias("row_count")).toArrow()
    grain = rows.select(*metric.grain).toArrow().schema if metric.grain else pa.schema([])
    columns = {item.name: pa.nulls(1, item.type) for item in grain}
    return pa.table(columns | {name: empty[name] for name in empty.column_names})


class UnbuiltTableError(LakehouseError):
    """The silver table that a metric reads has yet to be built. The message names it and what to do."""


def require_rows(settings: Settings, metric: MetricContract) -> None:
    """Check that the silver tables that a metric reads have been built.

    :raises UnbuiltTableError: if it has not: an earlier release has only written the main table of the source.
    """
    for entry in metric.read:
        if entry.rows == "newest" and applied_inputs.lacks_newest(settings, entry.source):
            msg = (
                f"silver/{entry.silver} has not been built yet, and gold/{metric.name} reads it: materialize a day of "
                f"silver/{entry.source}, which builds it from Bronze, or set 'rows: all' to count every row of a key as before"
            )
            raise UnbuiltTableError(msg)


def versions_read(settings: Settings, metric: MetricContract) -> dict[str, int]:
    """The version of each table that the numbers of a metric are computed from: of Silver, and of its dimensions."""
    paths = locations.every_silver_read(settings, metric)
    for dimension in metric.dimensions:
        paths |= {dimension: locations.silver(settings, dimension)}
        paths |= {f"{dimension}_intervals": locations.intervals(settings, dimension)}
    return {name: table_io.version(path, settings.storage_options) for name, path in paths.items()}


def changed_since(settings: Settings, metric: MetricContract, versions: Mapping[str, int]) -> str | None:
    """The first of these tables that has another version than before; None if none has."""
    now = versions_read(settings, metric)
    return next((name for name, version in versions.items() if now[name] != version), None)


def _rows_at_most(settings: Settings, metric: MetricContract, days: Collection[date]) -> int:
    where = {"event_date": source_days(metric, days)}
    return sum(table_io.rows_at_most(table, where) for _, table in _tables_read(settings, metric) if table is not None)


def _tables_read(settings: Settings, metric: MetricContract) -> list[tuple[MetricSource, DeltaTable | None]]:
    """The silver tables of a metric's sources."""
    paths = locations.every_silver_read(settings, metric).values()
    return [(entry, table_io.open_table(path, settings.storage_options)) for entry, path in zip(metric.read, paths)]


def silver_rows(
    spark: SparkSession,
    settings: Settings,
    metric: MetricContract,
    days: Collection[date],
    instead: Mapping[str, DataFrame] | None = None,
) -> DataFrame:
    """The Silver rows that the numbers of ``days`` are computed from, with the columns that the metric reads.

    Files of other days are not read.

    :param instead: by silver table, rows that are taken in place of those that it holds.
    """
    where, others = {"event_date": source_days(metric, days)}, instead or {}
    rows = {
        entry.silver: others[entry.silver] if entry.silver in others else _rows_of(spark, settings, metric, entry, where)
        for entry in metric.read
    }
    facts = None if others else _few_facts(settings, metric, where)
    return with_present_attributes(union.united(rows, metric), settings, metric, facts)


def rows_held(
    spark: SparkSession, settings: Settings, metric: MetricContract, entry: MetricSource, days: Collection[date]
) -> DataFrame:
    """The rows that silver holds of one source for the numbers of ``days``, under its own names of columns."""
    return _rows_of(spark, settings, metric, entry, {"event_date": source_days(metric, days)})


def _rows_of(
    spark: SparkSession, settings: Settings, metric: MetricContract, entry: MetricSource, where: table_io.Where
) -> DataFrame:
    target = locations.silver_read_of(settings, entry)
    table = table_io.open_table(target, settings.storage_options)
    if table is None and metric.sources:  # the other sources may have rows
        types = dict(silver_columns(metric.source_contracts[entry.source]))
        names = union.columns_of(metric, entry, types)
        return dataframes.local(spark, arrow_schema(tuple((name, types[name]) for name in names)).empty_table())
    columns = [] if table is None else union.columns_of(metric, entry, [field.name for field in table.schema().fields])
    return dataframes.scan(spark, settings, target, columns, where)


def with_present_attributes(
    rows: DataFrame, settings: Settings, metric: MetricContract, facts: pa.Table | None = None
) -> DataFrame:
    """Silver rows with the attributes that the metric's dimensions have for them now.

    :param facts: the same rows in memory, if they are few.
    """
    return as_of.joined(rows, metric, as_of.present(rows.sparkSession, settings, metric, facts)) if metric.joins else rows


def with_attributes_of_then(rows: DataFrame, settings: Settings, metric: MetricContract, stored: str | None) -> DataFrame:
    """Silver rows with the attributes that a revision's inputs of the dimensions give them.

    :param stored: the published column ``dimension_inputs``; a dimension that it does not name is taken as it is now.
    """
    named = lineage.dimension_inputs(stored)

    def intervals_of(join: Join) -> DataFrame:
        contract, entry = metric.dimensions[join.dimension], named.get(join.dimension, {})
        ids = input_sets.ids_of(settings, join.dimension, entry["inputs"]) if entry else None
        return as_then.intervals(rows.sparkSession, settings, contract, ids, without=entry.get("without"))

    return as_of.joined(rows, metric, intervals_of)


def with_attributes_known_at(rows: DataFrame, settings: Settings, metric: MetricContract, when: datetime) -> DataFrame:
    """Silver rows with the attributes that were known of them by a time."""

    def intervals_of(join: Join) -> DataFrame:
        contract, ids = metric.dimensions[join.dimension], known_inputs.known_at(settings, join.dimension, when)
        return as_then.intervals(rows.sparkSession, settings, contract, ids, when)

    return as_of.joined(rows, metric, intervals_of)


def _few_facts(settings: Settings, metric: MetricContract, where: table_io.Where) -> pa.Table | None:
    """The columns that joins are on of some silver rows; None if they are many, or nothing is joined."""
    tables = [(entry, table) for entry, table in _tables_read(settings, metric) if table is not None] if metric.joins else []
    if not tables or sum(table_io.rows_at_most(table, where) for _, table in tables) > dataframes.FEW_ROWS:
        return None
    names = sorted({name for on in metric.joined_on for name in on})
    parts = []
    for entry, table in tables:
        columns = [entry.column(name) for name in names]
        found = table_io.with_columns(
            table_io.read_version(table, list(dict.fromkeys(columns)), where), list(dict.fromkeys(columns))
        )
        parts.append(pa.table([found[column] for column in columns], names=names))
    return pa.concat_tables(parts, promote_options="permissive")
