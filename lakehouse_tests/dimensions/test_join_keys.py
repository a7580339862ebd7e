"""The key by which columns of facts are joined is that which a record with these values has, whatever their types."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.bronze.row_parser import record_key
from lakehouse.dimensions import tables

VALUES = {
    pa.string(): st.text(max_size=4) | st.sampled_from(['"', "\\", 'a"b\n', "\x1f", "\x00", "ä", ""]),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    pa.decimal128(12, 2): st.decimals(Decimal(-99999), Decimal(99999), places=2),
    pa.decimal128(12, 6): st.decimals(Decimal(-99999), Decimal(99999), places=6),
}


@st.composite
def columns(draw: st.DrawFn) -> list[tuple[pa.DataType, list[object]]]:
    rows = draw(st.integers(0, 3))
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    return [(kind, draw(st.lists(st.none() | VALUES[kind], min_size=rows, max_size=rows))) for kind in kinds]


@given(columns())
def test_the_key_of_columns_is_the_key_of_records(given_columns: list[tuple[pa.DataType, list[object]]]) -> None:
    found = tables.key_texts([pa.chunked_array([pa.array(values, kind)]) for kind, values in given_columns]).to_pylist()
    records = zip(*(values for _, values in given_columns))
    assert found == [None if None in record else record_key(list(record)) for record in records]
