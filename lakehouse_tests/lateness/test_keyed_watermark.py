"""The strategy ``per_key``, against a model that takes one moment of arrival after the other."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.lateness import watermark_per_key
from lakehouse.lateness.watermark_per_key import NEVER, NOTHING, TOUCHES, KeyedTimes
from lakehouse_tests.support.keyed_watermark_model import least_newest_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse_tests.support.keyed_watermark_model import Row

ROWS = st.lists(st.tuples(st.integers(0, 40), st.integers(-5, 45), st.sampled_from("abcd")), max_size=25)
IDLE = 6


def table(rows: Sequence[Row]) -> pa.Table:
    columns = [list(column) for column in zip(*rows)] or [[], [], []]
    arrived, happened, keys = (
        pa.chunked_array([pa.array(column, kind)]) for column, kind in zip(columns, ("int64", "int64", "string"))
    )
    return watermark_per_key.touches(keys, arrived, happened)


def followed(times: KeyedTimes, rows: Sequence[Row], ends: Sequence[int] = ()) -> tuple[KeyedTimes, list[int]]:
    return watermark_per_key.followed_by(times, watermark_per_key.together([table(rows)]), IDLE, ends)


def modelled(rows: Sequence[Row]) -> int:
    least = least_newest_event(rows, IDLE)
    return NEVER if least is None else least


@given(rows=ROWS, cuts=st.lists(st.integers(0, 25), max_size=4).map(sorted))
def test_any_grouping_gives_the_least_of_the_moments_one_by_one(rows: list[Row], cuts: list[int]) -> None:
    """Also where the rows of one moment come in two groups."""
    rows.sort(key=lambda row: row[0])
    times, least = NOTHING, [NEVER]
    for first, last in itertools.pairwise([0, *(min(cut, len(rows)) for cut in cuts), len(rows)]):
        times, _ = followed(times, rows[first:last])
        assert times.least == modelled(rows[:last])
        least.append(times.least_before)
    assert least == sorted(least)


@given(rows=ROWS, ends=st.lists(st.integers(0, 45), max_size=5).map(sorted))
def test_the_least_at_each_arrival_is_that_of_the_rows_until_then(rows: list[Row], ends: list[int]) -> None:
    _, least = followed(NOTHING, rows, ends)
    assert least == [modelled([row for row in rows if row[0] <= end]) for end in ends]


@given(rows=ROWS)
def test_those_that_hold_it_are_active_and_the_least_first(rows: list[Row]) -> None:
    times, _ = followed(NOTHING, rows)
    newest = {key: max(arrived for arrived, _, name in rows if name == key) for _, _, key in rows}
    active = {key for key, arrived in newest.items() if arrived >= times.through - IDLE}
    events = {key: max(happened for _, happened, name in rows if name == key) for key in active}
    holding = times.holding(IDLE, 10)
    assert set(holding) == active
    assert [events[key] for key in holding] == sorted(events.values())


def test_rows_without_a_key_are_of_one_key_and_those_without_a_time_are_left_out() -> None:
    arrived, happened = pa.chunked_array([[3, 3, 4]]), pa.chunked_array([[1, 2, None]])
    rows = watermark_per_key.touches(pa.chunked_array([pa.array([None, "a", None], pa.string())]), arrived, happened)
    assert rows.to_pylist() == [{"key": "", "arrived": 3, "happened": 1}, {"key": "a", "arrived": 3, "happened": 2}]
    assert rows.schema == TOUCHES


def test_a_silent_key_among_ten_thousand_holds_the_watermark_until_it_is_idle() -> None:
    names = [f"meter{number:05}" for number in range(10_000)]
    times, silent, idle_timeout = NOTHING, names[1234], 100
    for moment in range(0, 200, 10):
        speaking = [(moment, moment, name) for name in names if moment < 50 or name != silent]
        times, [least] = watermark_per_key.followed_by(
            times, watermark_per_key.together([table(speaking)]), idle_timeout, [moment]
        )
        expected = moment if moment < 50 or moment > 140 else 40
        assert least == times.least == expected
        assert (silent in times.holding(idle_timeout, 1)) == (50 <= moment <= 140)
    times, _ = watermark_per_key.followed_by(times, watermark_per_key.together([table([(200, 41, silent)])]), idle_timeout, [])
    assert times.least == 190
    assert times.holding(idle_timeout, 1) == [silent]
