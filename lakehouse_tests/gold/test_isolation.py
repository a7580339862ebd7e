"""One number that cannot be computed stops no other: the rule in this process, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import ArithmeticException

from lakehouse.gold import isolation
from lakehouse.ledger import failures
from lakehouse_tests.support.laws import law

_PERIODS = st.sets(st.integers(0, 200), max_size=60)


class Source:
    """Computes the number of each period as itself, and fails for all if one of them is poisoned."""

    def __init__(self, poisoned: set[int], problem: str = "") -> None:
        self.poisoned, self.problem, self.jobs = poisoned, problem, 0

    def compute(self, periods: Sequence[int]) -> Mapping[int, pa.Table]:
        self.jobs += 1
        if bad := self.poisoned.intersection(periods):
            msg = f"[ARITHMETIC_OVERFLOW] {min(bad)} does not fit. SQLSTATE: 22003"
            raise RuntimeError(self.problem) if self.problem else ArithmeticException(msg)
        return {period: pa.table({"n": [period]}) for period in periods if period % 7}


@law(500, in_each_run=200)
@given(_PERIODS, _PERIODS, _PERIODS)
def test_each_number_is_as_if_no_other_were_poisoned(periods: set[int], poisoned: set[int], suspects: set[int]) -> None:
    source = Source(poisoned)
    numbers, failed = isolation.isolate(sorted(periods), source.compute, suspects)
    assert failed.keys() == periods & poisoned
    assert {period: rows["n"].to_pylist() for period, rows in numbers.items()} == {
        period: [period] for period in periods - poisoned if period % 7
    }
    assert all(f"{period} does not fit" in f"{problem}" for period, problem in failed.items())


@law(200, in_each_run=100)
@given(_PERIODS.filter(bool), st.booleans())
def test_what_does_not_fail_is_one_computation(periods: set[int], known: bool) -> None:
    source = Source({1000})
    isolation.isolate(sorted(periods), source.compute, periods if known else ())
    assert source.jobs == 1


def test_one_poisoned_day_of_2000_costs_some_computations_and_once_it_is_known_one_more() -> None:
    source = Source({777})
    assert isolation.isolate(range(2000), source.compute)[1].keys() == {777}
    assert source.jobs <= 25
    source.jobs = 0
    isolation.isolate(range(2000), source.compute, {777})
    assert source.jobs == 2


def test_a_failure_that_is_due_to_no_value_is_raised_at_once() -> None:
    source = Source({3}, "the storage does not answer")
    with pytest.raises(RuntimeError, match="storage"):
        isolation.isolate([1, 2, 3], source.compute)
    assert source.jobs == 1


_TOO_LARGE = (
    "[NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION]  10.99 cannot be represented as Decimal(3, 2). If necessary set "
    '"spark.sql.ansi.enabled" to "false" to bypass this error, and return NULL instead. SQLSTATE: 22003\n== SQL ==\nsum(x)'
)
_NO_NUMBER = (
    "[CAST_INVALID_INPUT] The value 'x' of the type STRING cannot be cast to INT because it is malformed. Use `try_cast` to "
    "tolerate malformed input and return NULL instead. SQLSTATE: 22018"
)
_OF_NO_NUMBER = "The value 'x' of the type STRING cannot be cast to INT because it is malformed"


@pytest.mark.parametrize(
    ("text", "line"),
    [(_TOO_LARGE, "10.99 cannot be represented as Decimal(3, 2)"), (_NO_NUMBER, _OF_NO_NUMBER), ("", "ValueError")],
)
def test_the_reason_is_what_the_error_says_of_the_value(text: str, line: str) -> None:
    assert failures.reason(ValueError(text)) == line
