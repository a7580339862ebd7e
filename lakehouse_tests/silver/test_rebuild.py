"""Making days again: rows are judged by the contract as it is now, equal days are not written, and stopping is safe."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from lakehouse import locations
from lakehouse.delta import provenance, table_io
from lakehouse.ledger import rebuild_requests
from lakehouse.silver import rebuild as silver_rebuild
from lakehouse.stewardship import quarantine
from lakehouse.stewardship.quarantine import Wanted
from lakehouse_tests.silver.test_interruption import stopped_behind_each_commit
from lakehouse_tests.stewardship.test_quarantine import DAY, FIRST, LATE, ON_TIME, SECOND, WEEK, became, content, lake_with
from lakehouse_tests.support.lake import Lake, contract

pytestmark = pytest.mark.spark


def plan(lake: Lake, **changes: Any) -> silver_rebuild.Planned:
    said = {"first": DAY, "last": DAY, "reason": "mended", "runner_id": "anna"} | changes
    first, last = said.pop("first"), said.pop("last")
    return silver_rebuild.plan(lake.settings, lake.contract, lambda: lake.spark, first, last, **said)


def test_a_day_that_comes_out_equal_is_not_written(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK, (ON_TIME, FIRST), (LATE, SECOND))
    version = lake.silver_version()
    planned = plan(lake)
    assert (planned.days, planned.rows_judged_otherwise) == ([DAY], 0)
    assert lake.pending() == [DAY]
    assert lake.update().rebuilt == {DAY}
    assert lake.silver_version() == version
    assert lake.pending() == []
    (entry,) = rebuild_requests.all_of(settings, "events")
    assert (entry.operation, entry.reason, entry.runner_id) == ("bug_replay", "mended", "anna")
    assert entry.code_before == entry.code_after == provenance.code()


def test_a_changed_rule_counts_from_then_on_and_is_told(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK, (ON_TIME, FIRST), (LATE, SECOND))
    lake.contract = contract(lateness={"watermark": "P30D", "beyond": "quarantine"})
    assert plan(lake).rows_judged_otherwise == 2
    assert set(lake.update().changes) == {DAY}
    assert content(lake) == {("b", 2), ("c", 3), ("d", 4)}
    assert {entry["quarantine_status"] for entry in quarantine.entries(settings, lake.contract, Wanted(status=None))} == {
        "released"
    }
    became(lake)
    entry = rebuild_requests.all_of(settings, "events")[-1]
    assert entry.contract_before != entry.contract_after
    assert lake.rebuilt([DAY, LATE]) == lake.silver()
    lake.contract = contract(**WEEK)
    assert plan(lake).rows_judged_otherwise == 2
    lake.update()
    assert content(lake) == {("a", 1), ("d", 4)}


def test_only_the_range_is_judged_anew(settings, spark) -> None:
    lake = lake_with(settings, spark, {}, (ON_TIME, FIRST), (LATE, SECOND))
    lake.contract = contract(quality={"row_rules": [{"sql": "amount < 3", "severity": "reject"}]})
    assert plan(lake, first=date(2024, 2, 2), last=date(2024, 2, 29)).days == [LATE]
    lake.update()
    assert content(lake) == {("b", 2), ("c", 3)}
    assert plan(lake, first=date(2025, 1, 1), last=date(2025, 1, 2)).days == []


def test_stopped_behind_any_commit_and_started_again(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK, (ON_TIME, FIRST), (LATE, SECOND))
    lake.contract = contract(lateness={"watermark": "P30D", "beyond": "quarantine"})

    def rebuild() -> None:
        plan(lake)
        if lake.pending():
            lake.update()

    assert stopped_behind_each_commit(rebuild) >= 5
    assert content(lake) == {("b", 2), ("c", 3), ("d", 4)}
    became(lake)
    assert lake.pending() == []
    table = table_io.read(locations.quarantine(settings, "events"), ["quarantine_status"])
    assert table is not None
    assert set(table["quarantine_status"].to_pylist()) == {"released"}
