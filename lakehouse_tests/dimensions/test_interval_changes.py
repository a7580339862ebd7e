"""The ranges in which attributes of a dimension changed, against a model that asks for every single time."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.dimensions import changed_intervals

BEGIN = datetime(2024, 1, 1, tzinfo=timezone.utc)
TIMES = range(9)
#: Per key the times at which its attributes change, and to what; None ends the key.
Attributes = tuple[str | None, int | None]
History = dict[str, dict[int, Attributes | None]]

attributes = st.tuples(st.sampled_from(["gold", "silver", None]), st.sampled_from([1, 2, None]))
histories = st.dictionaries(
    st.sampled_from(["a", "b", "ä"]), st.dictionaries(st.sampled_from(TIMES[:-1]), st.none() | attributes, max_size=4), max_size=3
)


def at(number: int | None) -> datetime | None:
    return None if number is None else BEGIN + timedelta(days=number)


def intervals(history: History) -> list[dict[str, Any]]:
    """The intervals of each key, none of them joined with its neighbour."""
    rows = []
    for key, changes in history.items():
        ordered = sorted(changes.items())
        for (begins, value), (ends, _) in pairwise([*ordered, (None, None)]):
            if value is not None:
                rows.append(
                    {"dimension_key": key, "valid_from": at(begins), "valid_to": at(ends), "tier": value[0], "level": value[1]}
                )
    return rows


def valid(rows: list[dict[str, Any]], key: str, when: datetime) -> Attributes | None:
    covering = [
        (row["tier"], row["level"])
        for row in rows
        if row["dimension_key"] == key and row["valid_from"] <= when and (row["valid_to"] is None or when < row["valid_to"])
    ]
    assert len(covering) <= 1
    return covering[0] if covering else None


SCHEMA = pa.schema(
    [
        ("dimension_key", pa.string()),
        *((name, changed_intervals.TIME) for name in ("valid_from", "valid_to")),
        ("tier", pa.string()),
        ("level", pa.int32()),
    ]
)


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def feed(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> pa.Table:
    """Every interval removed and written again, as a writer may do that replaces whole keys."""
    kinds = ["delete"] * len(before) + ["insert"] * len(after)
    return pa.concat_tables([table(before), table(after)]).append_column("_change_type", pa.array(kinds, pa.string()))


@given(before=histories, after=histories, joined=st.sampled_from([["tier"], ["tier", "level"], ["level"]]))
def test_a_time_lies_in_a_range_exactly_if_an_attribute_differs_at_it(before: History, after: History, joined: list[str]) -> None:
    old, new = intervals(before), intervals(after)
    ranges = changed_intervals.changed_ranges(feed(old, new), joined).to_pylist()

    def shown(value: Attributes | None) -> dict[str, Any] | None:
        return None if value is None else {name: dict(zip(["tier", "level"], value))[name] for name in joined}

    for key in {*before, *after}:
        for number in TIMES:
            when = BEGIN + timedelta(days=number, hours=1)
            was, now = shown(valid(old, key, when)), shown(valid(new, key, when))
            covering = [
                (row["was"], row["is"])
                for row in ranges
                if row["dimension_key"] == key
                and row["valid_from"] <= when
                and (row["valid_to"] is None or when < row["valid_to"])
            ]
            assert covering == ([(was, now)] if was != now else [])
    assert ranges == sorted(ranges, key=lambda row: (row["dimension_key"], row["valid_from"]))
    for one, other in pairwise(ranges):
        alike = all(one[name] == other[name] for name in ("dimension_key", "was", "is"))
        assert not (alike and one["valid_to"] == other["valid_from"]), "neighbours that changed alike are one range"


questions = st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from(TIMES)), max_size=6)


@given(history=histories, questions_asked=questions)
def test_the_covering_range_of_a_time_is_found(history: History, questions_asked: list[tuple[str | None, int]]) -> None:
    rows = intervals(history)
    keys = pa.chunked_array([pa.array([key for key, _ in questions_asked], pa.string())])
    times = pa.chunked_array([pa.array([at(number) for _, number in questions_asked], changed_intervals.TIME)])
    places = changed_intervals.covering(keys, times, table(rows)).to_pylist()
    for (key, number), place in zip(questions_asked, places):
        expected = None if key is None else valid(rows, key, BEGIN + timedelta(days=number))
        assert (None if place is None else (rows[place]["tier"], rows[place]["level"])) == expected
        assert place is None or rows[place]["dimension_key"] == key


@given(history=histories, key=st.sampled_from(["a", "b"]), ends=st.tuples(st.sampled_from(TIMES), st.sampled_from(TIMES)))
def test_times_overlap_with_a_range_exactly_if_one_of_them_lies_in_it(history: History, key: str, ends: tuple[int, int]) -> None:
    rows, (least, greatest) = intervals(history), sorted(ends)
    given_times = [pa.chunked_array([pa.array([at(number)], changed_intervals.TIME)]) for number in (least, greatest)]
    [covering] = changed_intervals.overlapping(pa.chunked_array([pa.array([key])]), *given_times, table(rows)).to_pylist()
    assert covering == any(valid(rows, key, BEGIN + timedelta(days=number)) for number in range(least, greatest + 1))


@given(customers=histories, tiers=histories)
def test_the_parts_within_ranges_of_another_key_are_those_of_both(customers: History, tiers: History) -> None:
    rows, ranges = intervals(customers), intervals(tiers)
    named = {"gold": "a", "silver": "b", None: None}
    inner = table(rows).append_column("other_key", pa.array([named[row["tier"]] for row in rows], pa.string()))
    parts = changed_intervals.within(inner, table(ranges)).to_pylist()
    for key in customers:
        for number in TIMES:
            when = BEGIN + timedelta(days=number, hours=1)
            value = valid(rows, key, when)
            other = named[value[0]] if value is not None else None
            expected = None if other is None else valid(ranges, other, when)
            covering = [
                (ranges[part["range"]]["tier"], ranges[part["range"]]["level"])
                for part in parts
                if part["dimension_key"] == key
                and part["valid_from"] <= when
                and (part["valid_to"] is None or when < part["valid_to"])
            ]
            assert covering == ([] if expected is None else [expected])


def test_an_interval_that_only_another_column_distinguishes_is_no_change() -> None:
    rows = intervals({"a": {1: ("gold", 1)}})
    other = [{**row, "level": 2} for row in rows]
    assert len(changed_intervals.changed_ranges(feed(rows, other), ["tier"])) == 0
    assert len(changed_intervals.changed_ranges(feed(rows, other), ["level"])) == 1
