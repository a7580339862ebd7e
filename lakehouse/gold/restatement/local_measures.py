"""The numbers of few rows, computed in this process: exact measures, with the results of Spark and without starting it.

Belongs here: which measures have the same result in Arrow as in Spark, and their aggregates. Counts, and sums and extremes of
single columns, as they are or cast to a decimal, are such measures; joins, windows, several sources, late events and other
expressions belong to Spark. So does every value whose result depends on rules of Spark, such as an overflow, a rounding or a text
that is no plain number: the functions return None then, and ``metric_query`` asks Spark. ``LAKEHOUSE_LOCAL_ROWS`` limits the
rows; 0 leaves all numbers to Spark.
"""

from __future__ import annotations

import math
from decimal import Decimal, Inexact, localcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import expressions as sql
from sqlglot.errors import SqlglotError

from lakehouse import locations
from lakehouse.delta.columns import arrow_type
from lakehouse.gold.numbers.history import EXACT
from lakehouse.gold.restatement import exact_sums
from lakehouse.lake import table_io, table_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import date

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.metric import Measure, MetricContract
    from lakehouse.lake import Lake

#: The column of the day or the first day of the period that a row counts for, where this is not its own event day; measures may
#: read that one, and no field of a contract begins with an underscore.
PERIOD = "_period"
#: The digits of Spark's widest decimal, in which sums are added; those of its integer literals.
_DIGITS = 38
_DIGITS_OF_LITERALS = {2**31: 10, 2**63: 20}
#: Outside of these sizes, Spark may not add doubles exactly, see ``exact_sums``.
_SMALL, _LARGE = 2.0**-40, 2.0**90


class _Aggregate(NamedTuple):
    """One aggregate of a column; ``column`` is empty for the number of rows."""

    function: str
    column: str
    #: What the aggregate of no values is replaced by.
    instead: int | None = None
    #: The type to which the column is cast first.
    cast: pa.Decimal128Type | None = None


class _LeftToSparkError(Exception):
    """A value whose result in Spark follows from rules that are not repeated here."""


def few_rows(
    lake: Lake, metric: MetricContract, where: table_io.Where, columns: Collection[str], at_most: int | None = None
) -> pa.Table | None:
    """The silver rows of a metric that meet ``where``; None if there are many, or its numbers are left to Spark.

    :param columns: the columns that are needed besides the metric's own.
    :param at_most: how many rows the files that may hold these rows have; by default those that the settings name.
    """
    if not is_local(metric) or not lake.settings.local_rows:
        return None
    [entry] = metric.read
    table = locations.silver_read_of(lake, entry).open()
    if table is None or table_io.rows_at_most(table, where) > (at_most or lake.settings.local_rows):
        return None
    known = {field.name for field in table.schema().fields}
    wanted = list(dict.fromkeys([*columns, *metric.grain, *_columns(metric)]))
    return table_io.read_version(table, wanted, where) if known.issuperset(wanted) else None


def measured_at_once(lake: Lake, metric: MetricContract, days: Collection[date]) -> list[list[date]]:
    """The days in groups that are measured one after the other: all together, or in pieces of at most as many rows as are few."""
    table = locations.silver_read_of(lake, metric.read[0]).open() if is_local(metric) else None
    rows = 0 if table is None else table_io.rows_at_most(table, {"event_date": days})
    if table is None or not lake.settings.local_rows < rows <= lake.settings.rows_in_pieces:
        return [[*days]]
    counts = table_parts.rows(table, table_io.files_with(table, {"event_date": days}))
    return table_parts.filled(((day, counts.get(day, 0)) for day in sorted(days)), lake.settings.local_rows)


def of_days(rows: pa.Table, metric: MetricContract) -> pa.Table | None:
    """The numbers that :func:`lakehouse.gold.restatement.metric_query.compute` gives for each day of ``rows``.

    :param rows: ``event_date`` and the metric's columns.
    :returns: event_date, the grain, the measures and row_count, in the order of day and grain; None if Spark must compute them.
    """
    return measured(rows, metric, ["event_date", *metric.grain])


