"""Sets of rows that are compared by sums of hashes, against sets that are compared row by row."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.quality.row_sums import RowSums, hashes, repeated
from lakehouse_tests.support.laws import law

SCHEMA = pa.schema([("day", pa.date32()), ("key", pa.string()), ("line", pa.int64())])
DAYS = st.none() | st.sampled_from([date(2024, 2, 1), date(2024, 2, 2)])
TEXTS = st.none() | st.sampled_from(["", "a", "b", "a\x00", "ab", "ba", "aa", "\x00", "\x00\x00", "ä"])
ROWS = st.lists(st.tuples(DAYS, TEXTS, st.none() | st.sampled_from([-1, 0, 1, 2**62])), max_size=12)


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in rows], schema=SCHEMA)


def sums(rows: list[tuple[Any, ...]], piece: int) -> RowSums:
    result = RowSums(["day"], ["key", "line"])
    result.add(table(rows).slice(start, piece) for start in range(0, len(rows), piece))
    assert +result.counts() == Counter(row[0] for row in rows)
    return result


@given(ROWS, ROWS, st.integers(1, 5))
def test_the_groups_that_differ_are_those_with_other_rows(left: list[Any], right: list[Any], piece: int) -> None:
    days = {row[0] for row in [*left, *right]}
    other = {
        (day,) for day in days if Counter(row for row in left if row[0] == day) != Counter(row for row in right if row[0] == day)
    }
    assert sums(left, piece).differing(sums(right, 3)) == other


@given(st.lists(st.none() | st.text(max_size=4).map(lambda text: text.encode("utf-8", "ignore").decode()), max_size=30))
def test_equal_values_have_equal_hashes_and_others_do_not(texts: list[str | None]) -> None:
    numbers = hashes(pa.chunked_array([pa.array(texts[:7], pa.string()), pa.array(texts[7:], pa.string())]))
    assert len(set(numbers.tolist())) == len(set(texts))
    expected = {text for text, count in Counter(texts).items() if count > 1}
    assert {text for text, number in zip(texts, numbers) if number in repeated(numbers)} == expected


def test_no_two_of_many_similar_keys_have_the_same_hash() -> None:
    keys = pa.chunked_array([[f"r{number:07}" for number in range(300_000)], [f"{number}-x" for number in range(300_000)]])
    assert len(np.unique(hashes(keys))) == 600_000
    long = pa.chunked_array(
        [[f"{'y' * (number % 31)}{number}" for number in range(300_000)], [f"{number:040}" for number in range(300_000)]]
    )
    assert len(np.unique(hashes(long))) == 600_000
    assert not len(repeated(hashes(keys)))


@law(100, in_each_run=10)
@given(st.lists(st.none() | st.sampled_from(["", "a", "ab", "ä", "b" * 40]), max_size=20))
def test_texts_that_repeat_have_the_hashes_of_single_ones(more: list[str | None]) -> None:
    texts = [*(["", "a", "ab"] * 200), *more]
    together = hashes(pa.chunked_array([pa.array(texts, pa.string())]))
    single = [hashes(pa.chunked_array([pa.array([text], pa.string())]))[0] for text in texts]
    assert together.tolist() == single
