"""The numbers of longer periods: sums of published days, and measures that are not additive from the same days' Silver rows.

A number never mixes two states of a day: for a day whose newest computed number is not published, the rows of the published
number are used. Adjustments that are booked in the period are included. Nothing is published here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import CommitFailedError

from lakehouse import locations
from lakehouse.contracts.series import source_read
from lakehouse.gold.publication import candidates, late_at_close
from lakehouse.gold.publication.held_numbers import find_refused
from lakehouse.gold.restatement import exact_sums, lineage, metric_query
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.gold.rows_read import rows as rows_read
from lakehouse.gold.rows_read import tables
from lakehouse.lake import table_io
from lakehouse.ledger import failed_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


def numbers(
    lake: Lake,
    contract: SourceContract,
    daily: Series,
    rollup: Series,
    session: Callable[[], SparkSession],
    periods: Sequence[Period],
) -> dict[Period, pa.Table]:
    """The number of each period with a published day."""
    days = {daily.by: sorted({day for period in periods for day in period.days})}
    rows = locations.gold(lake, daily).read(None, days)
    if rows is None or not len(rows):
        return {}
    booked = booked_in(lake, daily, rollup, periods)
    return of_periods(lake, contract, daily, rollup, session, periods, rows, booked)


def of_periods(
    lake: Lake,
    contract: SourceContract,
    daily: Series,
    rollup: Series,
    session: Callable[[], SparkSession],
    periods: Sequence[Period],
    rows: pa.Table,
    booked: Mapping[Period, pa.Table],
) -> dict[Period, pa.Table]:
    """The number of each period with a published day or a booked adjustment."""
    metric = rollup.metric
    added = {}
    for period in periods:
        own, there = latest_days(rows, daily, period), booked.get(period)
        if len(own) or (there is not None and len(there)):
            added[period] = add_up(rollup, own, there)
    others = [measure for measure in metric.measures if not measure.additive]
    if not others or not added:
        return added
    found = _from_silver(lake, contract, daily, session, list(added), rows)
    return {
        period: joined(rollup, number, found[period.start]) if period.start in found else number
        for period, number in added.items()
    }


def add_up(rollup: Series, days: pa.Table, booked: pa.Table | None) -> pa.Table:
    """The sums of days and booked adjustments by grain: of row_count and the additive measures; other measures are NULL.

    NULL is ignored, as in SQL.
    """
    names = [*rollup.metric.additive, "row_count"]
    columns = [*rollup.grain, *names]
    filled = days.filter(pc.greater(days["row_count"], 0))  # the others are rows of empty days
    parts = [(filled if len(filled) else days.slice(0, 1)).select(columns)]
    if booked is not None and len(booked):
        parts.append(booked.select(columns))
    rows = pa.concat_tables(parts)
    types = {item.name: item.type for item in days.schema}
    doubles = {name for name in names if pa.types.is_floating(types[name])}
    by = rollup.grain or ["_all"]
    rows = rows if rollup.grain else rows.append_column("_all", pa.repeat(0, len(rows)))
    sums = rows.group_by(by).aggregate([(name, "list" if name in doubles else "sum") for name in names])
    sums = sums.sort_by([(name, "ascending") for name in by])
    columns_of_sum = {name: sums[name] for name in rollup.grain}
    for name in rollup.numbers:
        if name in doubles:
            columns_of_sum[name] = pa.array([exact_sums.added(values.values) for values in sums[f"{name}_list"]], types[name])
        else:
            columns_of_sum[name] = sums[f"{name}_sum"].cast(types[name]) if name in names else pa.nulls(len(sums), types[name])
    return pa.table(columns_of_sum)


def _from_silver(
    lake: Lake,
    contract: SourceContract,
    daily: Series,
    session: Callable[[], SparkSession],
    periods: Sequence[Period],
    rows: pa.Table,
) -> dict[date, pa.Table]:
    """The numbers of whole periods, computed from the Silver rows of the published days, by first day."""
    metric = daily.metric
    tables.require_rows(lake, metric)
    version = tables.versions_read(lake, metric)
    published = set(rows.filter(rows["is_latest"])[daily.by].to_pylist())
    unpublished = {held.start for held in candidates.held(lake, daily, published)}
    unpublished |= find_pending(lake, daily).starts & published
    unpublished |= failed_numbers.failing(lake, daily.name, published).keys()
    # The published number of these days stays different: the new one was refused, or became an adjustment.
    unpublished |= find_refused(lake, daily, rows, published).keys() & published
    unpublished |= set(rows.filter(pc.is_valid(rows["adjustment"]))[daily.by].to_pylist())
    numbers = None if unpublished else metric_query.of_few_periods(lake, metric, periods, published)
    if numbers is None:
        numbers = _by_spark(lake, contract, daily, session(), periods, rows, unpublished)
    if (changed := tables.changed_since(lake, metric, version)) is not None:
        msg = f"silver/{changed} kept changing while periods were computed from it; run it again later"
        raise CommitFailedError(msg)
    return numbers


def _by_spark(
    lake: Lake,
    contract: SourceContract,
    daily: Series,
    spark: SparkSession,
    periods: Sequence[Period],
    rows: pa.Table,
    unpublished: Collection[date],
) -> dict[date, pa.Table]:
    """The same by Spark; the rows of ``unpublished`` days are those of their published numbers."""
    metric = daily.metric
    published = set(rows.filter(rows["is_latest"])[daily.by].to_pylist()) - set(unpublished)
    limited = published - late_at_close.counting_every_row(lake, daily, rows)
    named = lineage.named_now(lake, metric, limited) if limited else None
    frames = [rows_read.silver_rows(spark, lake, metric, published, named=named)]
    frames += _as_published(lake, contract, spark, daily, rows, unpublished)
    silver_rows: DataFrame = frames[0]
    for frame in frames[1:]:
        silver_rows = silver_rows.unionByName(frame.select(silver_rows.columns))
    return metric_query.of_periods(silver_rows, metric, periods)


def _as_published(
    lake: Lake, contract: SourceContract, spark: SparkSession, daily: Series, rows: pa.Table, days: Collection[date]
) -> list[DataFrame]:
    """The Silver rows of published numbers of days that Silver has changed since, computed again from Bronze."""
    frames, read = [], source_read(daily.metric, contract)
    columns = [daily.by, "inputs", "inputs_without", "dimension_inputs"]
    named = table_io.with_columns(rows.filter(rows["is_latest"]), columns)
    for row in {row[daily.by]: row for row in named.to_pylist() if row[daily.by] in days}.values():
        day = row[daily.by]
        ids = lineage.ids_by_day(lake, contract.dataset, row["inputs"], row["inputs_without"], [day])[day]
        of_day, _ = rows_read.rows_of_inputs(spark, lake, daily.metric, read, {day: ids}, row["dimension_inputs"])
        frames.append(of_day)
    return frames


def joined(series: Series, added: pa.Table, found: pa.Table) -> pa.Table:
    """Sums by grain, with the measures that are not additive taken from computed numbers."""
    grain = series.grain
    others = [measure.name for measure in series.metric.measures if not measure.additive]
    computed = {tuple(row[name] for name in grain): row for row in found.to_pylist()}
    rows = [
        row | {name: computed.get(tuple(row[one] for one in grain), {}).get(name) for name in others} for row in added.to_pylist()
    ]
    return pa.Table.from_pylist(rows, schema=added.schema)


def booked_in(lake: Lake, daily: Series, rollup: Series, periods: Sequence[Period]) -> dict[Period, pa.Table]:
    """The adjustments booked in each period: of closed days, and of closed periods of the roll-up itself."""
    if rollup.metric.publication.after_close != "adjust":
        return {}
    days = {"booked_on": [day for period in periods for day in period.days]}
    tables = []
    for series in (daily, rollup):
        columns = [*rollup.content, "booked_on", "version_name", "reason", series.by]
        adjustments = locations.gold(lake, series).read(columns, days)
        if adjustments is not None:
            # A period that is closed on its last day books nothing in itself; for days this cannot happen.
            of = adjustments[series.by] if series is rollup else pa.nulls(len(adjustments), pa.date32())
            tables.append(adjustments.drop_columns([series.by]).append_column("of", of))
    rows = pa.concat_tables(tables, promote_options="default")
    return {period: _booked_in(rows, period) for period in periods}


def _booked_in(rows: pa.Table, period: Period) -> pa.Table:
    own = pc.fill_null(pc.equal(rows["of"], pa.scalar(period.start, pa.date32())), False)
    return rows.filter(pc.and_(pc.is_in(rows["booked_on"], pa.array(period.days, pa.date32())), pc.invert(own)))


def latest_days(rows: pa.Table, daily: Series, period: Period) -> pa.Table:
    """The newest revisions of a period's days, in the order of the days and the grain."""
    own = pc.and_(rows["is_latest"], pc.is_in(rows[daily.by], pa.array(period.days, pa.date32())))
    return rows.filter(own).sort_by([(name, "ascending") for name in [daily.by, *daily.metric.grain]])
