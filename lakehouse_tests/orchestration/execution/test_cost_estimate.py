"""How many partitions a run covered, by its tags: the basis of a plan's estimate."""

from __future__ import annotations

from datetime import date

import pytest

from lakehouse.orchestration.execution import webserver
from lakehouse.orchestration.run_events import tags_for

START, END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


@pytest.mark.parametrize(
    ("tags", "partitions"),
    [
        ({}, 1),
        ({"dagster/partition": "2024-11-01"}, 1),
        (tags_for([date(2024, 11, 1), date(2024, 11, 9)]), 2),
        ({START: "2024-10-31", END: "2024-11-09"}, 10),
    ],
)
def test_a_range_counts_as_its_days(tags: dict[str, str], partitions: int) -> None:
    assert webserver._partitions(tags) == partitions
