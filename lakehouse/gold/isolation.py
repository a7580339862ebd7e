"""Isolates failures: one number that cannot be computed stops no other (rule R17).

All numbers of a series are computed together. Only if that fails because of a value (an overflow, a text that is no number, a
position that an array does not have), the periods are divided until those that fail are alone. Other failures, of storage, of
memory or of an unknown column, concern no single period, and are raised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
)

from lakehouse.ledger import failures

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import date

    from lakehouse.contracts.metric import Measure, MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.lake import Lake

#: A period, by its first day or as a whole.
P = TypeVar("P")
Q = TypeVar("Q")

_OF_VALUES = (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    pa.ArrowInvalid,
    OverflowError,
)
#: Spark's data exceptions (class 22), duplicate keys of a map, and arrays that are too long, under any Python class.
_STATE = re.compile(r"SQLSTATE: (?:22\w{3}|23505|54000)|Illegal sequence boundaries")
_PARTS = 4


@dataclass(frozen=True)
class Isolated(Generic[P]):
    """The computed numbers, and for each period that could not be computed the failing measure and the explanation."""

    numbers: Mapping[P, pa.Table]
    failed: Mapping[P, tuple[str | None, str]] = field(default_factory=dict)

    def by(self, name: Callable[[P], Q]) -> Isolated[Q]:
        """The same results with the periods renamed by ``name``."""
        numbers = {name(period): rows for period, rows in self.numbers.items()}
        return Isolated(numbers, {name(period): failure for period, failure in self.failed.items()})


def is_of_a_value(problem: Exception) -> bool:
    """Whether an error is caused by a value, so that the same computation of the same rows fails each time."""
    return isinstance(problem, _OF_VALUES) or _STATE.search(f"{problem}") is not None


def isolate(
    periods: Collection[P],
    compute: Callable[[Sequence[P]], Mapping[P, pa.Table]],
    suspects: Collection[P] = (),
) -> tuple[dict[P, pa.Table], dict[P, Exception]]:
    """Compute the numbers of ``periods``, and determine those that fail because of a value.

    :param compute: computes any of the periods, and writes nothing.
    :param suspects: periods that failed before; they are computed separately from the others.
    :returns: the numbers, and the error of each period that fails.
    """
    numbers: dict[P, pa.Table] = {}
    failed: dict[P, Exception] = {}
    apart = [period for period in periods if period in suspects]
    waiting = [part for part in ([period for period in periods if period not in suspects], apart) if part]
    while waiting:
        part = waiting.pop()
        try:
            numbers.update(compute(part))
        except Exception as problem:
            if not is_of_a_value(problem):
                raise
            if len(part) == 1:
                failed[part[0]] = problem
            size = -(-len(part) // _PARTS)
            waiting += [part[begin : begin + size] for begin in range(0, len(part), size)] if len(part) > 1 else []
    return numbers, failed


def numbers_of(
    lake: Lake,
    series: Series,
    periods: Collection[P],
    compute: Callable[[MetricContract | None, Sequence[P]], Mapping[P, pa.Table]],
    start_of: Callable[[P], date],
) -> Isolated[P]:
    """The numbers of ``periods`` of a series, and for each of the others the measure that fails.

    :param compute: computes periods for the metric itself (None), or for a copy of it with only one of its measures.
    :param start_of: the first day of a period.
    """
    known = failures.failing(lake, series.name) if periods else {}
    suspects = {period for period in periods if start_of(period) in known}
    numbers, problems = isolate(list(periods), lambda part: compute(None, part), suspects)
    measures, failed = list(series.metric.measures), dict[P, tuple[str | None, str]]()
    for period, rows in list(numbers.items()):
        beyond = next(((each, problem) for each in measures if (problem := _beyond_doubles(rows, each))), None)
        if beyond is not None:
            failed[period] = (beyond[0].name, failures.explained(series, start_of(period), *beyond))
            del numbers[period]
    for period, problem in problems.items():
        measure = _failing_measure(series.metric, measures, period, compute)
        if measure is not None:
            measures.sort(key=lambda one: one != measure)  # it is the likeliest of the next period as well
        failed[period] = (measure.name if measure else None, failures.explained(series, start_of(period), measure, problem))
    return Isolated(numbers, failed)


def _beyond_doubles(rows: pa.Table, measure: Measure) -> Exception | None:
    """The problem of a measure that is infinite or not a number. Fields hold neither, so an overflow has made it."""
    if measure.name not in rows.column_names or not pa.types.is_floating(rows[measure.name].type):
        return None
    values = pc.drop_null(rows[measure.name])
    odd = values.filter(pc.invert(pc.is_finite(values)))
    return OverflowError(f"{odd[0].as_py()} is no number: values on the way to it do not fit a double") if len(odd) else None


def _failing_measure(
    metric: MetricContract,
    measures: Sequence[Measure],
    period: P,
    compute: Callable[[MetricContract | None, Sequence[P]], Mapping[P, Any]],
) -> Measure | None:
    """The measure that fails for a period; None if none fails individually."""
    if len(measures) == 1:
        return measures[0]
    for measure in measures:
        alone = metric.model_copy(update={"measures": [measure]})
        if isolate([period], partial(compute, alone))[1]:
            return measure
    return None
