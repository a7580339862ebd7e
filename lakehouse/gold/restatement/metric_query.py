"""The query of a metric: its number per event day and grain, computed from Silver with Spark, or here if ``local_measures`` can.

The rows are read in ``silver_rows``. Which of the numbers are published is decided in ``days`` and ``rollups``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.calendar import days as day_conditions
from lakehouse.contracts.series import source_days
from lakehouse.contracts.sql_expressions import outside_aggregates
from lakehouse.gold.restatement import exact_sums, lineage, local_measures, silver_tables
from lakehouse.gold.restatement import silver_rows as rows_read
from lakehouse.lake import table_io
from lakehouse.spark import commits, dataframes
from lakehouse.spark.session import in_zone, sized_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import date, datetime

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.lake import Lake


def compute(
    rows: DataFrame,
    metric: MetricContract,
    days: Collection[date],
    starts: Collection[datetime | None] | None = None,
) -> DataFrame:
    """The metric on ``days``: columns event_date, the grain, the measures, and row_count (the number of silver rows).

    :param rows: silver rows, at least of the days that the window covers, with the attributes that the metric's joins bring; with
        ``PERIOD``, if they count for another day than their own.
    :param starts: only the windows with these first moments; None stands for the rows without an event time.
    """
    if metric.event_window:
        rows = rows_read.with_windows(rows, metric.event_window)
    if starts is not None:
        rows = rows.where(rows_read.is_among(starts))
    if metric.trailing_days > 1:
        covered = F.explode(F.sequence("event_date", F.date_add("event_date", metric.trailing_days - 1)))
        rows = rows.withColumn(local_measures.PERIOD, covered)
    of = local_measures.PERIOD if local_measures.PERIOD in rows.columns else "event_date"
    wanted = rows.where(day_conditions.condition_among(of, days))
    return measured(wanted, metric, [of, *metric.grain], {"event_date": of}).withColumnRenamed(of, "event_date")


def measured(
    rows: DataFrame, metric: MetricContract, by: Collection[str], of_group: Mapping[str, str] | None = None
) -> DataFrame:
    """The measures and row_count of groups of silver rows; sums of doubles are exact.

    :param of_group: what columns outside of aggregates are, where they are not those of the rows.
    """
    measures = {name: outside_aggregates(text, of_group or {}) for name, text in _sql_of(metric).items()}
    return exact_sums.aggregated(rows, by, measures, "row_count")


def _sql_of(metric: MetricContract) -> dict[str, str]:
    return {measure.name: measure.checked_sql for measure in metric.measures}


def numbers(
    session: Callable[[], SparkSession],
    lake: Lake,
    metric: MetricContract,
    days: Collection[date],
    made_from: lineage.SilverInputs | None = None,
    with_every_row: Collection[date] = (),
) -> dict[date, pa.Table]:
    """The number of each day for which Silver has rows: grain, measures and row_count, in the order of the grain.

    The rows are collected in this process, because a day of gold is small.

    :param session: starts Spark, if it is needed.
    :param made_from: the inputs of Silver by which late rows are told, if they are known already.
    :param with_every_row: the days whose number counts every row, however late it came.
    """
    if every := [day for day in days if day in with_every_row]:
        rest = [day for day in days if day not in with_every_row]
        own = (made_from or lineage.of_late_source(lake, metric.late_source)) if metric.late_source else None
        parts = [(rest, own), (every, own.with_every_row() if own else None)]
        done = [numbers(session, lake, metric, part, inputs) for part, inputs in parts if part]
        return {day: rows for each in done for day, rows in each.items()}
    if (found := of_few_rows(lake, metric, days)) is not None:
        return found
    spark = session()
    many = silver_tables.rows_at_most(lake, metric, {"event_date": source_days(metric, days)}) > dataframes.FEW_ROWS
    with sized_for(spark, lake, many=many), commits.watched(spark, f"{metric.name} on {len(days):,} days"):
        named = lineage.named_now(lake, metric, days, made_from)
        return of_days(rows_read.silver_rows(spark, lake, metric, days, named=named), metric, days)


def of_few_rows(lake: Lake, metric: MetricContract, days: Collection[date]) -> dict[date, pa.Table] | None:
    """The same without Spark; None if there are many rows, or a measure that only Spark computes."""
    numbers: dict[date, pa.Table] = {}
    groups = local_measures.measured_at_once(lake, metric, days)
    at_most = lake.settings.rows_in_pieces if len(groups) > 1 else None  # of a group, the files hold other days, too
    for some in groups:
        rows = local_measures.few_rows(lake, metric, {"event_date": some}, ["event_date"], at_most)
        found = None if rows is None else local_measures.of_days(rows, metric)
        if found is None:
            return None
        numbers |= _by_day(found)
    return numbers


def of_days(
    rows: DataFrame, metric: MetricContract, days: Collection[date], starts: Collection[datetime | None] | None = None
) -> dict[date, pa.Table]:
    """The numbers of days that :func:`compute` gives, in the order of the grain, collected in this process.

    The measures use the hours and days of the metric's zone.
    """
    with in_zone(rows.sparkSession, metric.zone):
        numbers = dataframes.in_utc(compute(rows, metric, days, starts).toArrow())
    numbers = exact_sums.rounded(numbers, _sql_of(metric))
    numbers = numbers.sort_by([(name, "ascending") for name in ["event_date", *metric.grain]])
    return _by_day(numbers)


def _by_day(numbers: pa.Table) -> dict[date, pa.Table]:
    return {day: own.drop_columns(["event_date"]) for day, own in table_io.split(numbers, "event_date").items()}


def of_periods(rows: DataFrame, metric: MetricContract, periods: Collection[Period]) -> dict[date, pa.Table]:
    """The numbers of whole periods, not divided into windows, by first day; ``rows`` are all Silver rows of them."""
    if not periods:
        return {}
    metric = metric.whole
    # By a join: of an expression with a case for each of 107 weeks, Spark makes no code, and 46,000 rows take nine seconds.
    start_of = [(day, period.start) for period in periods for day in period.days]
    days, firsts = (pa.array(column, pa.date32()) for column in zip(*start_of))
    calendar = dataframes.local(rows.sparkSession, pa.table({"event_date": days, local_measures.PERIOD: firsts}))
    starts = rows.join(F.broadcast(calendar), "event_date")
    with commits.watched(rows.sparkSession, f"{metric.name} on {len(periods):,} periods"):
        return of_days(starts, metric, [one.start for one in periods])


def of_few_periods(
    lake: Lake, metric: MetricContract, periods: Sequence[Period], days: Collection[date]
) -> dict[date, pa.Table] | None:
    """The numbers of whole periods from the rows of ``days``, without Spark; None if there are many rows, see above."""
    rows = local_measures.few_rows(lake, metric, {"event_date": list(days)}, ["event_date"])
    found = None if rows is None else local_measures.of_periods(rows, metric, periods)
    return None if found is None else _by_day(found)


def nothing(session: Callable[[], SparkSession], lake: Lake, metric: MetricContract) -> pa.Table:
    """The number of a day without rows: one row without a grain, which distinguishes an emptied day from a missing one."""
    none = local_measures.few_rows(lake, metric, {"event_date": []}, ["event_date"])
    if none is not None and (found := local_measures.nothing(none, metric)) is not None:
        return found
    spark = session()
    rows = rows_read.silver_rows(spark, lake, metric, []).where("false")
    rows = rows_read.with_windows(rows, metric.event_window) if metric.event_window else rows
    of_none = {name: f"CAST(NULL AS {kind})" for name, kind in rows.select("event_date", *metric.grain).dtypes}
    with in_zone(spark, metric.zone):
        empty = dataframes.in_utc(measured(rows, metric, [], of_none).toArrow())
    grain = dataframes.in_utc(rows.select(*metric.grain).toArrow()).schema if metric.grain else pa.schema([])
    columns = {item.name: pa.nulls(1, item.type) for item in grain}
    return pa.table(columns | {name: empty[name] for name in empty.column_names})
