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
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import ingestions
from lakehouse.ledger.ingestions import LostRowsError
from lakehouse.ledger.key_log import IncompleteKeyLogError
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake, contract, csv_file
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


def steps(sample: SampleLake) -> None:
    for arrival in ARRIVALS:
        sample.ingest(arrival)
        if sample.pending():
            sample.update()
        pending = find_pending(sample.lake, Series(TOTAL))
        if pending.starts:
            restatement_days.restate(
                sample.lake, sample.contract, Series(TOTAL), lambda: sample.spark, pending.starts, Run("run"), pending
            )


def outcome(sample: SampleLake) -> tuple[Any, ...]:
    shown = ["event_date", "total", "row_count", "revision", "state", "reason", "is_latest", "inputs", "content"]
    numbers = locations.gold(sample.lake, Series(TOTAL)).read(shown)
    assert numbers is not None
    known = [
        (entry.ingestion_id, entry.source_file, entry.rows, entry.malformed, entry.touched_days, entry.touched_rows)
        for entry in ingestions.all_of(sample.lake, "events")
        if entry.status == "ingested"
    ]
    bronze = [(row["line_number"], row["raw_payload"]) for row in sample.bronze("raw_payload")]
    waiting = (sample.pending(), find_pending(sample.lake, Series(TOTAL)).starts)
    return sample.silver(), sorted(numbers.to_pylist(), key=str), known, bronze, waiting


@pytest.mark.proof
def test_a_stop_after_any_commit_changes_nothing(spark, tmp_path_factory: pytest.TempPathFactory) -> None:
    def delivered() -> SampleLake:
        sample = SampleLake(lake_in(tmp_path_factory.mktemp("lake")), contract(), spark)
        for arrival, lines in ARRIVALS.items():
            sample.deliver(arrival, csv_file(lines))
        return sample

    undisturbed = delivered()
    steps(undisturbed)
    expected = outcome(undisturbed)
    assert {row[:3] for row in expected[0]} == {("a", date(2024, 1, 3), 4), ("c", date(2024, 1, 3), 3)}
    newest = [(row["event_date"].day, row["total"], row["revision"]) for row in expected[1] if row["is_latest"]]
    assert newest == [(1, None, 2), (2, None, 2), (3, 7, 2)]

    # What a killed process leaves are the files as they were behind a commit: the same run on a copy of each.
    sample, stops = delivered(), []

    def copy() -> None:
        stops.append(tmp_path_factory.mktemp("stopped") / "lake")
        copytree(sample.lake.root, stops[-1])

    with pytest.MonkeyPatch.context() as patched:
        after_each_commit(patched, copy)
        steps(sample)
    assert outcome(sample) == expected
    for number, root in enumerate(stops, 1):
        again = SampleLake(sample.lake.with_settings(root=str(root)), sample.contract, spark)
        steps(again)
        assert outcome(again) == expected, f"stopped behind commit {number}"
    assert len(stops) >= 24


@pytest.mark.merge
@pytest.mark.parametrize("lost", [pytest.param("events_keys", marks=pytest.mark.merge), ""], ids=["the key log", "all of them"])
def test_operational_tables_that_were_lost_are_restored_from_bronze(lake, spark, lost: str) -> None:
    sample = SampleLake(lake, contract(), spark)
    for arrival, lines in ARRIVALS.items():
        sample.deliver(arrival, csv_file(lines))
    steps(sample)
    expected, days = outcome(sample), [date(2024, 1, day) for day in (1, 2, 3)]
    rmtree(Path(lake.table("ops", lost).address))
    problem, words = (LostRowsError, "the key log of events") if lost else (IncompleteKeyLogError, "arrival days 2024-02-01 to")
    with pytest.raises(problem, match=f"{words}.*materialize bronze/events"):
        sample.update(days)
    if not lost:
        sample.ingest(min(ARRIVALS))
        with pytest.raises(IncompleteKeyLogError, match="arrival days 2024-02-02"):
            sample.update()  # silver knows of the second day, and must not go back to the first
    for arrival in ARRIVALS:
        sample.ingest(arrival)
    steps(sample)
    assert outcome(sample) == expected
    version = sample.silver_version()
    sample.update(days)
    assert sample.silver_version() == version
