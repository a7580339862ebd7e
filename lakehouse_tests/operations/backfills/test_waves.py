"""How the partitions of a backfill are cut into waves."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.operations.backfills.waves import cut_into_waves

DAY = date(2024, 11, 1)
DAYS = st.sets(st.integers(0, 400).map(lambda number: DAY + timedelta(days=number)))


@given(DAYS, st.sampled_from(["ascending", "descending"]), st.integers(1, 50))
def test_waves_are_all_partitions_once_in_their_order(days: set[date], order: str, size: int) -> None:
    waves = list(cut_into_waves(days, order, size))  # type: ignore[arg-type]
    joined = [day for wave in waves for day in wave]
    assert joined == sorted(days, reverse=order == "descending")
    assert all(0 < len(wave) <= size for wave in waves)
    assert all(len(wave) == size for wave in waves[:-1])
