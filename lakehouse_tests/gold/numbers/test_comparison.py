"""Comparing two versions of a metric: exact differences, honest percentages, no threshold missed by rounding."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.examples.simulation_results import SimulatedDay, Simulation
from lakehouse.gold.numbers.comparison import Comparison, MeasureDelta, Sides, Threshold, added

NOW = datetime(2024, 2, 10, 9, 30, tzinfo=timezone.utc)
D = Decimal


def change(before: Any, after: Any, period: str = "2024-01-15", measure: str = "revenue", **other: Any) -> MeasureDelta:
    return MeasureDelta(period=period, grain=other.pop("grain", ()), measure=measure, before=before, after=after, **other)


def comparison(
    *changes: MeasureDelta, thresholds: tuple[Threshold, ...] = (), additive: tuple[str, ...] = ("revenue",)
) -> Comparison:
    return Comparison("sales", "v1", "v2", "2024-01-01", "2024-01-31", changes, thresholds, NOW, frozenset(additive))


def test_a_decimal_difference_is_exact_beyond_the_default_precision():
    big = D("12345678901234567890123456789012345.678")
    assert change(D("0.001"), big).difference == D("12345678901234567890123456789012345.677")
    assert added([big, D("0.001"), None]) == D("12345678901234567890123456789012345.679")


def test_a_difference_keeps_the_type():
    assert isinstance(change(3, 5).difference, int)
    assert isinstance(added([1, 2]), int)
    assert isinstance(added([1, 2.5]), float)
    assert str(change(D("1.10"), D("3.30")).difference) == "2.20"
    assert change(0.1, D("0.3")).difference == D("0.2")


def test_a_sum_of_floats_depends_on_no_order():
    assert added([1e16, 1.0, -1e16]) == added([1e16, -1e16, 1.0]) == 1.0


@pytest.mark.parametrize(
    ("before", "after", "percent"),
    [
        (D("1204.50"), D("1311.20"), D("8.86")),
        (3, 4, D("33.33")),
        (200, 201, D("0.50")),
        (-10, -5, D("50.00")),
        (10, 10, D("0.00")),
        (100000, 100005, D("0.01")),  # half a hundredth goes up
        (0.1, 0.3, D("200.00")),
        (0, 5, None),
        (D("0.00"), D(5), None),
        (None, 5, None),
        (5, None, None),
        (float("nan"), 1.0, None),
        (1.0, float("inf"), None),
    ],
)
def test_percent(before, after, percent):
    assert change(before, after).percent == percent


def test_a_side_without_a_number_gives_no_difference():
    assert change(None, 5).difference is None
    assert change(5, None).difference is None
    assert change(None, 5).changed
    assert not change(None, None).changed


def test_what_counts_as_changed():
    assert not change(1, D("1.00")).changed
    assert not change(float("nan"), float("nan")).changed
    assert not change(0.1, D("0.1")).changed
    assert change(0, None).changed
    assert change(1.0, 1.0000000001).changed


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4), st.decimals(allow_nan=False, allow_infinity=False, places=9))
def test_before_and_the_difference_are_after(before, after):
    sides = Sides(before, after)
    assert added([before, sides.difference]) == after
    assert sides.changed == (before != after)


@given(st.floats(), st.floats())
@example(float("inf"), float("inf"))
@example(float("-inf"), float("inf"))
@example(5e-324, 1.7e308)
def test_no_float_breaks_the_arithmetic(before, after):
    sides = Sides(before, after)
    assert sides.size >= 0
    assert sides.percent is None or sides.percent.is_finite()
    assert isinstance(added([before, after]), float)


def test_a_threshold_looks_at_the_unrounded_percentage():
    limit = Threshold("revenue", D("5.00"))
    just = change(100000, 105004)
    assert just.percent == D("5.00")
    assert comparison(just, thresholds=(limit,)).beyond() == (just,)
    assert comparison(change(100, 105), change(100, 95), thresholds=(limit,)).beyond() == ()


def test_from_nothing_or_to_nothing_is_beyond():
    limit = Threshold("revenue", D(1000000))
    new, from_zero, gone = change(None, 1), change(0, 1), change(1, None)
    same, other = change(0, 0), change(None, 1, measure="orders")
    assert comparison(new, from_zero, gone, same, other, thresholds=(limit,)).beyond() == (new, from_zero, gone)


def test_the_largest_come_first_and_unchanged_ones_not_at_all():
    up, down, new = change(10, 12, "2024-01-01"), change(10, 5, "2024-01-02"), change(None, 4, "2024-01-03")
    same, other = change(7, 7, "2024-01-04"), change(0, 99, measure="orders")
    found = comparison(up, down, new, same, other)
    assert found.largest("revenue") == (down, new, up)
    assert found.largest("revenue", 1) == (down,)
    assert found.changed() == (up, down, new, other)


def test_equal_differences_are_ordered_by_period_and_grain():
    later = change(1, 2, "2024-01-02")
    b, a = change(1, 2, grain=(("store", "b"),)), change(2, 1, grain=(("store", "a"),))
    assert comparison(b, a, later).largest("revenue") == (later, a, b)


def test_totals_are_of_additive_measures_only():
    found = comparison(change(D("1.10"), D("2.20")), change(None, D("0.05")), change(3, 4, measure="buyers"))
    assert found.totals() == {"revenue": (D("1.10"), D("2.25"))}
    assert comparison(change(None, 3)).totals()["revenue"].before is None


def test_missing_periods_are_those_without_number_and_version():
    compared = comparison(
        change(None, 1, "2024-01-03"),
        change(1, None, "2024-01-02"),
        change(None, 1, "2024-01-01", before_version="r1"),  # published, as an average of nothing
        change(None, None, "2024-01-04"),
        change(None, 7, "2024-01-05", grain=(("store", "new"),)),
        change(1, 1, "2024-01-05", grain=(("store", "old"),)),
    )
    assert compared.missing() == (("2024-01-03",), ("2024-01-02",))


def simulated(period: str, *numbers: int, measure: str = "revenue", on_time: int = 90, late: int = 10) -> SimulatedDay:
    return SimulatedDay(period, measure, numbers[0], numbers[-1], numbers, on_time, late)


def test_a_simulation_counts_a_days_rows_once():
    days = (simulated("2024-01-02", 90, 100), simulated("2024-01-02", 4, 5, measure="orders"), simulated("2024-01-01", 7))
    found = Simulation("late", {}, days, (), NOW, frozenset({"revenue"}))
    assert found.arrived() == (180, 20)
    assert found.restated() == ("2024-01-02",)
    assert found.totals() == {"revenue": (97, 107)}
    assert [day.period for day in found.of("revenue")] == ["2024-01-01", "2024-01-02"]


def test_a_revision_is_as_far_as_it_is_from_the_final_number():
    assert simulated("2024-01-01", 90, 110, 100).distances() == (-10.0, 10.0, 0.0)
    assert simulated("2024-01-01", 90, 0).distances() == ()
