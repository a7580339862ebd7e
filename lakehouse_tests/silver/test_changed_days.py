"""The days on which two sets of rows differ are those on which they differ as multisets."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.silver.merge import changed_days
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "event_date date, key string, name string, amount double"
TEXTS = st.sampled_from([None, "", "a", "b"])
DAYS = st.sampled_from([date(2024, 1, day) for day in (1, 2, 3)])
ROWS = st.lists(st.tuples(DAYS, TEXTS, TEXTS, st.sampled_from([None, 0.0, 1.5, float("inf")])), max_size=6)


def frame(spark: SparkSession, rows: list[tuple[object, ...]]) -> DataFrame:
    return spark.createDataFrame(rows, SCHEMA)


FIRST, SECOND, THIRD = (date(2024, 1, day) for day in (1, 2, 3))


@law(50)
# One day has a row more of the same content, one has nothing where it had an empty text, one is the same.
@example(
    [(FIRST, "a", "b", 1.5), (SECOND, "a", "", 0.0), (THIRD, None, "b", float("inf"))],
    [(FIRST, "a", "b", 1.5), (SECOND, "a", None, 0.0), (THIRD, None, "b", float("inf")), (FIRST, "a", "b", 1.5)],
    0,
)
# A value is in another column, a day is new, and the rest is shared, in another order.
@example([(FIRST, "a", None, None), (SECOND, "a", "b", 1.5)], [(FIRST, None, "a", None), (THIRD, "a", "b", 1.5)], 2)
@given(ROWS, ROWS, st.integers(0, 6))
def test_days_differ_as_multisets_of_their_rows(spark: SparkSession, before: list, after: list, shared: int) -> None:
    after = [*before[:shared], *after]  # else hardly any day would be the same
    rows_before, rows_after = Counter(before), Counter(after)
    expected = {row[0] for row in {*before, *after} if rows_before[row] != rows_after[row]}
    assert changed_days(frame(spark, before), frame(spark, after)) == expected


def test_a_value_in_another_column_and_a_row_more_are_changes(spark: SparkSession) -> None:
    days = [date(2024, 1, day) for day in (1, 2, 3, 4)]
    before = [(days[0], "a", None, None), (days[1], "a", "b", 1.0), (days[2], "a", "b", 1.0), (days[3], None, None, None)]
    after = [(days[0], None, "a", None), (days[1], "a", "b", 1.0), (days[1], "a", "b", 1.0), (days[2], "a", "b", 1.0)]
    assert changed_days(frame(spark, before), frame(spark, after)) == {days[0], days[1], days[3]}
