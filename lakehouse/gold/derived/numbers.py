"""The numbers of a derived metric: its inputs summed by its grain, joined, and its measures as Spark SQL over the result.

The result has every row of the grain that any input has; an input without it is NULL. A division by zero is NULL, as in the
measures of other metrics; any other failure affects only its period. Numbers are small, and are collected in this process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.contracts.derived import PERIOD_START, ROW_COUNT
from lakehouse.gold import isolation
from lakehouse.gold.derived.inputs import InputError, PeriodOfInput
from lakehouse.lake import table_io
from lakehouse.spark import dataframes, stages
from lakehouse.spark.session import in_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.gold.isolation import Isolated
    from lakehouse.lake import Lake


def compute(
    lake: Lake, session: Callable[[], SparkSession], series: Series, periods: Mapping[date, Collection[PeriodOfInput]]
) -> Isolated[date]:
    """The number of each period (grain, measures and row_count, in the order of the grain), and the errors of the others.

    :param session: called only if there are periods.
    :param periods: by first day, the number of each input.
    """

    def of_periods(metric: MetricContract | None, starts: Collection[date]) -> dict[date, pa.Table]:
        part = {start: periods[start] for start in starts}
        return of_inputs(session, replace(series, metric=metric or series.metric), part)

    return isolation.numbers_of(lake, series, list(periods), of_periods, lambda start: start)


def of_inputs(
    session: Callable[[], SparkSession], series: Series, periods: Mapping[date, Collection[PeriodOfInput]]
) -> dict[date, pa.Table]:
    """The number of each period; all of them fail if one cannot be computed."""
    if not periods:
        return {}
    spark, metric = session(), series.metric
    inputs = dataframes.local(spark, joined(series, periods))
    measures = [F.expr(measure.checked_sql).alias(measure.name) for measure in metric.measures]
    with in_zone(spark, metric.zone), stages.watched(spark, f"{series.name} on {len(periods):,} periods"):
        numbers = dataframes.in_utc(inputs.select(PERIOD_START, *metric.grain, *measures, ROW_COUNT).toArrow())
    rows = numbers.sort_by([(name, "ascending") for name in [PERIOD_START, *metric.grain]])
    return {start: own.drop_columns([PERIOD_START]) for start, own in table_io.split(rows, PERIOD_START).items()}


def joined(series: Series, periods: Mapping[date, Collection[PeriodOfInput]]) -> pa.Table:
    """The rows that the measures are computed from: period_start, the grain, a struct per input, and row_count.

    :raises InputError: if a column of the grain has incompatible types.
    """
    keys = [PERIOD_START, *series.grain]
    parts = [part for start, of_period in periods.items() for part in _of_period(series, start, of_period)]
    try:
        rows = pa.concat_tables(parts, promote_options="permissive")
    except pa.ArrowTypeError as problem:
        msg = f"{series.name}: the inputs have grains of different types: {problem}; give the columns one type in their sources"
        raise InputError(msg) from None
    columns = [name for name in rows.column_names if name not in keys]
    found = rows.group_by(keys).aggregate([(name, "max") for name in columns])  # one row at most of each input
    table: dict[str, pa.Array | pa.ChunkedArray] = {name: found[name] for name in keys}
    counts = []
    for number in series.metric.inputs:
        fields = {name: found[f"{_column(number.metric, name)}_max"].combine_chunks() for name in number.columns}
        table[number.metric] = pa.StructArray.from_arrays(list(fields.values()), names=list(fields))
        counts.append(pc.fill_null(fields[ROW_COUNT], 0))
    total = counts[0]
    for count in counts[1:]:
        total = pc.add(total, count)
    return pa.table(table | {ROW_COUNT: total})


def _of_period(series: Series, start: date, of_period: Collection[PeriodOfInput]) -> list[pa.Table]:
    """The summed rows of each input; those of an emptied input only if they are a row of the grain, or all inputs are empty."""
    grain, some_filled = series.grain, any(map(_is_filled, of_period))
    rows = []
    for number in of_period:
        added = _added_up(grain, number)
        added = added.slice(0, 0) if grain and some_filled and not _is_filled(number) else added
        rows.append(added.add_column(0, PERIOD_START, pa.array([start] * len(added), pa.date32())))
    return rows


def _is_filled(number: PeriodOfInput) -> bool:
    """Whether a number has rows; the number of an emptied period is one row without values and without a grain."""
    first = number.rows.slice(0, 1).select([*number.input.grain, ROW_COUNT]).to_pylist()[0]
    is_nothing = first.pop(ROW_COUNT) == 0 and not any(value is not None for value in first.values())
    return number.booked is not None or len(number.rows) > 1 or not is_nothing


def _added_up(grain: Collection[str], number: PeriodOfInput) -> pa.Table:
    """The rows of an input summed by a grain, with the adjustments booked in the period; the columns are named after the
    input.
    """
    columns, read = [*grain, *number.input.columns], number.input
    rows = number.rows.select(columns)
    types = {item.name: item.type for item in rows.schema}
    if number.booked is not None:
        is_emptied = not _is_filled(replace(number, booked=None))
        rows = pa.concat_tables([*([] if is_emptied else [rows]), number.booked.select(columns)])
    if read.is_summed(grain):
        sums = rows.group_by(list(grain)).aggregate([(name, "sum") for name in read.columns])
        found = {name: sums[name] for name in grain}
        found |= {name: sums[f"{name}_sum"].cast(types[name]) for name in read.columns}
        rows = pa.table(found)
    return rows.rename_columns([*grain, *(_column(read.metric, name) for name in read.columns)])


def _column(metric: str, name: str) -> str:
    return f"{metric}.{name}"
