"""A lake under a reprocess policy, to which the same event days are sent again."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

from lakehouse_tests.support.lake import SampleLake, contract, csv_file

if TYPE_CHECKING:
    from lakehouse.lake import Lake


FIRST, SECOND = date(2024, 1, 1), date(2024, 1, 2)
ARRIVED = [date(2024, 2, day) for day in range(1, 6)]


def lake_under_policy(lake: Lake, spark: Any, policy: str, **changes: Any) -> SampleLake:
    return SampleLake(lake, contract(materialization={"reprocess_policy": policy}, changes={}, **changes), spark)


def deliver_and_update(sample: SampleLake, arrival: int, *lines: str) -> set[date]:
    """Deliver a file, and update what waits; the days whose content changed."""
    sample.deliver(ARRIVED[arrival], csv_file([f"{line},2024-02-0{arrival + 1}T06:00:00Z,,,0" for line in lines]))
    sample.ingest(ARRIVED[arrival])
    return set(sample.update().changes) if sample.pending() else set()


A, B, C, D = ("a,1,2024-01-01T12:00:00Z", "b,2,2024-01-01T12:00:00Z", "c,3,2024-01-02T12:00:00Z", "d,4,2024-01-01T12:00:00Z")
