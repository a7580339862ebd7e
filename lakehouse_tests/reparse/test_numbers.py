"""Numbers after a reading: restated where the rows changed, and every earlier revision made again from the rows of then (R10)."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse_tests.support.reproducible_lake import METRICS, reproducible_lake, source_with_colour
from lakehouse_tests.support.reread_lake import folder, put, read

if TYPE_CHECKING:
    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark


def totals(lake: Lake) -> dict[tuple[date, int], tuple[int, str]]:
    """Number and reason, by day and revision."""
    columns = ["event_date", "revision", "total", "reason"]
    rows = locations.gold(lake, Series(METRICS[0])).read(columns)
    return {(row["event_date"], row["revision"]): (row["total"], row["reason"]) for row in rows.to_pylist()} if rows else {}


@pytest.mark.proof
def test_numbers_are_restated_and_each_earlier_revision_is_reproduced(lake, spark) -> None:
    reproducible = reproducible_lake(lake, spark, METRICS[:1])
    sample = reproducible.sample
    reproducible.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,blue", "c,n/a,1,insert,,red")
    reproducible.publish()
    reproducible.deliver(2, "d,4,2,insert,,red", "a,8,1,correct,,red")
    reproducible.publish()
    clocks = {"event": "event_time", "arrival": "arrived_at"}
    words = sample.contract.source.model_dump() | {"null_values": ["", "n/a"]}
    for number, zone in enumerate(["Etc/GMT+12", "UTC"]):
        reproducible.at(3 + number)
        sample.contract = source_with_colour(clocks={**clocks, "timezone": zone}, source=words)
        into = folder(lake, f"reading{number}")
        read(sample, into)
        put(sample, into)
        reproducible.publish()
    published = totals(lake)
    first, second = date(2024, 2, 1), date(2024, 2, 2)
    assert published[first, 1] == (3, "initial")
    assert published[first, 2] == (10, "correction")
    assert published[first, 3] == (4, "bug_replay"), "the rows of the first day have moved to the day before"
    assert published[first, 4] == (10, "bug_replay")
    assert (second, 2) in published
    reproducible.vacuum()
    made = reproducible.reproduce_all()
    assert [(one.name, one.differences) for one in made if not one.equal] == []
    assert all(one.certain for one in made)
