"""The digest of a number: equal for equal content, different for every change that a value can show."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.gold.numbers.published_table import content_of, digest, is_content


def total(value: float | None) -> pa.Table:
    return pa.table({"total": pa.array([value], pa.float64())})


def older(value: float) -> str:
    """The digest that earlier releases stored, with 12 digits."""
    return hashlib.sha256("\n".join([json.dumps(["total"]), json.dumps([f"{value:.12g}"])]).encode()).hexdigest()[:32]


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_doubles_have_one_digest_if_they_are_equal_and_two_if_not(one: float, other: float) -> None:
    assert (digest(total(one)) == digest(total(other))) == (repr(one) == repr(other))


def test_a_small_correction_of_a_large_total_is_another_content() -> None:
    assert digest(total(1e12 + 0.3)) != digest(total(1e12))
    assert digest(total(1e12)) != digest(total(None))


@pytest.mark.parametrize("value", [124.1, 0.1, 1e12, 0.0, 250.0])
def test_a_double_with_few_digits_has_the_digest_of_earlier_releases(value: float) -> None:
    assert digest(total(value)) == older(value)


def test_content_of_an_earlier_release_stays_where_its_digits_are_equal() -> None:
    published, again, corrected = 0.30000000000000004, 0.3000000000000001, 0.31
    assert content_of(total(again), {older(published)}) == older(published)
    assert is_content(total(again), older(published))
    assert content_of(total(corrected), {older(published)}) == digest(total(corrected))
    assert not is_content(total(again), digest(total(published)))
    assert not is_content(total(again), None)


def test_decimals_have_no_other_form() -> None:
    rows = pa.table({"total": [Decimal("1.10")]})
    assert content_of(rows, {"another"}) == digest(rows)
