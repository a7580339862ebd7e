"""A division by zero is NULL: what the text of an expression becomes before Spark evaluates it."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts.sql_expressions import null_if_zero
from lakehouse_tests.support.laws import law

REWRITTEN = {
    "sum(orders)/sum(sessions)": "sum(orders)/nullif(sum(sessions), 0)",
    "sum(a) / sum(b) / sum(c)": "sum(a) / nullif(sum(b), 0) / nullif(sum(c), 0)",
    "sum(a) / (sum(b) / sum(c))": "sum(a) / nullif((sum(b) / nullif(sum(c), 0)), 0)",
    "a / -b * c": "a / nullif(-b, 0) * c",
    "a % b + a div b": "a % nullif(b, 0) + a div nullif(b, 0)",
    "revenue.total / visits.n[0].x::int + 1": "revenue.total / nullif(visits.n[0].x::int, 0) + 1",
    "mod(a, b) + pmod(a / c, coalesce(b, 1))": "mod(a, nullif(b, 0)) + pmod(a / nullif(c, 0), nullif(coalesce(b, 1), 0))",
    "sum(a) / sum(b) FILTER (WHERE b > 0)": "sum(a) / nullif(sum(b) FILTER (WHERE b > 0), 0)",
    "a / sum(b)filter(where c) / d": "a / nullif(sum(b)filter(where c), 0) / nullif(d, 0)",
    "a / case when b then case c when 1 then 0 end else 2 end + 1": (
        "a / nullif(case when b then case c when 1 then 0 end else 2 end, 0) + 1"
    ),
    "a / `b/c` -- a/b\n": "a / nullif(`b/c`, 0) -- a/b\n",
    "a /* a/b */ / /* by */ b": "a /* a/b */ / /* by */ nullif(b, 0)",
    "sum(a) / 0": "sum(a) / nullif(0, 0)",
    "sum(a) / cast(0.0 as double)": "sum(a) / nullif(cast(0.0 as double), 0)",
}
KEPT = [
    "sum(a) / 100",
    "sum(a) / 1.5e3",
    "sum(a) / 0.01BD",
    "concat('a/b', \"c/d\")",
    "sum(x) * 2",
    "sum(div)",
    "r.div + 1",
    "a /",
]


@pytest.mark.parametrize("sql", REWRITTEN)
def test_the_divisor_is_null_where_it_is_zero(sql: str) -> None:
    assert null_if_zero(sql) == REWRITTEN[sql]


@pytest.mark.parametrize("sql", KEPT)
def test_other_expressions_do_not_change(sql: str) -> None:
    assert null_if_zero(sql) == sql


_VALUES = st.sampled_from(["0", "1", "2", "a", "b", "(a - b)", "f(a, b)"])
_TERMS = st.recursive(
    _VALUES, lambda terms: st.tuples(terms, st.sampled_from(["+", "*", "/", "%"]), terms).map(lambda t: f"({' '.join(t)})")
)


_NAMES = {"a": 2.0, "b": 0.0}
_SIGNS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
    ast.Sub: operator.sub,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}


def _value(text: str) -> float | None:
    """The value of an expression, in which NULL spreads as in SQL."""
    return _of(ast.parse(text, mode="eval").body)


def _of(node: ast.expr) -> float | None:
    if isinstance(node, ast.Constant):
        return float(str(node.value))
    if isinstance(node, ast.Name):
        return _NAMES[node.id]
    if isinstance(node, ast.Call):
        first, second = (_of(one) for one in node.args)
        if isinstance(node.func, ast.Name) and node.func.id == "nullif":
            return None if first == second else first
        return None if first is None or second is None else first * second - 1
    assert isinstance(node, ast.BinOp)
    left, right = _of(node.left), _of(node.right)
    return None if left is None or right is None else _SIGNS[type(node.op)](left, right)


@law(300, in_each_run=100)
@given(_TERMS)
def test_nothing_is_divided_by_zero_and_what_is_divided_stays(text: str) -> None:
    rewritten = _value(null_if_zero(text))  # raises ZeroDivisionError if a divisor is not guarded
    with suppress(ZeroDivisionError):
        assert _value(text) == rewritten
