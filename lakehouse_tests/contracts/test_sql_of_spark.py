"""Spark's own analysis agrees with what is said of expressions when a contract is loaded."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.contracts import sql_expressions
from lakehouse.contracts.sql_expressions import OF_A_ROW, OF_ROWS, OF_TEXTS, wrong_count
from lakehouse.contracts.sql_syntax import parse
from lakehouse_tests.support.expressions import COLUMNS, MEASURES, NO_SQL, OF_ROW, UNFIT_MEASURES, UNFIT_OF_ROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.sql_syntax import ParsedSql

pytestmark = [pytest.mark.spark, pytest.mark.merge]
#: Functions whose arguments are not all values, or that Spark does not find by name.
OF_OTHER_FORM = {"cast", "try_cast", "timestampadd", "timestampdiff", "varchar", "date_add", "date_diff", "dateadd", "datediff"}


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items()))


def _is_computed(rows: DataFrame, text: str, *, of_rows: bool) -> str | None:
    """Spark's reason not to compute an expression; None if it would."""
    try:
        value = F.expr(sql_expressions.cast(text, "string"))
        (rows.groupBy("region").agg(value) if of_rows else rows.select(value)).schema  # noqa: B018 (Spark analyses it here)
    except Exception as problem:  # noqa: BLE001 (some are errors of the JVM)
        return f"{type(problem).__name__} {str(problem)[:300]}"
    return None


def test_spark_computes_what_is_taken(rows: DataFrame) -> None:
    refused = {text: why for text in OF_ROW if (why := _is_computed(rows, text, of_rows=False))}
    refused |= {text: why for text in MEASURES if (why := _is_computed(rows, text, of_rows=True))}
    assert refused == {}


def test_spark_refuses_what_is_refused(rows: DataFrame) -> None:
    no_sql = [text for text in NO_SQL if text != "amount, n"]  # the parentheses of the cast make a struct of it
    taken = [text for text in [*no_sql, *UNFIT_OF_ROW] if _is_computed(rows, text, of_rows=False) is None]
    taken += [text for text in UNFIT_MEASURES if _is_computed(rows, text, of_rows=True) is None]
    assert taken == []


def test_spark_counts_arguments_alike(spark: SparkSession) -> None:
    """Nothing that Spark takes is refused: some of the functions, with one argument too few and one too many."""
    for name in sorted((OF_A_ROW | OF_ROWS) - OF_OTHER_FORM)[::8]:
        counts = [count for count in range(9) if wrong_count(name, count) is None]
        for count in {counts[0] - 1, counts[-1] + 1} & {*range(9)}:
            with suppress(AnalysisException):
                spark.sql(f"SELECT {name}({', '.join(['NULL'] * count)})").schema  # noqa: B018
                pytest.fail(f"Spark takes {name}() with {count} arguments")


def test_the_texts_that_are_refused_are_those_that_spark_takes_for_a_time_of_now(
    spark: SparkSession,
) -> None:
    texts = (
        r"""
    now|NOW|\0now|\bnow|\Znow|now\Z|\U0000006eow|today+01:00|tomorrow-1|yesterday UTC|today  Europe/Berlin|todays|today is a day
    |today_1|nowhere|14:30|9:30:15|T14|\t14:30|14:30 UTC|14|T|x14:30|-14:30|2024-01-01 14:30|2024-01-01|epoch
    """.strip()
        .replace("\n    ", "")
        .split("|")
    )
    times = ", ".join(f"abs(datediff(try_cast('{text}' as timestamp), current_date)) < 3" for text in texts)
    taken = {text for text, is_now in zip(texts, spark.sql(f"SELECT {times}").collect()[0]) if is_now}
    assert taken >= {"now", "14:30", "today+01:00"}
    refused = {text for text in texts if sql_expressions.refused(f"'{text}'", OF_A_ROW)}
    refused |= {text for text in texts if parsed_of(f"timestamp('{text}')").texts_as_times(None, OF_TEXTS)}
    assert taken <= refused
    assert refused - taken <= {"now UTC", "14:30 UTC"}


def parsed_of(text: str) -> ParsedSql:
    parsed = parse(text)
    assert parsed is not None
    return parsed


@pytest.mark.parametrize("value", ["conv(30704, 10, 36)", "base64(X'b689a8aeba30')", "parse_url('http://now/', 'HOST')"])
def test_spark_makes_now_of_constants(spark: SparkSession, value: str) -> None:
    [row] = spark.sql(f"SELECT abs(datediff(try_cast({value} as timestamp), current_date)) < 3").collect()
    assert row[0]
    assert parsed_of(value).calls[0].of_constants
    assert parsed_of(value).calls[0].name in OF_TEXTS
