"""Stopped after any commit and started again, the steps end in the same state as without the stop (R11)."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest

from lakehouse import locations
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.delta import table_io
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import ingestions
from lakehouse.ledger.key_log import IncompleteKeyLogError
from lakehouse.ledger.lost_rows import LostRowsError
from lakehouse_tests.support.lake import Lake, contract, csv_file
from lakehouse_tests.support.lake_settings import lake_settings
from lakehouse_tests.support.stopped_commits import after_each_commit

pytestmark = pytest.mark.spark

ARRIVALS = {
    date(2024, 2, 1): [
        "a,1,2024-01-01T12:00:00Z,2024-02-01T06:00:00Z,insert,,0",
        "b,2,2024-01-02T12:00:00Z,2024-02-01T06:00:00Z,insert,,0",
        "c,3,2024-01-03T12:00:00Z,2024-02-01T06:00:00Z,insert,,0",
        "not a record",
    ],
    date(2024, 2, 2): [
        "a,4,2024-01-03T12:00:00Z,2024-02-02T06:00:00Z,correct,,0",
        "b,,,2024-02-02T06:00:00Z,delete,,0",
    ],
}
TOTAL = MetricContract.model_validate(
    {"metric": "total", "source": "events", "measures": [{"name": "total", "sql": "sum(amount)", "type": "long"}]}
)


def steps(lake: Lake) -> None:
    for arrival in ARRIVALS:
        lake.ingest(arrival)
        if lake.pending():
            lake.update()
        pending = find_pending(lake.settings, Series(TOTAL))
        if pending.starts:
            restatement_days.restate(
                lake.settings, lake.contract, Series(TOTAL), lambda: lake.spark, pending.starts, Run("run"), pending
            )


def outcome(lake: Lake) -> tuple[Any, ...]:
    shown = ["event_date", "total", "row_count", "revision", "state", "reason", "is_latest", "inputs", "content"]
    numbers = table_io.read(locations.gold(lake.settings, Series(TOTAL)), shown)
    assert numbers is not None
    known = [
        (entry.ingestion_id, entry.source_file, entry.rows, entry.malformed, entry.touched_days, entry.touched_rows)
        for entry in ingestions.all_of(lake.settings, "events")
        if entry.status == "ingested"
    ]
    bronze = [(row["line_number"], row["raw_payload"]) for row in lake.bronze("raw_payload")]
    waiting = (lake.pending(), find_pending(lake.settings, Series(TOTAL)).starts)
    return lake.silver(), sorted(numbers.to_pylist(), key=str), known, bronze, waiting


@pytest.mark.proof
def test_a_stop_after_any_commit_changes_nothing(spark, tmp_path_factory: pytest.TempPathFactory) -> None:
    def delivered() -> Lake:
        lake = Lake(lake_settings(tmp_path_factory.mktemp("lake")), contract(), spark)
        for arrival, lines in ARRIVALS.items():
            lake.deliver(arrival, csv_file(lines))
        return lake

    undisturbed = delivered()
    steps(undisturbed)
    expected = outcome(undisturbed)
    assert {row[:3] for row in expected[0]} == {("a", date(2024, 1, 3), 4), ("c", date(2024, 1, 3), 3)}
    newest = [(row["event_date"].day, row["total"], row["revision"]) for row in expected[1] if row["is_latest"]]
    assert newest == [(1, None, 2), (2, None, 2), (3, 7, 2)]

    # What a killed process leaves are the files as they were behind a commit: the same run on a copy of each.
    lake, stops = delivered(), []

    def copy() -> None:
        stops.append(tmp_path_factory.mktemp("stopped") / "lake")
        copytree(lake.settings.root, stops[-1])

    with pytest.MonkeyPatch.context() as patched:
        after_each_commit(patched, copy)
        steps(lake)
    assert outcome(lake) == expected
    for number, root in enumerate(stops, 1):
        again = Lake(lake.settings.model_copy(update={"root": str(root)}), lake.contract, spark)
        steps(again)
        assert outcome(again) == expected, f"stopped behind commit {number}"
    assert len(stops) >= 24


@pytest.mark.merge
@pytest.mark.parametrize("lost", [pytest.param("events_keys", marks=pytest.mark.merge), ""], ids=["the key log", "all of them"])
def test_operational_tables_that_were_lost_are_restored_from_bronze(settings, spark, lost: str) -> None:
    lake = Lake(settings, contract(), spark)
    for arrival, lines in ARRIVALS.items():
        lake.deliver(arrival, csv_file(lines))
    steps(lake)
    expected, days = outcome(lake), [date(2024, 1, day) for day in (1, 2, 3)]
    rmtree(Path(settings.table("ops", lost)))
    problem, words = (LostRowsError, "the key log of events") if lost else (IncompleteKeyLogError, "arrival days 2024-02-01 to")
    with pytest.raises(problem, match=f"{words}.*materialize bronze/events"):
        lake.update(days)
    if not lost:
        lake.ingest(min(ARRIVALS))
        with pytest.raises(IncompleteKeyLogError, match="arrival days 2024-02-02"):
            lake.update()  # silver knows of the second day, and must not go back to the first
    for arrival in ARRIVALS:
        lake.ingest(arrival)
    steps(lake)
    assert outcome(lake) == expected
    version = lake.silver_version()
    lake.update(days)
    assert lake.silver_version() == version
