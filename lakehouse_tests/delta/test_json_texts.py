"""Values as JSON: a column gives the same texts as its values one by one."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.delta.columns import distinct_values, json_text, json_texts

UTC = st.datetimes(timezones=st.just(timezone.utc))
COLUMNS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): st.text() | st.sampled_from(["", "null", "ä\x7f", '"\\\x00\x1f\b\f\n\r\t', "\u2028"]),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_subnormal=True)
    | st.integers(-20, 20).map(lambda power: 10.0**power)
    | st.integers().map(float),
    pa.float32(): st.floats(width=32),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): UTC | UTC.map(lambda moment: moment.replace(microsecond=0)),
    pa.timestamp("us"): st.datetimes(),
    pa.decimal128(12, 2): st.decimals(-(10**9), 10**9, places=2),
    pa.decimal128(38, 20): st.decimals(-1, 1, places=20),
    pa.decimal128(9, 0): st.integers(-(10**8), 10**8).map(Decimal),
}


@pytest.mark.parametrize("kind", COLUMNS, ids=str)
def test_a_column_gives_the_texts_of_its_values(kind: pa.DataType) -> None:
    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.none() | COLUMNS[kind]))
    def check(values: list[Any]) -> None:
        column = pa.array(values, kind)
        assert json_texts(column).to_pylist() == [json_text(value) for value in column.to_pylist()]
        assert json_texts(column.slice(1)).to_pylist() == [json_text(value) for value in column.to_pylist()[1:]]

    check()


def test_distinct_values_are_told_apart_by_their_text() -> None:
    distinct, which = distinct_values(pa.array([0.0, None, -0.0, 0.0]))
    assert [json_text(value) for value in distinct.to_pylist()] == ["0.0", "-0.0"]
    assert which.to_pylist() == [0, None, 1, 0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        ('"\n\\ä', '"\\"\\n\\\\ä"'),
        (True, "true"),
        (2**60, "1152921504606846976"),
        (0.1, "0.1"),
        (float("inf"), '"inf"'),
        (Decimal("0E-8"), '"0.00000000"'),
        (Decimal("-12.50"), '"-12.50"'),
        (date(2024, 2, 29), '"2024-02-29"'),
        (datetime(2024, 2, 29, 1, 2, 3, 4000, timezone.utc), '"2024-02-29T01:02:03.004000+00:00"'),
    ],
)
def test_values_are_json_that_can_be_turned_back(value: Any, text: str) -> None:
    assert json_text(value) == text
    back = json.loads(text)
    kind = type(value)
    assert value == (back if isinstance(back, kind) else kind.fromisoformat(back) if isinstance(value, date) else kind(back))
