"""Causes add up to the difference for any values of a measure, exactly."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts.metric import ReconciliationTerms
from lakehouse.live.causes import CAUSES, RowSet, add_up, by_cause, difference, exceeds

_VALUES = st.one_of(
    st.none(),
    st.integers(-(10**30), 10**30),
    st.decimals(allow_nan=False, allow_infinity=False, places=6),
    st.floats(allow_nan=False, allow_infinity=False),
)


@given(st.lists(_VALUES, min_size=len(RowSet) + 2, max_size=len(RowSet) + 2))
def test_causes_add_up(values: list[Any]) -> None:
    live, *sets, books = values
    causes = by_cause(live, sets, books)
    assert add_up(causes) == difference(live, books)
    assert causes.keys() <= set(CAUSES)
    assert all(causes.values())


def test_each_step_has_the_cause_of_its_set() -> None:
    values = [*range(0, 10 * len(RowSet), 10)]
    causes = by_cause(0, values, 1000)
    assert causes == {**{step.cause: Decimal(10) for step in RowSet if step}, "not_published": 1000 - values[-1]}
    assert by_cause(1, [0] * len(RowSet), 0) == {"unexplained": -1}


def test_a_difference_exceeds_a_share_of_the_books() -> None:
    two_percent = ReconciliationTerms(threshold=0.02)
    assert not exceeds(Decimal(2), 100, two_percent)
    assert exceeds(Decimal("-2.01"), 100, two_percent)
    assert exceeds(Decimal(1), None, two_percent)
    assert not exceeds(Decimal(0), 0, ReconciliationTerms(threshold=0))
