"""A lake under a reprocess policy, to which the same event days are sent again."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

from lakehouse_tests.support.lake import Lake, contract, csv_file

if TYPE_CHECKING:
    from lakehouse.settings import Settings


FIRST, SECOND = date(2024, 1, 1), date(2024, 1, 2)
ARRIVED = [date(2024, 2, day) for day in range(1, 6)]


def lake_under_policy(settings: Settings, spark: Any, policy: str, **changes: Any) -> Lake:
    return Lake(settings, contract(materialization={"reprocess_policy": policy}, changes={}, **changes), spark)


def deliver_and_update(lake: Lake, arrival: int, *lines: str) -> set[date]:
    """Deliver a file, and update what waits; the days whose content changed."""
    lake.deliver(ARRIVED[arrival], csv_file([f"{line},2024-02-0{arrival + 1}T06:00:00Z,,,0" for line in lines]))
    lake.ingest(ARRIVED[arrival])
    return set(lake.update().changes) if lake.pending() else set()


A, B, C, D = ("a,1,2024-01-01T12:00:00Z", "b,2,2024-01-01T12:00:00Z", "c,3,2024-01-02T12:00:00Z", "d,4,2024-01-01T12:00:00Z")
