"""The statistics against their definitions, and for special cases: ties, nothing, NaN and infinity."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.quality.statistics import kolmogorov_smirnov, modified_z_score, total

NUMBERS = st.one_of(st.integers(-5, 5), st.decimals(-3, 3, places=2), st.floats())


def fractions(*values: float | str) -> list[Fraction]:
    return [Fraction(value) for value in values]


def test_totals_are_exact() -> None:
    assert total([0.1] * 10) == 10 * Fraction(0.1) != 1
    assert total([Decimal("9" * 36 + ".99"), Decimal("0.01"), 1]) == 10**36 + 1
    assert total([1e308, 1e308, -1e308, 1e-300]) == Fraction(1e308) + Fraction(1e-300)
    assert total([None, 3, None]) == 3
    assert total([]) == total([None]) == 0


def test_totals_that_are_no_number() -> None:
    assert total([1.0, math.inf]) == math.inf
    assert total([-math.inf, 1.0]) == -math.inf
    assert math.isnan(total([math.nan, 1.0]))
    assert math.isnan(total([math.inf, -math.inf]))


def test_the_modified_z_score() -> None:
    others = fractions(1, 2, 3, 4, 100)  # median 3; distances 2, 1, 0, 1, 97: their median is 1
    assert modified_z_score(Fraction(13), others) == Fraction("6.745")
    assert modified_z_score(Fraction(-7), others) == -Fraction("6.745")
    assert modified_z_score(Fraction(3), others) == 0
    assert modified_z_score(Fraction(5), fractions(2, 4)) == Fraction("1.349")  # an even number: 3 and 1


def test_the_score_where_most_are_equal() -> None:
    others = fractions(5, 5, 5, 5, 15)  # the mean distance is 2
    assert modified_z_score(Fraction(10), others) == 5 / (2 * Fraction("1.253314"))


def test_the_score_where_all_are_equal() -> None:
    others = fractions(0, 0, 0)
    assert modified_z_score(Fraction(0), others) == 0
    assert modified_z_score(Fraction(10) ** 400, others) == math.inf
    assert modified_z_score(-(Fraction(10) ** -400), others) == -math.inf


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_number_is_infinitely_far(value: float) -> None:
    assert modified_z_score(value, fractions(1, 2, 3)) == math.inf


def test_the_distance_of_samples() -> None:
    assert kolmogorov_smirnov([1, 2, 3, 4], [1, 2, 3, 4]) == 0
    assert kolmogorov_smirnov([1, 2], [3, 4]) == 1
    assert kolmogorov_smirnov([1, 2, 3, 4], [3, 4, 5, 6]) == Fraction(1, 2)
    assert kolmogorov_smirnov([1, 1, 2], [1, 2, 2]) == Fraction(1, 3)  # ties: all that is equal lies below at once
    assert kolmogorov_smirnov([1, 2], [1, 1, 2, 2]) == 0  # as often as before, in shares


def test_the_distance_from_nothing() -> None:
    assert kolmogorov_smirnov([], []) == 0
    assert kolmogorov_smirnov([1], []) == kolmogorov_smirnov([], [1]) == 1


def test_nan_and_infinity_are_values_of_a_sample() -> None:
    assert kolmogorov_smirnov([math.nan, 3.0, 1.0, math.nan, 2.0], [1.0, 2.0, float("nan"), 3.0, math.nan]) == 0
    assert kolmogorov_smirnov([1.0, math.inf], [1.0, math.nan]) == Fraction(1, 2)
    assert kolmogorov_smirnov([-math.inf], [math.inf]) == 1


@given(st.lists(NUMBERS), st.lists(NUMBERS))
def test_the_distance_is_symmetric_bounded_and_blind_to_order(ours: list[float], theirs: list[float]) -> None:
    distance = kolmogorov_smirnov(ours, theirs)
    assert 0 <= distance <= 1
    assert distance == kolmogorov_smirnov(theirs, ours)
    assert distance == kolmogorov_smirnov(sorted(ours, key=repr), reversed(theirs))
    assert kolmogorov_smirnov(ours, ours * 3) == 0


@given(st.lists(NUMBERS).flatmap(lambda values: st.tuples(st.just(values), st.permutations(values))))
def test_a_total_is_blind_to_order(both: tuple[list[float], list[float]]) -> None:
    one, other = map(total, both)
    assert one == other or (math.isnan(one) and math.isnan(other))


@given(st.lists(st.fractions(-9, 9), min_size=1), st.fractions(-9, 9), st.fractions(Fraction(1, 9), 9), st.fractions())
def test_a_score_is_blind_to_scale_and_origin(others: list[Fraction], value: Fraction, scale: Fraction, shift: Fraction) -> None:
    moved = [other * scale + shift for other in others]
    assert modified_z_score(value, others) == modified_z_score(value * scale + shift, moved)
