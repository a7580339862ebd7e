"""Expressions are read without Spark: what they call and read, and where they are not SQL."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts.sql_expressions import OF_A_ROW, OF_ROWS, wrong_count
from lakehouse.contracts.sql_syntax import SqlSyntaxError, parse
from lakehouse_tests.support.expressions import MEASURES, NAMES, NO_SQL, OF_ROW


@pytest.mark.parametrize("text", [*OF_ROW, *MEASURES])
def test_what_spark_computes_is_an_expression(text: str) -> None:
    parsed = parse(text, NAMES)
    assert parsed is not None
    assert {column.parts[0] for column in parsed.columns} <= NAMES
    assert [wrong_count(call.name, call.arguments) for call in parsed.calls if call.arguments is not None] == [None] * len(
        [call for call in parsed.calls if call.arguments is not None]
    )


@pytest.mark.parametrize("text", NO_SQL)
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(SqlSyntaxError):
        parse(text, NAMES)
    with suppress(SqlSyntaxError):  # as far as it can be told where the columns are not known
        assert parse(text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sum(amount", "it ends in the middle; something is missing at its end"),
        ("amount >", "it ends in the middle; something is missing at its end"),
        ("sum(amount))", "a parenthesis is closed that is not open"),
        ("sum(amount) sum(amount)", r"it cannot be read from '\(amount\)' on"),
        ("amount = = 1", "it cannot be read from '= 1' on"),
        ("region = 'north", "a quotation mark is not closed"),
        ("", "it is no single expression"),
        ("amount; region", "it cannot be read from 'amount; region' on"),
        ("sum(amount) AS total", "it is no single expression"),
    ],
)
def test_the_place_of_a_mistake_is_named(text: str, message: str) -> None:
    with pytest.raises(SqlSyntaxError, match=f"^{message}$"):
        parse(text, NAMES)


WORDS = ["order", "group", "end", "table", "date", "timestamp", "interval", "index", "user", "comment", "desc", "values", "range"]
WORDS += ["rows", "set", "default", "current", "offset", "limit", "partition", "format", "left", "from", "of", "key", "window"]
WORDS += ["column", "row", "start", "type", "value", "join", "on", "using", "natural", "order_id", "any"]


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("form", ["sum({})", "{} > 0", "1 + {}", "if({} > 1, {}, 0)", "sum({}) filter (where {} > 1)"])
def test_a_column_may_be_called_like_a_word_of_sql(name: str, form: str) -> None:
    parsed = parse(form.replace("{}", name), frozenset({name}))
    assert parsed is None or {column.parts for column in parsed.columns} == {(name,)}
    assert parse(form.replace("{}", f"`{name}`"), frozenset()) is not None


@pytest.mark.parametrize(
    ("text", "names", "columns"),
    [
        ("from = 'from'", {"from"}, ["from"]),
        ("from in ('a', region)", {"from", "in", "region"}, ["from", "region"]),
    ],
)
def test_a_text_and_a_word_before_a_parenthesis_are_no_columns(text: str, names: set[str], columns: list[str]) -> None:
    parsed = parse(text, frozenset(names))
    assert parsed is not None
    assert [column.parts for column in parsed.columns] == [(name,) for name in columns]


@given(st.recursive(st.sampled_from(sorted(NAMES)), lambda inner: st.builds("({} + {})".format, inner, inner), max_leaves=12))
def test_every_column_is_read_with_the_functions_around_it(text: str) -> None:
    parsed = parse(f"coalesce(sum({text}), 0)", NAMES)
    assert parsed is not None
    assert sorted(column.parts[0] for column in parsed.columns) == sorted(
        name for name in text.replace("(", " ").replace(")", " ").split() if name != "+"
    )
    assert {column.within for column in parsed.columns} == {("sum", "coalesce")}


def test_parameters_of_lambdas_and_units_are_no_columns() -> None:
    parsed = parse("transform(array(amount), x -> x + filter(array(n), y -> y > x)[0])", NAMES)
    assert parsed is not None
    assert [column.parts for column in parsed.columns] == [("amount",), ("n",)]
    assert parse("dateadd(DAY, 1, event_date)").columns == parse("dateadd(event_date, 1)").columns


@given(st.sampled_from(sorted(OF_A_ROW | OF_ROWS)), st.integers(0, 9))
def test_a_function_says_how_many_arguments_it_takes(name: str, count: int) -> None:
    wrong = wrong_count(name, count)
    assert wrong is None or wrong.startswith(f"{name}() takes ")


def test_the_number_of_arguments_is_said_in_words() -> None:
    assert wrong_count("hour", 0) == "hour() takes at least 1 arguments, and there are none"
    assert wrong_count("sum", 2) == "sum() takes 1 argument, and there are 2"
    assert wrong_count("round", 3) == "round() takes 1 to 2 arguments, and there are 3"
    assert wrong_count("nullif", 1) == "nullif() takes 2 arguments, and there is 1"
