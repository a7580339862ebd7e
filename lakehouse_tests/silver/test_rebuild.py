"""Rebuilding days: rows are judged by the contract as it is now, equal days are not written, and stopping is safe."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from lakehouse import locations
from lakehouse.delta import provenance
from lakehouse.ledger import rebuild_requests
from lakehouse.silver import rebuild as silver_rebuild
from lakehouse.stewardship import quarantine
from lakehouse.stewardship.quarantine import QuarantineFilter
from lakehouse_tests.support.lake import SampleLake, contract
from lakehouse_tests.support.quarantine_lake import (
    DAY,
    FIRST_FILE,
    LATE,
    ON_TIME,
    SECOND_FILE,
    WEEK_WATERMARK,
    dispositions_by_key,
    lake_with,
    silver_amounts,
)
from lakehouse_tests.support.stopped_commits import stopped_after_each_commit

pytestmark = pytest.mark.spark


def plan(sample: SampleLake, **changes: Any) -> silver_rebuild.PlannedRebuild:
    said = {"first": DAY, "last": DAY, "reason": "mended", "runner_id": "anna"} | changes
    first, last = said.pop("first"), said.pop("last")
    return silver_rebuild.plan_rebuild(
        sample.lake, sample.contract, lambda: sample.spark, silver_rebuild.RebuildRange(first, last), **said
    )


@pytest.mark.merge
def test_a_day_that_comes_out_equal_is_not_written(lake, spark) -> None:
    sample = lake_with(lake, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    version = sample.silver_version()
    planned = plan(sample)
    assert (planned.days, planned.rows_judged_otherwise) == ([DAY], 0)
    assert sample.pending() == [DAY]
    assert sample.update().rebuilt == {DAY}
    assert sample.silver_version() == version
    assert sample.pending() == []
    (entry,) = rebuild_requests.all_of(lake, "events")
    assert (entry.operation, entry.reason, entry.runner_id) == ("bug_replay", "mended", "anna")
    assert entry.code_before == entry.code_after == provenance.code()


@pytest.mark.proof
def test_a_changed_rule_applies_from_then_on_and_is_reported(lake, spark) -> None:
    sample = lake_with(lake, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    sample.contract = contract(lateness={"watermark": "P30D", "beyond": "quarantine"})
    assert plan(sample).rows_judged_otherwise == 2
    assert set(sample.update().changes) == {DAY}
    assert silver_amounts(sample) == {("b", 2), ("c", 3), ("d", 4)}
    assert {entry["quarantine_status"] for entry in quarantine.entries(lake, sample.contract, QuarantineFilter(status=None))} == {
        "released"
    }
    dispositions_by_key(sample)
    entry = rebuild_requests.all_of(lake, "events")[-1]
    assert entry.contract_before != entry.contract_after
    assert sample.rebuilt([DAY, LATE]) == sample.silver()
    sample.contract = contract(**WEEK_WATERMARK)
    assert plan(sample).rows_judged_otherwise == 2
    sample.update()
    assert silver_amounts(sample) == {("a", 1), ("d", 4)}


@pytest.mark.merge
def test_only_the_range_is_judged_again(lake, spark) -> None:
    sample = lake_with(lake, spark, {}, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    sample.contract = contract(quality={"row_rules": [{"sql": "amount < 3", "severity": "reject"}]})
    assert plan(sample, first=date(2024, 2, 2), last=date(2024, 2, 29)).days == [LATE]
    sample.update()
    assert silver_amounts(sample) == {("b", 2), ("c", 3)}
    assert plan(sample, first=date(2025, 1, 1), last=date(2025, 1, 2)).days == []


@pytest.mark.proof
def test_stopped_after_any_commit_and_started_again(lake, spark) -> None:
    sample = lake_with(lake, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    sample.contract = contract(lateness={"watermark": "P30D", "beyond": "quarantine"})

    def rebuild() -> None:
        plan(sample)
        if sample.pending():
            sample.update()

    assert stopped_after_each_commit(rebuild) >= 5
    assert silver_amounts(sample) == {("b", 2), ("c", 3), ("d", 4)}
    dispositions_by_key(sample)
    assert sample.pending() == []
    table = locations.quarantine(lake, "events").read(["quarantine_status"])
    assert table is not None
    assert set(table["quarantine_status"].to_pylist()) == {"released"}
