from __future__ import annotations

import pytest

from lakehouse.contracts.derived import DerivedInput, references


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        ("revenue.sales / sessions.n", [("revenue", "sales"), ("sessions", "n")]),
        ("Revenue.Sales + revenue.sales", [("revenue", "sales")]),
        ("`revenue` . `sales` * 1.5e3", [("revenue", "sales")]),
        ("CASE WHEN store = 'a.b' THEN \"c.d\" ELSE sessions.n END", [("sessions", "n")]),
        ("'it\\'s a.b' || x1.y2", [("x1", "y2")]),
        ("1.5 + store", []),
    ],
)
def test_an_expression_reads_what_is_written_as_input_and_column(sql: str, read: list[tuple[str, str]]) -> None:
    assert references(sql) == read


def test_rows_of_a_finer_grain_and_adjustments_are_added_up() -> None:
    read = DerivedInput(metric="sessions", grain=["store", "channel"], measures=["n"])
    assert read.is_summed([])
    assert read.is_summed(["store"])
    assert not read.is_summed(["channel", "store"])
    assert read.model_copy(update={"adjusts": True}).is_summed(["channel", "store"])
