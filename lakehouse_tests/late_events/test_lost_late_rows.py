"""The table of late rows loses its newest commits, is an older copy, or is gone: all deliveries are classified again."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.late_events import follow, late_rows
from lakehouse_tests.support.damaged_lake import DamagedLake, damage
from lakehouse_tests.support.late_lake import LateLake, late
from lakehouse_tests.support.stopped_commits import Killed, kill_after
from lakehouse_tests.support.windowed_lake import FIRST, TUMBLING, Event

if TYPE_CHECKING:
    from lakehouse.lake import Lake

FEW = ["delete 1", "copy 0"]
ALL = ["delete 1", "delete 2", "copy 0", "gone", "empty"]
HOW = [pytest.param(how, marks=() if how in FEW else pytest.mark.merge) for how in ALL]


def deliver(sample: LateLake, arrived: int, *events: Event) -> None:
    sample.land_at(arrived, *events)
    sample.update("orders")


def sample_with_late_rows(lake: Lake) -> LateLake:
    sample = LateLake(lake, None, [late(TUMBLING, "recompute", 5)])
    deliver(sample, 0, Event("a", 5), Event("b", 74))
    deliver(sample, 1, Event("within", 20, 10), Event("hour", 61, 100))
    shutil.copytree(lake.root, Path(lake.root).parent / "copies/0")
    deliver(sample, 2, Event("next", 81))
    deliver(sample, 3, Event("beyond", 30, 1000))
    return sample


def content(lake: Lake) -> list[Any]:
    rows = late_rows.read(lake, "orders").to_pylist()
    return sorted((row["ingestion_id"], row["line_number"], f"{row}") for row in rows)


@pytest.mark.parametrize("how", HOW)
def test_the_next_run_of_silver_classifies_all_deliveries_again(lake: Lake, how: str) -> None:
    sample, stored = sample_with_late_rows(lake), locations.late_rows(lake, "orders")
    before, version = content(lake), stored.version()
    assert len(before) == 2
    damage(DamagedLake(Path(lake.root).parent, {}), "silver/orders_late", how)
    deliver(sample, 4, Event("more", 31, 2000))
    assert [row for row in content(lake) if row in before] == before
    assert sample.left_out(sample.metrics[0]) == sample.late_by_model(sample.metrics[0])
    table = stored.snapshot()
    assert table is not None
    changed = follow.changed_days(table, sample.metrics[0].name, version + 1)
    assert changed is not None
    assert FIRST in changed, "a metric that has followed the lost commits follows the new ones"
    version = stored.version()
    follow.follow(lake, sample.sources["orders"], sample.metrics)
    assert stored.version() == version, "nothing is classified twice"


@pytest.mark.merge
def test_a_classification_that_is_stopped_after_any_commit_is_repeated(lake: Lake) -> None:
    sample = sample_with_late_rows(lake)
    before, version = content(lake), locations.late_rows(lake, "orders").version()
    damage(DamagedLake(Path(lake.root).parent, {}), "silver/orders_late", "gone")
    for last in count(1):
        with pytest.MonkeyPatch.context() as patched:
            kill_after(patched, last)
            try:
                follow.follow(lake, sample.sources["orders"], sample.metrics)
            except Killed:
                continue
        break
    assert last > version, "it was stopped after each commit"
    assert content(lake) == before
    assert sample.left_out(sample.metrics[0]) == sample.late_by_model(sample.metrics[0])
