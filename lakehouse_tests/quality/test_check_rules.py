"""Each rule of a contract on both sides of its bound, and for special values: nothing, NULL, NaN, infinity, many digits."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.contracts.checks import GoldChecks
from lakehouse.gold.publication.checks import audit, blocking
from lakehouse_tests.support.candidates import AFTER, DAY, DIGITS, NEXT, candidate, history, is_held, outcome_of, table


@pytest.mark.parametrize(("rows", "fits"), [(1, False), (2, True), (4, True), (5, False)])
def test_fixed_bounds_of_the_row_count(rows: int, fits: bool) -> None:
    one = candidate(table([1, 1], counts=[1, rows - 1]))
    assert is_held(one, "row_count", row_count={"min": 2, "max": 4}) != fits


@pytest.mark.parametrize(("rows", "fits"), [(0, False), (6, False), (7, True), (10, True), (20, True), (21, False)])
def test_the_row_count_against_the_days_before(rows: int, fits: bool) -> None:
    counts = [[4, 6], [10], [1], [100], [10]]
    trailing = history([[1] * len(day) for day in counts], counts=counts)
    rule = {"trailing": {"days": 5, "needs": 5, "at_least": 0.7}}
    outcome = outcome_of(candidate(table([1], counts=[rows]), trailing=trailing), "row_count", row_count=rule)
    assert outcome.passed == fits
    assert outcome.numbers == {"row_count": rows, "trailing_days": 5, "trailing_median": 10, "ratio": rows / 10}


def test_days_that_are_too_few_or_too_far_judge_nothing() -> None:
    with_six_days = candidate(table([1], counts=[99]), trailing=history([[1]] * 6))
    assert is_held(with_six_days, "row_count", row_count={"trailing": {"days": 6, "needs": 6}})
    assert not is_held(with_six_days, "row_count", row_count={"trailing": {"days": 7, "needs": 7}})
    assert not is_held(with_six_days, "row_count", row_count={"trailing": {"days": 5, "needs": 5, "at_most": None}})
    assert outcome_of(with_six_days, "row_count", row_count={"trailing": {"days": 5, "needs": 1}}).numbers["trailing_days"] == 5
    assert not is_held(replace(with_six_days, trailing=None), "row_count", row_count={"trailing": {"needs": 1}})
    assert not is_held(replace(with_six_days, period=DAY - timedelta(days=6)), "row_count", row_count={"trailing": {"needs": 1}})


def test_days_before_without_rows() -> None:
    rule = {"trailing": {"days": 3, "needs": 3}}
    trailing = history([[None]] * 3, counts=[[0]] * 3)
    assert not is_held(candidate(table([None], counts=[0]), trailing=trailing), "row_count", row_count=rule)
    assert is_held(candidate(table([1], counts=[1]), trailing=trailing), "row_count", row_count=rule)


def test_severities_of_fixed_and_trailing_bounds() -> None:
    rule: dict[str, Any] = {"min": 5, "trailing": {"needs": 1, "severity": "warn"}}
    trailing = history([[1]], counts=[[20]])
    assert is_held(candidate(table([1], counts=[4]), trailing=trailing), "row_count", row_count=rule)
    assert not is_held(candidate(table([1], counts=[5]), trailing=trailing), "row_count", row_count=rule)
    warning = outcome_of(candidate(table([1], counts=[5]), trailing=trailing), "row_count", row_count=rule)
    assert (warning.passed, warning.warns) == (False, True)
    both = outcome_of(candidate(table([1], counts=[4]), trailing=trailing), "row_count", row_count=rule)
    assert str(both.explanation).startswith(
        "expected at least 5 rows, found 4; expected 0.5 to 2 times the median of 1 days before"
    )


@pytest.mark.parametrize(("nulls", "fits"), [(0, True), (1, True), (2, False), (10, False)])
def test_the_share_of_nulls(nulls: int, fits: bool) -> None:
    one = candidate(table([None] * nulls + [math.nan] * (10 - nulls), pa.float64()))
    assert is_held(one, "nulls", nulls={"revenue": 0.1}) != fits
    assert not is_held(one, "nulls", nulls={"revenue": 1})
    assert not is_held(one, "nulls", nulls={"revenue": {"at_most": 0.1, "severity": "warn"}})


def test_an_emptied_period_has_no_nulls() -> None:
    assert not is_held(candidate(table([])), "nulls", nulls={"revenue": 0})
    assert not is_held(candidate(table([None], counts=[0])), "nulls", nulls={"revenue": 0})


BY_TEN = {"measure": "revenue", "max_distance": 0.3, "needs_rows": 10, "days": 5, "needs": 2}


@pytest.mark.parametrize(("shifted", "fits"), [(0, True), (3, True), (4, False), (10, False)])
@pytest.mark.parametrize("against", ["published", "trailing"])
def test_the_distribution_of_grain_rows(shifted: int, fits: bool, against: str) -> None:
    before = [Decimal(value) for value in range(10)]
    now = [value + 100 if value < shifted else value for value in before]
    rule = {**BY_TEN, "against": against}
    if against == "published":
        rule = {name: value for name, value in rule.items() if name not in {"days", "needs"}}
    one = candidate(table(now), published=table(before), trailing=history([before, before]))
    outcome = outcome_of(one, "drift", drift=[rule])
    assert outcome.passed == fits
    assert outcome.numbers[f"revenue_distance_{'published' if against == 'published' else '5d'}"] == shifted / 10


def test_samples_that_are_too_small_judge_nothing() -> None:
    far = table([500] * 10)
    assert is_held(candidate(far, trailing=history([[1] * 5] * 2)), "drift", drift=[BY_TEN])
    assert not is_held(candidate(far, trailing=history([[1] * 10])), "drift", drift=[BY_TEN])  # one day of two
    assert not is_held(candidate(far, trailing=history([[1] * 4] * 2)), "drift", drift=[BY_TEN])
    assert not is_held(candidate(table([500] * 9), trailing=history([[1] * 5] * 2)), "drift", drift=[BY_TEN])
    assert not is_held(candidate(far), "drift", drift=[BY_TEN])


EMPTY = [table([]), table([None], counts=[0]), table([0], counts=[0]), table([None] * 20)]


@pytest.mark.parametrize("nothing", EMPTY)
def test_missing_values_count_as_drift(nothing: pa.Table) -> None:
    assert is_held(candidate(nothing, trailing=history([[1] * 5] * 2)), "drift", drift=[BY_TEN])
    score = {"measure": "revenue", "max_score": 3.5, "needs": 2}
    outcome = outcome_of(candidate(nothing, trailing=history([[1], [2]])), "drift", drift=[score])
    assert str(outcome.explanation).startswith("revenue has no value, where the median of 2 days before is 1.5")
    assert not is_held(candidate(nothing, trailing=history([[None], [None]])), "drift", drift=[score])


def test_an_emptied_day_before_is_no_value() -> None:
    """A count is 0 on a day without rows, and would pull the median down."""
    score = {"measure": "revenue", "max_score": 3.5, "needs": 3}
    trailing = history([[7], [0], [8]], counts=[[7], [0], [8]])
    assert outcome_of(candidate(table([500]), trailing=trailing), "drift", drift=[score]).numbers == {"revenue_days": 2}
    assert is_held(candidate(table([500]), trailing=trailing), "drift", drift=[{**score, "needs": 2}])


SCORE = {"measure": "revenue", "max_score": 6.745, "days": 5, "needs": 5}


@pytest.mark.parametrize(("value", "fits"), [("13.00", True), ("13.01", False), ("-7", True), ("-7.01", False), ("3", True)])
def test_the_score_of_a_total(value: str, fits: bool) -> None:
    trailing = history([[1], [2], [1, 2], [4], [100]])
    one = candidate(table([Decimal(value), 0]), trailing=trailing)
    assert is_held(one, "drift", drift=[SCORE]) != fits


def test_a_score_where_all_days_are_equal() -> None:
    trailing = history([[0]] * 5)
    assert not is_held(candidate(table([0]), trailing=trailing), "drift", drift=[SCORE])
    outcome = outcome_of(candidate(table([1]), trailing=trailing), "drift", drift=[SCORE])
    assert (outcome.passed, outcome.numbers) == (False, {"revenue_days": 5})  # infinity is in the words, not the numbers
    assert "modified z-score inf" in str(outcome.explanation)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_a_score_with_numbers_that_are_none(odd: float) -> None:
    usual = [[1.0], [2.0], [3.0], [4.0]]
    normal, strange = table([2.5], pa.float64()), table([odd], pa.float64())
    assert is_held(candidate(strange, trailing=history([*usual, [5.0]], pa.float64())), "drift", drift=[SCORE])
    too_few = candidate(strange, trailing=history([*usual, [odd]], pa.float64()))
    assert outcome_of(too_few, "drift", drift=[SCORE]).numbers == {"revenue_days": 4}
    assert not is_held(replace(too_few, rows=normal), "drift", drift=[{**SCORE, "needs": 4}])


@pytest.mark.parametrize(
    ("before", "now", "rule", "fits"),
    [
        ([50, 50], [110], {"percent": 10}, True),
        ([50, 50], [Decimal("110.01")], {"percent": 10}, False),
        ([100], [90], {"percent": 10}, True),
        ([100], [Decimal("89.99")], {"percent": 10}, False),
        ([-100], [Decimal("-110.01")], {"percent": 10}, False),
        ([-100], [-110], {"percent": 10}, True),
        ([100], [100 + Decimal("0.30")], {"absolute": 0.3}, True),
        ([100], [100 + Decimal("0.31")], {"absolute": 0.3}, False),
        ([DIGITS], [NEXT], {"absolute": "0.01"}, True),
        ([DIGITS], [AFTER], {"absolute": "0.01"}, False),
        ([100], [104], {"percent": 5, "absolute": 3}, False),
        ([100], [104], {"percent": 3, "absolute": 5}, False),
        ([100], [104], {"percent": 5, "absolute": 5}, True),
        ([100], [50, 50], {"percent": 0}, True),
        ([0], [Decimal("0.01")], {"percent": 1000}, False),
        ([0], [0], {"percent": 0}, True),
        ([None], [0], {"percent": 0}, True),
        ([None], [5], {"absolute": 5}, True),
        ([100], [], {"percent": 99}, False),
        ([100], [None], {"percent": 99}, False),
        ([100], [], {"percent": 100}, True),
    ],
)
def test_how_far_a_restatement_may_move(before: list[Any], now: list[Any], rule: dict[str, Any], fits: bool) -> None:
    one = candidate(table(now), published=table(before))
    assert is_held(one, "change", change=[{"measure": "revenue", **rule}]) != fits
    assert not is_held(one, "change", change=[{"measure": "revenue", "severity": "warn", **rule}])


def test_a_move_is_reported_exactly_and_plotted() -> None:
    one = candidate(table([DIGITS, Decimal("1.50")]), published=table([DIGITS]))
    outcome = outcome_of(one, "change", change=[{"measure": "revenue", "absolute": 1, "percent": 0}])
    assert f"moves from {DIGITS} to 123456789012345678901234567890123458.28;" in str(outcome.explanation)
    assert "by 0% and by 1 at most" in str(outcome.explanation)
    assert outcome.numbers["revenue_moved"] == 1.5
    usual = outcome_of(candidate(table([75]), published=table([100])), "change", change=[{"measure": "revenue", "percent": 50}])
    assert usual.numbers == {"revenue_published": 100, "revenue": 75, "revenue_moved": -25, "revenue_moved_percent": -25}


@pytest.mark.parametrize(
    ("before", "now", "fits"),
    [
        ([math.nan], [math.nan], True),
        ([math.inf], [math.inf], True),
        ([math.inf], [-math.inf], False),
        ([1.0], [math.nan], False),
        ([math.nan], [1.0], False),
        ([1.0], [math.inf], False),
        ([math.inf], [], False),
        ([1e308, 1e308], [1e308], False),
        ([1e308, 1e308], [1e308, 1e308], True),
    ],
)
@pytest.mark.parametrize("rule", [{"percent": 10}, {"absolute": 10}])
def test_a_move_from_or_to_what_is_no_number(before: list[float], now: list[float], rule: dict[str, Any], fits: bool) -> None:
    one = candidate(table(now, pa.float64()), published=table(before, pa.float64()))
    assert is_held(one, "change", change=[{"measure": "revenue", **rule}]) != fits


@pytest.mark.parametrize(("sign", "text"), [(1, "inf"), (-1, "-inf")])
def test_a_total_beyond_every_float_is_reported_as_infinite(sign: int, text: str) -> None:
    one = candidate(table([sign * 1e308] * 2, pa.float64()), published=table([sign * 1e308], pa.float64()))
    outcome = outcome_of(one, "change", change=[{"measure": "revenue", "percent": 10}])
    assert f"moves from {sign * 1e308!r} to {text};" in str(outcome.explanation)


def test_a_first_number_moves_nothing() -> None:
    rules = {"change": [{"measure": "revenue", "percent": 0}], "drift": [{**BY_TEN, "needs_rows": 1, "needs": 1}]}
    assert blocking(audit(GoldChecks.model_validate(rules), candidate(table([5])))) == []
    older = table([5]).drop_columns(["revenue"])  # the contract had no such measure yet
    before = history([[5]] * 5).drop_columns(["revenue"])
    one = candidate(table([5]), published=older, trailing=before)
    assert blocking(audit(GoldChecks.model_validate(rules), one)) == []
