"""Sums and averages of doubles that do not depend on the order of the rows, in Spark.

A double is cut into whole multiples of eight powers of two. The multiples are added as integers, which is exact, and the totals
give the double next to the exact sum. Every group of rows therefore has one sum, whatever else is in the table and however Spark
divides the rows; where a number of 15 digits is its neighbour, that number is the sum, as its parts are written. Decimals and
integers are exact in Spark itself. The meaning of an expression is not decided here: only the text of ``sum``, ``avg`` and
related functions is replaced where they are over doubles.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.contracts import sql_syntax
from lakehouse.delta.columns import summable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

_SUMS = frozenset({"sum", "try_sum"})
_AVERAGES = frozenset({"avg", "mean", "try_avg"})
#: Aggregates of doubles that are left to Spark, whose last digits depend on the order of the rows.
_ROUGH_AGGREGATES = """
    corr covar_pop covar_samp kurtosis regr_avgx regr_avgy regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness
    std stddev stddev_pop stddev_samp var_pop var_samp variance
"""
_ROUGH = frozenset(_ROUGH_AGGREGATES.split())
#: The number of digits of such an aggregate that are the same in any order.
_CERTAIN_DIGITS = 12
#: The number of binary digits of a part: the totals of 2^36 rows fit into 64 bits, and two parts into a double.
_WIDTH = 26
#: The exponents of the parts, the greatest first.
_EXPONENTS = tuple(range(3 * _WIDTH, -5 * _WIDTH, -_WIDTH))
#: A little more than the distance of a double from the next one, relative to its size.
_STEP = 2.3e-16
#: Doubles of at least this size, infinities and NaN are added as they are.
_TOO_LARGE = 2.0 ** (_EXPONENTS[0] + _WIDTH)


def aggregated(rows: DataFrame, by: Collection[str], measures: Mapping[str, str], count: str) -> DataFrame:
    """Rows grouped by columns, with the measures and the number of rows; one row for all if ``by`` is empty.

    :param measures: by name, expressions with aggregates in Spark SQL.
    :param count: the name of the column for the number of rows.
    """
    arguments = list(dict.fromkeys(call.argument for text in measures.values() for call in _sums(sql_syntax.tokens_of(text))))
    kinds = rows.select(*(F.expr(text).alias(f"c{place}") for place, text in enumerate(arguments))).dtypes if arguments else []
    doubles = {text: f"_double_{place}" for place, (text, (_, kind)) in enumerate(zip(arguments, kinds)) if _is_double(kind)}
    if doubles:
        rows = rows.withColumns({name: F.expr(f"CAST(({text}\n) AS DOUBLE)") for text, name in doubles.items()})
        rows = rows.withColumns({of: F.expr(sql) for name in doubles.values() for of, sql in _cut(name).items()})
    columns = [F.expr(_rewritten(text, doubles)).alias(name) for name, text in measures.items()]
    return rows.groupBy(*by).agg(*columns, F.count(F.lit(1)).alias(count))


def rounded(numbers: pa.Table, measures: Mapping[str, str]) -> pa.Table:
    """Numbers whose doubles have only the digits that are certain.

    Aggregates such as a standard deviation are computed in the order of the rows; their last digits have no meaning.
    """
    for name, text in measures.items():
        column = numbers[name]
        if pa.types.is_floating(column.type) and _is_rough(text):
            values = [None if value is None else float(f"{value:.{_CERTAIN_DIGITS}g}") for value in column.to_pylist()]
            numbers = numbers.set_column(numbers.column_names.index(name), name, pa.array(values, column.type))
    return numbers


def added(values: pa.ChunkedArray | pa.Array) -> float | None:
    """The double next to the exact sum of ``values``; None if there are none.

    The result equals that of :func:`aggregated` for the same values as rows.
    """
    known = pc.drop_null(values).to_pylist()
    if not known:
        return None
    try:
        return _shortest(math.fsum(known))
    except (OverflowError, ValueError):  # beyond the greatest double, or infinities of both signs
        return float(sum(known))


def summed(rows: pa.Table, by: Sequence[str], names: Sequence[str]) -> pa.Table:
    """The sums of columns with their types, by groups and in their order; one row for all rows if ``by`` is empty.

    NULL is ignored, as in SQL; doubles are added by :func:`added`.

    :raises pyarrow.ArrowInvalid: if a sum does not fit the type of its column.
    """
    keys = [f"_by{place}" for place, _ in enumerate(by)]
    values = [f"_sum{place}" for place, _ in enumerate(names)]
    columns = {key: rows[name] for key, name in zip(keys, by)} or {"_all": pa.repeat(0, len(rows))}
    kinds = dict[str, str]()
    for value, name in zip(values, names):  # a contract's own name might be that of a sum
        columns[value], kinds[value] = summable(rows[name]), "list" if pa.types.is_floating(rows[name].type) else "sum"
    order = [(key, "ascending") for key in columns if key not in kinds]
    sums = pa.table(columns).group_by([key for key, _ in order], use_threads=False).aggregate([*kinds.items()]).sort_by(order)
    made = {name: sums[key] for name, key in zip(by, keys)}
    for name, (value, kind) in zip(names, kinds.items()):
        column, of = sums[f"{value}_{kind}"], rows.schema.field(name).type
        made[name] = pa.array([added(group.values) for group in column], of) if kind == "list" else column.cast(of)
    return pa.table(made)


def _shortest(total: float) -> float:
    """The number of 15 digits that is the neighbour of a double, else the double: 12.5 + 9.9 + 101.7 is 124.1."""
    short = float(f"{total:.14e}")
    return short if abs(short - total) <= abs(total) * _STEP else total


class _Sum(NamedTuple):
    """A call of a sum or an average in an expression, by the places of its tokens."""

    begin: int
    end: int
    argument: str
    #: `` FILTER (WHERE ...)``, or nothing.
    condition: str
    is_average: bool


def _sums(tokens: list[str]) -> Iterator[_Sum]:
    place = 0
    while place < len(tokens):
        name = tokens[place].lower().strip("`")
        if name in _SUMS | _AVERAGES and sql_syntax.opens_group(tokens, place + 1) and not sql_syntax.is_part(tokens, place):
            begin = sql_syntax.skip(tokens, place + 1)
            end, after = sql_syntax.end_of_group(tokens, begin), sql_syntax.end_of_call(tokens, begin)
            inner = tokens[begin + 1 : end - 1]
            condition = f" {''.join(tokens[sql_syntax.skip(tokens, end) : after])}" if after > end else ""
            first = inner[sql_syntax.skip(inner, 0)].lower() if sql_syntax.skip(inner, 0) < len(inner) else ""
            if first not in {"distinct", "all"}:
                yield _Sum(place, after, "".join(inner).strip(), condition, name in _AVERAGES)
            place = after
        else:
            place += 1


def _rewritten(text: str, doubles: Mapping[str, str]) -> str:
    """An expression in which the sums over doubles are exact.

    :param doubles: by argument, the column that holds it.
    """
    tokens = sql_syntax.tokens_of(text)
    done, place = list[str](), 0
    for call in _sums(tokens):
        if call.argument in doubles:
            column = doubles[call.argument]
            total = _total(column, call.condition)
            if call.is_average:
                total = f"({total} / nullif(count({column}){call.condition}, 0))"
            done += [*tokens[place : call.begin], total]
            place = call.end
    return "".join([*done, *tokens[place:]])


def _cut(column: str) -> dict[str, str]:
    """Columns made of a double: the part that can be cut, and the rest, which is 0 for all but the most unusual values."""
    least = _EXPONENTS[-1]
    left = f"{column} - rint({column} * {_power(-least)}) * {_power(least)}"
    return {
        f"{column}_cut": f"CASE WHEN abs({column}) >= {_TOO_LARGE!r}D THEN 0D ELSE {column} END",
        f"{column}_rest": f"CASE WHEN abs({column}) >= {_TOO_LARGE!r}D THEN {column} ELSE {left} END",
    }


def _total(column: str, condition: str) -> str:
    """The exact sum of a column that was cut, rounded once: an expression with aggregates.

    The totals of the parts become digits with signs, from the least to the greatest, and pairs of digits are doubles. Doubles of
    decreasing size are added together with the error of each addition, which is exact, too.
    """
    totals = [f"sum(CAST({part} AS BIGINT)){condition}" for part in _parts(f"{column}_cut")]
    half, base = f"{2 ** (_WIDTH - 1)}L", f"{2**_WIDTH}L"
    carried = f"shiftright(a.carry + total + {half}, {_WIDTH})"
    digit = f"CAST(a.carry + total - {carried} * {base} AS DOUBLE)"
    begin = "struct(0L AS carry, CAST(array() AS ARRAY<DOUBLE>) AS digits)"
    step = f"(a, total) -> struct({carried} AS carry, concat(a.digits, array({digit})) AS digits)"
    last = len(_EXPONENTS) - 1
    scaled = [f"a.digits[{last - place}] * {_power(exponent)}" for place, exponent in enumerate(_EXPONENTS)]
    scaled = [f"a.carry * {_power(_EXPONENTS[0] + _WIDTH)}", *scaled]
    pairs = ", ".join(" + ".join(scaled[place : place + 2]) for place in range(0, len(scaled), 2))
    error = "part - ((b.sum + part) - b.sum)"
    add = f"(b, part) -> struct(b.sum + part AS sum, b.error + ({error}) AS error)"
    added_up = f"aggregate(array({pairs}), struct(0D AS sum, 0D AS error), {add}, b -> b.sum + b.error)"
    rest = f"sum({column}_rest){condition}"
    total = f"aggregate(array({', '.join(reversed(totals))}), {begin}, {step}, a -> {added_up}) + {rest}"
    short = "TRY_CAST(format_string('%.14e', r) AS DOUBLE)"
    shortest = f"CASE WHEN abs({short} - r) <= abs(r) * {_STEP!r}D THEN {short} ELSE r END"
    return f"element_at(transform(array({total}), r -> {shortest}), 1)"


def _parts(column: str) -> list[str]:
    """The parts of a double, as multiples of their powers of two, the greatest first."""
    whole = [f"rint({column} * {_power(-exponent)})" for exponent in _EXPONENTS]
    return [whole[0], *(f"{own} - {greater} * {_power(_WIDTH)}" for greater, own in pairwise(whole))]


def _power(exponent: int) -> str:
    """A power of two, which a double holds exactly."""
    return f"{2.0**exponent!r}D"


def _is_double(kind: str) -> bool:
    return kind in {"double", "float"}


def _is_rough(text: str) -> bool:
    """Whether an expression has an aggregate whose last digits depend on the order of the rows."""
    tokens = [token.lower().strip("`") for token in sql_syntax.tokens_of(text) if not sql_syntax.is_space(token)]
    calls = [(name, after) for name, sign, after in zip(tokens, tokens[1:], [*tokens[2:], ""]) if sign == "("]
    return any(name in _ROUGH or (name in _SUMS | _AVERAGES and after == "distinct") for name, after in calls)
