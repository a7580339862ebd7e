"""Conditions on days hold for exactly these days, however many there are."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.calendar import days as day_conditions

if TYPE_CHECKING:
    from pathlib import Path

FIRST = date(1901, 1, 1)


def holding(condition: str, days: list[date]) -> set[date]:
    """The days for which a condition holds, as an expression of Python."""
    text = re.sub(r"day BETWEEN DATE('[-0-9]+') AND DATE('[-0-9]+')", r"(\1 <= day <= \2)", condition)
    text = re.sub(r"day IN (\([^)]*\))", lambda found: f"day in {found[1].replace('DATE', '').replace(')', ',)')}", text)
    text = text.replace("day = DATE", "day == ").replace(" AND ", " and ").replace(" OR ", " or ")
    return {day for day in days if eval(text, {}, {"day": f"{day}"})}


@given(st.sets(st.integers(0, 60), min_size=1), st.integers(1, 5), st.integers(2, 6))
def test_a_condition_holds_for_the_days_that_it_is_made_of(numbers: set[int], listed: int, ranges: int) -> None:
    every = [FIRST + timedelta(days=number) for number in range(61)]
    days = {every[number] for number in numbers}
    for most in (listed, day_conditions.LISTED):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(day_conditions, "LISTED", most)
            patch.setattr(day_conditions, "RANGES", ranges)
            condition = day_conditions.condition_among("day", days)
        assert holding(condition, every) == days
        assert condition.count("(") == condition.count(")")


def test_few_runs_of_days_are_ranges_and_of_many_the_widest_gaps_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    days = [FIRST + timedelta(days=number) for number in (0, 1, 5, 30, 32)]
    assert day_conditions.condition_among("day", days[:3]) == (
        "(day BETWEEN DATE'1901-01-01' AND DATE'1901-01-02' OR day = DATE'1901-01-06')"
    )
    monkeypatch.setattr(day_conditions, "RANGES", 2)
    assert day_conditions.condition_among("day", days).startswith(
        "((day BETWEEN DATE'1901-01-01' AND DATE'1901-01-06' OR day BETWEEN DATE'1901-01-31' AND DATE'1901-02-02') AND day IN ("
    )


def test_a_table_with_more_days_than_can_be_listed(tmp_path: Path) -> None:
    every = [FIRST + timedelta(days=number) for number in range(56_000)]
    weekdays = [day for day in every[:14_000] if day.weekday() < 5]
    isolated = [FIRST + timedelta(days=2 * number) for number in range(40_000)]
    rows = pa.table({"day": pa.array(every[:14], pa.date32()), "row": [*range(14)]})
    for days in (every, weekdays, isolated):
        path, left = str(tmp_path / f"{len(days)}"), sorted({*every[:14]} - {*days})
        write_deltalake(path, rows, partition_by=["day"])
        DeltaTable(path).delete(day_conditions.condition_among("day", days))
        assert sorted(DeltaTable(path).to_pyarrow_table()["day"].to_pylist()) == left


@pytest.mark.merge
def test_a_merge_and_a_replacement_of_more_isolated_days_than_can_be_listed(tmp_path: Path) -> None:
    days = [FIRST + timedelta(days=2 * number) for number in range(40_000)]
    held = pa.table({"day": pa.array([FIRST, FIRST + timedelta(days=1), days[1]], pa.date32()), "row": [0, 1, 2]})
    write_deltalake(str(tmp_path), held, partition_by=["day"])
    new = pa.table({"own": pa.array(days, pa.date32()), "row": [10] * len(days)})
    on = f"{day_conditions.condition_among('t.day', days)} AND t.day = s.own"
    table = DeltaTable(str(tmp_path))
    table.merge(new, on, source_alias="s", target_alias="t").when_matched_update({"row": "t.row + s.row"}).execute()
    assert sorted(table.to_pyarrow_table()["row"].to_pylist()) == [1, 10, 12]
    few = pa.table({"day": pa.array(days[:1], pa.date32()), "row": [20]})
    write_deltalake(table, few, mode="overwrite", predicate=day_conditions.condition_among("day", days, "'{}'"))
    assert sorted(DeltaTable(str(tmp_path)).to_pyarrow_table()["row"].to_pylist()) == [1, 20]