def of_periods(rows: pa.Table, metric: MetricContract, periods: Sequence[Period]) -> pa.Table | None:
    """The same for whole periods, by their first days."""
    starts = {day: period.start for period in periods for day in period.days}
    firsts = pa.array([starts.get(day) for day in rows["event_date"].to_pylist()], pa.date32())
    rows, metric = rows.append_column(PERIOD, firsts).filter(pc.is_valid(firsts)), metric.whole
    found = measured(rows, metric, [PERIOD, *metric.grain])
    return None if found is None else found.rename_columns({PERIOD: "event_date"})


def nothing(rows: pa.Table, metric: MetricContract) -> pa.Table | None:
    """The number of a day without rows; see :func:`lakehouse.gold.restatement.metric_query.nothing`.

    :param rows: no rows, with the metric's columns.
    """
    empty = measured(rows.slice(0, 0), metric, [])
    if empty is None:
        return None
    grain = {name: pa.nulls(1, _plain(rows.schema.field(name).type)) for name in metric.grain}
    return pa.table(grain | {name: empty[name] for name in empty.column_names})


def is_local(metric: MetricContract) -> bool:
    """Whether the numbers of a metric may be computed here: they depend only on the rows of the day in one silver table."""
    plain = metric.counts_rows_of_its_day and not (
        metric.is_derived or metric.joins or metric.sources or metric.event_window or metric.late_events
    )
    return plain and all(_aggregate(measure.sql) is not None for measure in metric.measures)


def measured(rows: pa.Table, metric: MetricContract, by: Sequence[str]) -> pa.Table | None:
    """The measures and row_count of groups of rows, in the order of the groups; None if Spark must compute them."""
    kinds = {name: _plain(rows.schema.field(name).type) for name in rows.column_names}
    if any(not _may_group(kinds[name]) for name in by):
        return None
    rows = rows.cast(pa.schema([(name, kinds[name]) for name in rows.column_names]))
    keys = [f"_by{place}" for place, _ in enumerate(by)] or ["_all"]  # a contract's own name might be that of an aggregate
    columns = pa.table(dict(zip(keys, [rows[name] for name in by] or [pa.repeat(0, len(rows))])))
    calls, results = list[tuple[Any, ...]](), list[tuple[_Aggregate, str]]()
    try:
        for number, measure in enumerate(metric.measures):
            if (aggregate := _aggregate(measure.sql)) is None:
                return None
            if aggregate.column:
                values = _cast(rows[aggregate.column], aggregate.cast)
                _check_replacement(values.type, aggregate)
                columns = columns.append_column(f"_m{number}", _argument(values, aggregate.function))
                calls.append(_call(columns, number, aggregate))
            results.append((aggregate, f"_m{number}_{calls[-1][1]}" if aggregate.column else "count_all"))
        grouped = columns.group_by(keys, use_threads=False).aggregate([*calls, ([], "count_all")])
        grouped = grouped if by or len(grouped) else _of_no_rows(grouped)
        made = {name: grouped[key] for name, key in zip(by, keys)}
        for measure, (aggregate, result) in zip(metric.measures, results):
            made[measure.name] = _column(measure, grouped[result], aggregate)
    except (_LeftToSparkError, OverflowError):  # the latter is raised for a day that Python does not have
        return None
    table = pa.table(made | {"row_count": grouped["count_all"].cast(pa.int64())})
    return table.sort_by([(name, "ascending") for name in by]) if by else table


def _columns(metric: MetricContract) -> list[str]:
    aggregates = [_aggregate(measure.sql) for measure in metric.measures]
    return [aggregate.column for aggregate in aggregates if aggregate is not None and aggregate.column]


@lru_cache(1024)
def _aggregate(text: str) -> _Aggregate | None:
    """The aggregate of a measure; None for any other expression."""
    if "+" in text:  # sqlglot drops it as a sign, which makes a number of a text in Spark
        return None
    try:
        tree = sqlglot.parse_one(text, dialect="spark")
    except SqlglotError:
        return None
    instead = None
    tree = tree.unnest()
    if isinstance(tree, sql.Coalesce) and len(tree.expressions) == 1:
        [literal] = tree.expressions
        digits = f"{literal.this}" if isinstance(literal, sql.Literal) and not literal.is_string else ""
        if not (digits.isdecimal() and digits.isascii() and len(digits) <= _DIGITS):
            return None
        tree, instead = tree.this.unnest(), int(literal.this)
    aggregate = _of_call(tree)
    return None if aggregate is None else aggregate._replace(instead=instead)


