"""What is missing is recorded when it changes, and no longer is when a sensor no longer sees it."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from lakehouse.lateness import missing_inputs

if TYPE_CHECKING:
    from lakehouse.lake import Lake

MONDAY, TUESDAY = date(2024, 1, 1), date(2024, 1, 2)
NOON = datetime(2024, 1, 3, 12, tzinfo=timezone.utc)


def test_only_changes_are_written_and_the_newest_holds(lake: Lake) -> None:
    def see(minute: int, kind: missing_inputs.Kind, missing: dict[date, str]) -> bool:
        lake.settings.now = NOON + timedelta(minutes=minute)
        return missing_inputs.record(lake, "events", kind, missing)

    def known(source: str = "events") -> list[tuple[date, str, str]]:
        return [(entry.arrival_date, entry.kind, entry.text) for entry in missing_inputs.of(lake, source)]

    assert not see(0, "unfinished_day", {})
    assert see(1, "unfinished_day", {TUESDAY: "a.csv waits for the marker", MONDAY: "b.csv waits"})
    assert not see(2, "unfinished_day", {MONDAY: "b.csv waits", TUESDAY: "a.csv waits for the marker"})
    assert see(3, "failed_ingestion", {MONDAY: "3 runs failed"})
    assert see(4, "unfinished_day", {TUESDAY: "a.csv and c.csv wait for the marker"})
    assert known() == [
        (MONDAY, "failed_ingestion", "3 runs failed"),
        (TUESDAY, "unfinished_day", "a.csv and c.csv wait for the marker"),
    ]
    assert known("other") == []
    assert see(5, "unfinished_day", {})
    assert see(6, "failed_ingestion", {})
    assert known() == []
    assert see(7, "failed_ingestion", {MONDAY: "3 runs failed"})
    assert known() == [(MONDAY, "failed_ingestion", "3 runs failed")]
