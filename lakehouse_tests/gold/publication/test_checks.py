"""The checks that every metric has, how results are explained, and laws of all checks together."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts.checks import GoldChecks
from lakehouse.gold.publication.checks import ALWAYS, NAMES, audit, deprecated_names, names, with_deprecated_names
from lakehouse_tests.support.candidates import DIGITS, MONEY, NEXT, candidate, history, is_held, outcome_of, table

ALL = {
    "row_count": {"min": 1, "trailing": {"needs": 1}},
    "nulls": {"revenue": 0.5},
    "drift": [
        {"measure": "revenue", "max_score": 3, "needs": 1},
        {"measure": "revenue", "max_distance": 0.2, "needs": 1, "needs_rows": 1},
        {"measure": "revenue", "max_distance": 0.2, "against": "published", "needs_rows": 1},
    ],
    "change": [{"measure": "revenue", "percent": 10, "absolute": 100}],
}


def test_one_outcome_a_check_by_its_name() -> None:
    sound = candidate(table([1, 2]), published=table([1, 2]), trailing=history([[1, 2]] * 9), silver_rows=2)
    for rules in (ALL, {}, {"nulls": {"revenue": 0}}):
        checks = GoldChecks.model_validate(rules)
        assert [outcome.check for outcome in audit(checks, sound)] == list(names(checks))
        assert [outcome.check for outcome in audit(checks, replace(sound, silver_rows=None))] == [
            name for name in names(checks) if name != "totals_equal_silver"
        ]
    assert names(GoldChecks()) == ALWAYS
    assert names(GoldChecks.model_validate(ALL)) == NAMES
    assert all(outcome.passed for outcome in audit(GoldChecks.model_validate(ALL), sound))


def test_explanations_of_failed_checks() -> None:
    rules: dict[str, Any] = {"row_count": {"min": 3}}
    assert outcome_of(candidate(table([1, 2])), "row_count", **rules).explanation == (
        "expected at least 3 rows, found 2. The number is held: 'lakehouse gold held' shows it. Mend the data, or sign it "
        "off with 'lakehouse gold publish revenue 2024-11-20 --revision 3 --by WHO --reason WHY'."
    )
    rules["row_count"]["severity"] = "warn"
    told = outcome_of(candidate(table([1, 2])), "row_count", **rules)
    assert told.warns
    assert told.explanation == "expected at least 3 rows, found 2. This is a warning, which holds nothing."
    assert not is_held(candidate(table([1, 2])), "row_count", **rules)


def test_keys_are_unique() -> None:
    twice = pa.concat_tables([table([1]), table([2])])
    assert is_held(candidate(twice), "keys_unique")
    assert not is_held(candidate(table([1, 1])), "keys_unique")
    assert not is_held(candidate(table([])), "keys_unique")
    assert is_held(candidate(table([1, 2]), grain=[]), "keys_unique")
    assert not is_held(candidate(table([1]), grain=[]), "keys_unique")
    assert not is_held(candidate(table([]), grain=[]), "keys_unique")
    null = pa.table({"store": pa.array([None, None], pa.string()), "revenue": [1, 2], "row_count": [1, 1]})
    assert outcome_of(candidate(null), "keys_unique").numbers == {"rows": 2, "groups": 1}


@pytest.mark.parametrize(
    ("made", "read"),
    [
        (table([DIGITS]), table([NEXT])),
        (table([None]), table([0])),
        (table([math.nan], pa.float64()), table([None], pa.float64())),
        (table([0.1], pa.float64()), table([math.nextafter(0.1, 1)], pa.float64())),
        (table([1, 2]), table([1])),
        (table([1]), table([1, 2])),
        (pa.concat_tables([table([1]), table([1])]), table([1])),
        (table([1]), table([1], pa.decimal128(38, 3))),
        (table([1], pa.int32()), table([1], pa.int64())),
        (table([1]), table([1]).drop_columns(["revenue"])),
        (table([1]), table([1], extra=["x"])),
    ],
)
def test_another_engine_reads_something_else(made: pa.Table, read: pa.Table) -> None:
    assert is_held(candidate(made, read_back=read), "read_back_matches")
    assert is_held(candidate(read, read_back=made), "read_back_matches")


@pytest.mark.parametrize("made", [table([DIGITS, None]), table([math.nan, math.inf, None, 0.1], pa.float64()), table([])])
def test_another_engine_reads_the_same(made: pa.Table) -> None:
    read = made.take(pa.array(reversed(range(len(made))), pa.int64())).select(["row_count", "store", "revenue"])
    read = read.set_column(1, "store", read["store"].cast(pa.string_view()))
    assert not is_held(candidate(made, read_back=read), "read_back_matches")


def test_rows_that_another_engine_lost_or_added_are_counted() -> None:
    outcome = outcome_of(candidate(table([1, 2, 3]), read_back=table([1, 2, 4, 5])), "read_back_matches")
    assert outcome.numbers == {"rows": 3, "rows_read_back": 4, "rows_lost": 1, "rows_unexpected": 2}


def test_totals_equal_silver() -> None:
    one = candidate(table([1, 2], counts=[2, 3]))
    assert not is_held(replace(one, silver_rows=5), "totals_equal_silver")
    assert is_held(replace(one, silver_rows=6), "totals_equal_silver")
    assert is_held(replace(one, silver_rows=4), "totals_equal_silver")
    assert not is_held(candidate(table([]), silver_rows=0), "totals_equal_silver")
    assert is_held(candidate(table([]), silver_rows=1), "totals_equal_silver")


VALUES = st.one_of(
    st.tuples(st.just(pa.float64()), st.lists(st.none() | st.floats(), max_size=12)),
    st.tuples(st.just(MONEY), st.lists(st.none() | st.decimals(-(10**30), 10**30, places=2), max_size=12)),
    st.tuples(st.just(pa.int64()), st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=12)),
)
STRICT = GoldChecks.model_validate(
    {
        "drift": [{"measure": "revenue", "max_distance": 0, "against": "published", "needs_rows": 1}],
        "change": [{"measure": "revenue", "percent": 0, "absolute": 0}],
    }
)


@given(VALUES)
def test_an_equal_number_published_again_moves_nothing_and_does_not_drift(sample: tuple[pa.DataType, list[Any]]) -> None:
    rows = table(sample[1], sample[0])
    assert [outcome for outcome in audit(STRICT, candidate(rows, published=rows)) if not outcome.passed] == []


@pytest.mark.merge
@given(VALUES, st.data())
def test_the_order_of_rows_says_nothing(sample: tuple[pa.DataType, list[Any]], data: st.DataObject) -> None:
    kind, values = sample
    before = [value for value in values[::2] if value is not None]
    original = candidate(table(values, kind), published=table(before, kind), trailing=history([values, before, values[:3]], kind))

    def shuffled(rows: pa.Table) -> pa.Table:
        return rows.take(pa.array(data.draw(st.permutations(range(len(rows)))), pa.int64()))

    reordered = replace(
        original,
        rows=shuffled(original.rows),
        read_back=shuffled(original.rows),
        published=shuffled(original.published),
        trailing=shuffled(original.trailing),
    )
    checks = GoldChecks.model_validate(ALL)
    assert audit(checks, original) == audit(checks, reordered)


@given(st.decimals(-(10**20), 10**20, places=2), st.decimals(-(10**6), 10**6, places=2), st.decimals(0, 10**6, places=2))
def test_a_move_is_held_from_its_bound_on(before: Decimal, move: Decimal, bound: Decimal) -> None:
    one = candidate(table([before + move]), published=table([before]))
    assert is_held(one, "change", change=[{"measure": "revenue", "absolute": bound}]) == (abs(move) > bound)


def test_a_renamed_check_is_reported_under_its_earlier_name_as_well() -> None:
    outcome = outcome_of(candidate(table([1, 2, 3]), read_back=table([1, 2, 4, 5])), "read_back_matches")
    current, earlier = with_deprecated_names([outcome])
    assert current is outcome
    assert (earlier.check, earlier.passed) == ("second_engine_reads_the_same", False)
    assert earlier.numbers == {"rows": 3, "rows_read_back": 4, "rows_lost": 1, "rows_alien": 2}
    assert deprecated_names().keys() == {"second_engine_reads_the_same"}