def _of_call(tree: sql.Expr) -> _Aggregate | None:
    inner = tree.this
    if isinstance(tree, sql.Count) and not tree.expressions:
        if isinstance(inner, sql.Star) and not inner.args.get("except_") and not inner.args.get("except"):
            return _Aggregate("count_all", "")
        if isinstance(inner, sql.Literal):
            return _Aggregate("count_all", "")
        if isinstance(inner, sql.Distinct) and len(inner.expressions) == 1 and _is_column(inner.expressions[0]):
            return _Aggregate("count_distinct", inner.expressions[0].name)
        return _of_operand("count", inner)
    for kind, function in ((sql.Sum, "sum"), (sql.Min, "min"), (sql.Max, "max")):
        if type(tree) is kind and not tree.args.get("expressions"):
            return _of_operand(function, inner)
    return None


def _of_operand(function: str, operand: sql.Expr) -> _Aggregate | None:
    """The aggregate of a column, or of a column that is cast to a decimal."""
    if _is_column(operand):
        return _Aggregate(function, operand.name)
    if not (isinstance(operand, sql.Cast | sql.TryCast) and _is_column(operand.this)):
        return None
    kind = operand.to
    sizes = [int(size) for size in (f"{size.this}" for size in kind.expressions) if size.isdigit()]
    match kind.this, sizes:
        case sql.DataType.Type.DECIMAL, [precision, scale] if scale <= precision <= _DIGITS:
            return _Aggregate(function, operand.this.name, cast=pa.decimal128(precision, scale))
    return None


def _is_column(tree: Any) -> bool:
    return isinstance(tree, sql.Column) and len(tree.parts) == 1 and tree.name == tree.name.lower()


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type as Spark returns it."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return kind


def _may_group(kind: pa.DataType) -> bool:
    """Whether equal values of a type are equal in Spark, too, and come in the same order; not so for doubles."""
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_boolean(kind))


def _cast(column: pa.ChunkedArray, kind: pa.Decimal128Type | None) -> pa.ChunkedArray:
    """The values of a column as decimals, where that takes no rounding and every text is a plain number."""
    if kind is None:
        return column
    if pa.types.is_string(column.type):
        digits = f"(\\.[0-9]{{1,{kind.scale}}})?" if kind.scale else ""
        plain = f"^[+-]?0*[0-9]{{1,{kind.precision - kind.scale}}}{digits}$"
        if kind.precision == kind.scale or pc.any(pc.invert(pc.match_substring_regex(column, plain))).as_py():
            raise _LeftToSparkError
    elif pa.types.is_decimal128(column.type):
        greatest = pc.max(pc.abs(column)).as_py()
        if greatest is not None and greatest >= Decimal(10) ** (kind.precision - kind.scale):  # Arrow's product may wrap around
            raise _LeftToSparkError
    elif not pa.types.is_integer(column.type):
        raise _LeftToSparkError
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:  # it does not fit, or Spark rounds it
        raise _LeftToSparkError from None


def _check_replacement(kind: pa.DataType, aggregate: _Aggregate) -> None:
    """Leave to Spark what ``coalesce`` refuses, or rounds because the common type of both values has no more digits.

    :param kind: the type of the values that are aggregated.
    """
    if aggregate.instead is None or aggregate.function.startswith("count"):
        return
    if pa.types.is_integer(kind) or pa.types.is_float64(kind):
        return
    if not pa.types.is_decimal128(kind):
        raise _LeftToSparkError
    precision = min(_DIGITS, kind.precision + 10) if aggregate.function == "sum" else kind.precision
    own = next((digits for end, digits in _DIGITS_OF_LITERALS.items() if aggregate.instead < end), len(f"{aggregate.instead}"))
    if max(precision - kind.scale, own) + kind.scale > _DIGITS:
        raise _LeftToSparkError


