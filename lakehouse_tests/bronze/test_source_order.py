"""The encoded order of changes: comparing the columns is comparing the parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.bronze.envelopes import encoded, order_text
from lakehouse.dispositions.winners import sortable

INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-11, 11)
TEXTS = st.text(st.characters(min_codepoint=0x20, exclude_categories=["Cs"]), min_size=1, max_size=4)
SHAPES = st.lists(st.sampled_from([INTEGERS, TEXTS]), max_size=4)


def alike(draw: st.DrawFn, shape: list[st.SearchStrategy[Any]]) -> tuple[Any, ...]:
    return tuple(draw(part) for part in shape)


@st.composite
def orders(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Orders of one shape, many of which begin alike."""
    shape = draw(SHAPES)
    found = [alike(draw, shape) for _ in range(draw(st.integers(1, 4)))]
    return found + [(*draw(st.sampled_from(found))[:place], *alike(draw, shape[place:])) for place in range(len(shape) + 1)]


def compared(order: tuple[Any, ...]) -> tuple[int, bytes]:
    sequence, text = encoded(order)
    return sequence, (text or "").encode()


@given(orders())
def test_the_order_of_the_columns_is_that_of_the_parts(drawn: list[tuple[Any, ...]]) -> None:
    def as_bytes(order: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(part.encode() if isinstance(part, str) else part for part in order)

    assert sorted(drawn, key=compared) == sorted(drawn, key=as_bytes)
    assert len({compared(order) for order in drawn}) == len(set(drawn)), "no two orders are encoded alike"


@given(orders())
def test_arrow_compares_the_text_in_the_same_way(drawn: list[tuple[Any, ...]]) -> None:
    texts = pa.array([encoded(order)[1] for order in drawn], pa.string())
    placed = [texts[place].as_py() for place in np.argsort(sortable(texts), kind="stable").tolist()]
    assert placed == sorted(texts.to_pylist(), key=lambda text: (text or "").encode())


@pytest.mark.parametrize("number", [0, 7, -7, 2**63 - 1])
def test_an_order_that_is_one_integer_is_the_sequence(number: int) -> None:
    assert encoded([number]) == (number, None)


def test_what_follows_a_leading_integer_comes_after_it_alone() -> None:
    assert encoded([]) == (0, None)
    assert encoded([7, "a"]) == (7, "a")
    assert encoded(["a", -1]) == (0, "a\x1f09999999999999999999")
    assert compared((7,)) < compared((7, "a")) < compared((8,))


@pytest.mark.parametrize(("text", "reason"), [("", "empty"), ("a\x1fb", "control character"), ("\0", "control character")])
def test_a_text_that_cannot_be_compared_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        order_text(text)
