"""A preview of a rebuild names the days that the rebuild changes then, and writes nothing."""

from __future__ import annotations

import pytest

from lakehouse.silver import rebuild
from lakehouse.silver.rebuild import DayDifference
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.quarantine_lake import (
    DAY,
    FIRST_FILE,
    LATE,
    ON_TIME,
    SECOND_FILE,
    WEEK_WATERMARK,
    lake_with,
    silver_amounts,
)

pytestmark = pytest.mark.spark


def test_the_days_of_a_preview_are_those_that_the_rebuild_changes(lake, spark) -> None:
    sample = lake_with(lake, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    before = rebuild.preview(spark, lake, sample.contract)
    assert (before.days, before.rows_judged_otherwise, before.differing) == (2, 0, [])
    sample.contract = contract(lateness={"watermark": "P30D", "beyond": "quarantine"})
    version, amounts = sample.silver_version(), silver_amounts(sample)
    seen = rebuild.preview(spark, lake, sample.contract, DAY, DAY)
    assert seen.rows_judged_otherwise == 2
    assert seen.differing == [DayDifference(DAY, rows=(1, 2), keys=3)]  # a goes, b and c come; d lives on another day
    assert (sample.silver_version(), silver_amounts(sample), sample.pending()) == (version, amounts, [])
    assert rebuild.preview(spark, lake, sample.contract, LATE, LATE).differing == []
    rebuild.plan_rebuild(
        lake, sample.contract, lambda: spark, rebuild.RebuildRange(DAY, DAY), reason="another rule", runner_id="anna"
    )
    assert set(sample.update().changes) == {DAY}
    assert rebuild.preview(spark, lake, sample.contract).differing == []
