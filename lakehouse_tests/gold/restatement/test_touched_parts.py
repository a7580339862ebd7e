"""Which sessions changed rows concern, read from the change feed of silver. No Spark."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, cast

from lakehouse.gold.restatement import patched_days
from lakehouse.gold.restatement.pending import PendingRestatement
from lakehouse_tests.support.silver_log import append_to_silver
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import SESSIONS, source

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

FIRST, SECOND = date(2024, 2, 1), date(2024, 2, 2)


def test_changed_rows_touch_the_sessions_of_their_keys(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions, no_spark = metric(SESSIONS), cast("SparkSession", None)

    def touched(since: int, *days: date) -> int | None:
        found = patched_days.find_touched(no_spark, lake, sessions, days, PendingRestatement(frozenset(days), 0, since=since))
        return None if found is None else len(found.parts)

    assert touched(0, FIRST) is None, "silver has no table yet"
    append_to_silver(lake, ("a", 1, 5), source=source())
    append_to_silver(lake, ("b", 20, 1), source=source())
    assert touched(0, FIRST, SECOND) == 1
    assert touched(1, FIRST, SECOND) == 0, "the row of a later commit is of another day"
    assert touched(-1, FIRST) is None, "it has followed no version"
    monkeypatch.setattr(patched_days, "_MOST_PARTS", 0)
    assert touched(0, FIRST) is None, "with many keys all rows are read"
