"""What Dagster shows of the windows of a day: by what each was restated, which may be another thing than its day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.gold.numbers.lifecycle import RevisionReason
from lakehouse.orchestration.assets.metric_assets import window_metadata
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, day, metric, without_spark

if TYPE_CHECKING:
    from pathlib import Path

HOURLY = {"window": {"size": "PT1H"}, "publication": {"final_after": 3}}


def of_windows(sample: ScriptedNumbers, number: int) -> dict[str, Any]:
    return window_metadata(sample.lake, sample.source, sample.series, [day(number)])[day(number)]


def test_an_hour_that_a_late_row_restates_is_told_apart_from_the_other_hours(tmp_path: Path) -> None:
    with without_spark():
        sample = ScriptedNumbers(lake_in(tmp_path), metric("hourly", **HOURLY))
        sample.at(1, 12)
        sample.set_hours(1, {9: 5, 10: 7})
        sample.publish()
        sample.at(2, 12)
        sample.set_hours(1, {9: 5, 10: 9})
        sample.publish(reason=RevisionReason.LATE_DATA)
        shown = of_windows(sample, 1)
        [nine, ten] = shown.pop("newest_windows")
        assert shown == {
            "windows": 2,
            "windows_by_state": {"preliminary": 2},
            "windows_by_reason": {"daily_finalization": 1, "late_data": 1},
            "windows_restated": 1,
            "windows_passed_by_watermark": 0,
        }
        assert (nine["window"], nine["version"], nine["reason"], nine["restated"]) == (
            *("2024-01-01T09", "r2", "daily_finalization", 0),
        ), "only its state has changed"
        assert (ten["window"], ten["version"], ten["reason"], ten["restated"]) == ("2024-01-01T10", "r2", "late_data", 1)
        assert ten["watermark_passed"] is None, "the source has no watermark"
        sample.at(4, 12)
        sample.close()
        final = of_windows(sample, 1)
        assert final["windows_by_state"] == {"final": 2}
        assert [one["restated"] for one in final["newest_windows"]] == [0, 1]


def test_a_metric_without_windows_has_none(tmp_path: Path) -> None:
    with without_spark():
        sample = ScriptedNumbers(lake_in(tmp_path), metric("daily"))
        sample.set(1, 5)
        sample.publish()
        assert window_metadata(sample.lake, sample.source, sample.series, [day(1)]) == {}