def _argument(column: pa.ChunkedArray, function: str) -> pa.ChunkedArray:
    kind = column.type
    is_number = pa.types.is_integer(kind) or pa.types.is_decimal128(kind)
    if function == "sum" and is_number:
        scale = kind.scale if pa.types.is_decimal128(kind) else 0
        wide = column.cast(pa.decimal128(19, 0)) if pa.types.is_integer(kind) else column
        wide = wide.cast(pa.decimal128(_DIGITS, scale))
        greatest = pc.max(pc.abs(wide)).as_py()
        most = 2**63 if pa.types.is_integer(kind) else Decimal(10) ** (_DIGITS - scale)
        if greatest is not None and greatest * len(column) >= most:  # the sum may overflow
            raise _LeftToSparkError
        return wide
    may_be = {
        "sum": pa.types.is_float64(kind),
        "count": True,
        "count_distinct": _may_group(kind) or pa.types.is_decimal128(kind),
        "min": is_number or pa.types.is_date32(kind),
        "max": is_number or pa.types.is_date32(kind),
    }
    if not may_be[function]:
        raise _LeftToSparkError
    if function == "sum":
        sizes = pc.abs(column)
        ends = pc.min_max(sizes.filter(pc.not_equal(sizes, 0))).as_py()
        if ends["min"] is not None and not (ends["min"] >= _SMALL and ends["max"] <= _LARGE):
            raise _LeftToSparkError
    return column


def _call(columns: pa.Table, number: int, aggregate: _Aggregate) -> tuple[Any, ...]:
    name = f"_m{number}"
    if aggregate.function in {"count", "count_distinct"}:
        return (name, aggregate.function, pc.CountOptions(mode="only_valid"))
    is_double = pa.types.is_floating(columns.schema.field(name).type)
    return (name, "list" if is_double else aggregate.function)


def _of_no_rows(grouped: pa.Table) -> pa.Table:
    """One row: nothing was counted, and there is no sum."""
    counts = {name for name in grouped.column_names if name.endswith(("_count", "_count_distinct")) or name == "count_all"}
    return pa.table(
        {name: pa.array([0 if name in counts else None], grouped.schema.field(name).type) for name in grouped.column_names}
    )


def _column(measure: Measure, results: pa.ChunkedArray, aggregate: _Aggregate) -> pa.Array:
    """The values of a measure with its type."""
    before, values = results.type, results.to_pylist()
    if pa.types.is_list(before):
        before = pa.float64()
        values = [exact_sums.added(pa.array(each or [], before)) for each in values]
    if aggregate.instead is not None:
        values = [aggregate.instead if value is None else value for value in values]
    kind = arrow_type(measure.type)
    convert = _conversion(before, kind)
    with localcontext(EXACT):
        return pa.array([None if value is None else convert(value) for value in values], kind)


def _conversion(before: pa.DataType, kind: pa.DataType) -> Callable[[Any], Any]:
    """How a result is cast to the type of its measure, without a rounding."""
    is_exact = pa.types.is_integer(before) or pa.types.is_decimal128(before)
    if is_exact and pa.types.is_integer(kind):
        return lambda value: _whole(value, kind.bit_width)
    if is_exact and pa.types.is_decimal128(kind):
        return lambda value: _decimal(value, kind)
    if is_exact and pa.types.is_float64(kind):
        return float  # the nearest double, in Java as in Python
    if pa.types.is_floating(before) and pa.types.is_float64(kind):
        return _finite
    if before == kind and pa.types.is_date32(kind):
        return lambda value: value
    raise _LeftToSparkError


def _whole(value: int | Decimal, bits: int) -> int:
    whole = int(value)
    if whole != value or not -(2 ** (bits - 1)) <= whole < 2 ** (bits - 1):
        raise _LeftToSparkError
    return whole


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise _LeftToSparkError
    return float(value)


def _decimal(value: int | Decimal, kind: pa.Decimal128Type) -> Decimal:
    exact = Decimal(value)
    try:
        short = exact.quantize(Decimal(1).scaleb(-kind.scale))
    except Inexact:  # Spark rounds it
        raise _LeftToSparkError from None
    if abs(short) >= Decimal(10) ** (kind.precision - kind.scale):
        raise _LeftToSparkError
    return short
