"""What the measures are computed from: inputs added up and joined by the grain, in Arrow alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakehouse.contracts.series import Series
from lakehouse.gold.restatement import derived
from lakehouse.gold.restatement.derived_inputs import InputError, PeriodOfInput
from lakehouse_tests.support.derived_numbers import adjusting, day, metric, metrics, revenue, sessions

if TYPE_CHECKING:
    from lakehouse.contracts.metric import MetricContract

KNOWN = metrics()


def period(
    of: MetricContract, name: str, rows: list[dict[str, Any]], booked: list[dict[str, Any]] | None = None, **types: pa.DataType
) -> PeriodOfInput:
    """The number of an input, with an adjustment or without."""
    [read] = [one for one in of.inputs if one.metric == name]
    schema = pa.schema(
        [*((one, types.get(one, pa.string())) for one in read.grain), *((one, pa.int64()) for one in read.columns)]
    )
    tables = [None if part is None else pa.Table.from_pylist(part, schema=schema) for part in (rows, booked)]
    return PeriodOfInput(read, day(1), *tables)


def joined(of: MetricContract, *periods: PeriodOfInput) -> list[dict[str, Any]]:
    rows = derived.joined(Series(of), {day(1): periods}).to_pylist()
    return sorted(rows, key=lambda row: f"{row.get('store')}")


def test_every_row_that_an_input_has_is_there_with_what_the_others_have() -> None:
    conversion = KNOWN["conversion"]
    rows = joined(
        conversion,
        period(conversion, "revenue", revenue(north=5, south=1)),
        period(conversion, "sessions", sessions(north=3, east=1)),
    )
    nothing = {"sales": None, "biggest": None, "row_count": None}
    assert rows == [
        {"period_start": day(1), "store": "east", "revenue": nothing, "sessions": {"n": 1, "row_count": 1}, "row_count": 1},
        {
            "period_start": day(1),
            "store": "north",
            "revenue": {"sales": 5, "biggest": 5, "row_count": 2},
            "sessions": {"n": 3, "row_count": 3},
            "row_count": 5,
        },
        {
            "period_start": day(1),
            "store": "south",
            "revenue": {"sales": 1, "biggest": 1, "row_count": 2},
            "sessions": {"n": None, "row_count": None},
            "row_count": 2,
        },
    ]


def test_rows_whose_grain_is_null_are_one_row_of_the_grain() -> None:
    conversion = KNOWN["conversion"]
    without_store = [row | {"store": None} for row in sessions(north=3)]
    rows = joined(
        conversion,
        period(conversion, "revenue", [{**revenue(x=2)[0], "store": None}]),
        period(conversion, "sessions", without_store),
    )
    assert [(row["store"], row["sessions"]["n"], row["revenue"]["sales"]) for row in rows] == [(None, 3, 2)]


def test_booked_adjustments_are_added_also_to_the_number_of_an_emptied_day() -> None:
    conversion = metrics(adjusting())["conversion"]
    empty = [{"store": None, "channel": None, "n": None, "row_count": 0}]
    booked = [{"store": "north", "channel": "web", "n": -2, "row_count": -2}]
    of_revenue = period(conversion, "revenue", revenue(north=5))
    rows = joined(conversion, of_revenue, period(conversion, "sessions", empty, booked))
    assert [(row["store"], row["sessions"]["n"], row["row_count"]) for row in rows] == [("north", -2, 0)]
    rows = joined(conversion, of_revenue, period(conversion, "sessions", sessions(north=3), booked))
    assert [(row["store"], row["sessions"]["n"], row["row_count"]) for row in rows] == [("north", 1, 3)]


def test_grains_of_different_types_are_refused_with_a_sentence() -> None:
    conversion = KNOWN["conversion"]
    of_sessions = period(conversion, "sessions", [{"store": 1, "channel": "web", "n": 1, "row_count": 1}], store=pa.int64())
    with pytest.raises(InputError, match="conversion: the inputs have grains of different types"):
        joined(conversion, period(conversion, "revenue", revenue(north=5)), of_sessions)


def test_a_derived_metric_of_the_whole_adds_all_rows_up() -> None:
    whole = metrics(metric("whole", {"name": "c", "sql": "revenue.sales", "type": "long"}, **{"from": ["revenue", "sessions"]}))[
        "whole"
    ]
    rows = joined(whole, period(whole, "revenue", revenue(north=5, south=2)), period(whole, "sessions", sessions(north=3)))
    assert [(row["revenue"]["sales"], row["sessions"]["n"], row["row_count"]) for row in rows] == [(7, 3, 7)]
