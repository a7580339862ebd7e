"""How the partitions of a backfill are cut into waves."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.operations.backfills.plan import PlannedFile, are_independent_arrivals, are_independent_numbers, cut_into_waves
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.two_dataset_versions import metric

DAY = date(2024, 11, 1)
DAYS = st.sets(st.integers(0, 400).map(lambda number: DAY + timedelta(days=number)))


@given(DAYS, st.sampled_from(["ascending", "descending"]), st.integers(1, 50))
def test_waves_are_all_partitions_once_in_their_order(days: set[date], order: str, size: int) -> None:
    waves = list(cut_into_waves(days, order, size))  # type: ignore[arg-type]
    joined = [day for wave in waves for day in wave]
    assert joined == sorted(days, reverse=order == "descending")
    assert all(0 < len(wave) <= size for wave in waves)
    assert all(len(wave) == size for wave in waves[:-1])


def planned_file(day: int, content: str) -> PlannedFile:
    return PlannedFile(
        file=f"{day}.csv", arrival_date=DAY + timedelta(days=day), bytes=1, rows=1, sha256=content * 64, known=False
    )


def test_arrival_days_are_independent_unless_their_order_decides_something() -> None:
    apart, twice = [planned_file(0, "a"), planned_file(1, "b")], [planned_file(0, "a"), planned_file(1, "a")]
    assert are_independent_arrivals(contract(), apart)
    assert not are_independent_arrivals(contract(), twice), "which day has the content, and which only a re-delivery"
    assert not are_independent_arrivals(contract(clocks={"event": "event_time"}), apart), "the time of ingestion decides"
    resent = contract(materialization={"reprocess_policy": "overwrite_partition_safe"}, changes={})
    assert not are_independent_arrivals(resent, apart), "deliveries are compared"


def test_numbers_are_independent_unless_a_check_looks_at_the_days_before() -> None:
    assert are_independent_numbers(metric(checks={"change": [{"measure": "total", "percent": 1}]}))
    assert not are_independent_numbers(metric(checks={"row_count": {"trailing": {}}}))
