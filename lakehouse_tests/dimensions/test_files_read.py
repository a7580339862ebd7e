"""A change of a dimension reads a bounded number of files, however many days there are: all others are away meanwhile."""

from __future__ import annotations

import zlib
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.dimensions import fact_index
from lakehouse.lake import table_parts
from lakehouse_tests.support.joined_lake import CUSTOMERS, FIRST, joined_lake

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakehouse.lake import Table

pytestmark = pytest.mark.spark

BASIC, GOLD = ("basic", "north", 1), ("gold", "north", 1)
DAYS = 24


def take_away(table: Table, kept: Collection[Any]) -> tuple[int, int]:
    """Rename the data files that hold none of some days or buckets; gives how many were kept and how many are away."""
    opened = table.snapshot()
    assert opened is not None
    files = table_parts.files(opened)
    there = {path for part in kept for path in files.get(part, ())}
    away = set().union(*files.values()) - there
    for path in (Path(table.address, unquote(name)) for name in away):
        path.rename(path.with_suffix(".away"))
    return len(there), len(away)


def bucket(key: str, count: int) -> int:
    return zlib.crc32(key.encode()) % count


@pytest.mark.merge
def test_three_facts_on_two_of_many_days(lake, spark) -> None:
    lake.settings.file_bytes = 1  # a file for each day
    sample = joined_lake(lake, spark)
    people = [f"c{number}" for number in range(12)]
    for person in people:
        sample.customer(person, (1, BASIC))
    lines = [f"{person}-{day},1,{day}.5,{person}" for day in range(1, DAYS + 1) for person in people]
    for half in (0, 1):
        sample.deliver(DAYS + half, *lines[half::2])
    sample.deliver(DAYS + 2, "x,1,7.4,ann", "y,1,7.6,ann", "z,1,9.5,ann", "w,1,8.5,eve", "v,1,20,ann")
    sample.customer("ann", (1, BASIC))
    sample.publish()
    sample.customer("ann", (1, BASIC), (7, GOLD), (10, BASIC))
    days = [FIRST + timedelta(days=number - 1) for number in (7, 9)]
    kept = {
        locations.silver(lake, "events"): days,
        locations.gold(lake, Series(sample.metrics[0])): days,
        locations.fact_index(lake, "events", ["customer"]): [bucket("ann", fact_index.BUCKETS)],
        locations.intervals(lake, "customers"): [bucket(key, CUSTOMERS.dimension.buckets) for key in ("ann", *people)],
        locations.bronze(lake, "events"): [],
    }
    counted = {table: take_away(table, partitions) for table, partitions in kept.items()}
    assert all(away for table, (_, away) in counted.items() if not table.name.endswith("intervals"))
    assert sum(there for there, _ in counted.values()) < DAYS
    assert sample.publish() == [{7, 9}]
    assert sample.pending().starts == set()
