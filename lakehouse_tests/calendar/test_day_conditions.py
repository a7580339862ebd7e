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

from lakehouse.calendar import day_conditions

if TYPE_CHECKING:
    from pathlib import Path

FIRST = date(1901, 1, 1)


def holding(condition: str, days: list[date]) -> set[date]:
    """The days for which a condition holds, read as text."""
    spans = re.findall(r"BETWEEN DATE'([-0-9]+)' AND DATE'([-0-9]+)'", condition)
    single = set(re.findall(r"DATE'([-0-9]+)'", re.sub(r"BETWEEN \S+ AND \S+", "", condition)))
    return {day for day in days if f"{day}" in single or any(first <= f"{day}" <= last for first, last in spans)}


@given(st.sets(st.integers(0, 60), min_size=1), st.integers(1, 5))
def test_a_condition_holds_for_the_days_that_it_is_made_of(numbers: set[int], listed: int) -> None:
    every = [FIRST + timedelta(days=number) for number in range(61)]
    days = {every[number] for number in numbers}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(day_conditions, "LISTED", listed)
        condition = day_conditions.among("day", days)
    assert holding(condition, every) == days
    assert condition.count("(") == condition.count(")")


def test_a_table_with_more_days_than_can_be_listed(tmp_path: Path) -> None:
    every = [FIRST + timedelta(days=number) for number in range(56_000)]
    weekdays = [day for day in every[:14_000] if day.weekday() < 5]
    for days, left in ((every, []), (weekdays, [day for day in every[:14] if day not in weekdays])):
        path = str(tmp_path / f"{len(days)}")
        write_deltalake(path, pa.table({"day": pa.array(every[:14], pa.date32()), "row": [*range(14)]}), partition_by=["day"])
        DeltaTable(path).delete(day_conditions.among("day", days))
        assert sorted(DeltaTable(path).to_pyarrow_table()["day"].to_pylist()) == left
