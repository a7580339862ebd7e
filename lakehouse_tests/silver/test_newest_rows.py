"""The newest row of each key, kept in a table beside the rows of an ``append`` source by the rules of ``merge``."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import date
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given

from lakehouse import locations
from lakehouse.dispositions import account as dispositions_account
from lakehouse.gold.restatement import silver_tables
from lakehouse.gold.restatement.silver_tables import LostSilverError, UnbuiltTableError
from lakehouse.ledger import applied_inputs
from lakehouse.silver import rebuild as silver_rebuild
from lakehouse.stewardship import quarantine
from lakehouse.stewardship.redact import redact_fields
from lakehouse_tests.support.damaged_lake import DamagedLake, damage
from lakehouse_tests.support.earlier_append import earlier_release
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake, appended, content_id, contract, csv_file, csv_line, row_of
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.numbers_without_spark import metric
from lakehouse_tests.support.reference_model import Record, deliver_again, live_rows
from lakehouse_tests.support.resent_days import FIRST, SECOND, A, B, C, deliver_and_update, lake_under_policy
from lakehouse_tests.support.silver_histories import BACKWARD, BY_SPARK, DAYS, History, histories
from lakehouse_tests.support.small_pieces import pieces_of
from lakehouse_tests.support.stopped_commits import after_each_commit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake
    from lakehouse_tests.support.lake import Row

pytestmark = pytest.mark.spark

ARRIVALS = {
    date(2024, 2, 1): ["a,1,2024-01-01T12:00:00Z,2024-02-01T06:00:00Z,,,0", "b,2,2024-01-01T12:00:00Z,2024-02-01T06:00:00Z,,,0"],
    date(2024, 2, 2): ["a,9,2024-01-02T12:00:00Z,2024-02-02T06:00:00Z,,,0", "b,2,2024-01-01T12:00:00Z,2024-02-02T06:00:00Z,,,0"],
    date(2024, 2, 3): ["a,5,2024-01-03T12:00:00Z,2024-02-03T06:00:00Z,,,0"],
}

MOVED = "a,9,2024-01-02T12:00:00Z"


def rows(found: Iterable[Row]) -> list[tuple[str, int, int]]:
    return sorted((row[0], row[1].day, row[2]) for row in found)


def newest_version(sample: SampleLake) -> int:
    return locations.silver_newest(sample.lake, "events").version()


def rebuilt(sample: SampleLake, ids: Iterable[str] | None = None) -> set[Row]:
    of_newest = SampleLake(sample.lake, sample.contract.newest, sample.spark)
    return of_newest.rebuilt(DAYS, None if ids is None else [*ids])


def check(history: History, sample: SampleLake, *, by_sequence: bool) -> None:
    sample.lake.settings.local_rows, sample.lake.settings.file_bytes = history.local_rows, history.file_bytes
    sample.lake.settings.spark_remote = None  # of more rows than these, first ones are taken in pieces
    known: list[Record] = []
    delivered: list[str] = []
    for number, step in enumerate(history.steps):
        data = csv_file(map(csv_line, history.files[step.file]))
        sample.deliver(step.arrival, data, f".{number}.csv")
        sample.ingest(step.arrival)
        if (name := content_id(data)) not in delivered:
            delivered.append(name)
        deliver_again(known, name, history.files[step.file], (step.arrival, f".{number}.csv"))
        if days := step.updated & set(sample.pending()):
            sample.update(days)
        if len(delivered) == 2:
            early, early_model = list(delivered), {row_of(one) for one in live_rows(known, by_sequence=by_sequence).values()}
    sample.update(sample.pending())
    expected = {row_of(record) for record in live_rows(known, by_sequence=by_sequence).values()}
    assert sample.silver() == {row_of(record) for record in known if record.op != "delete"}, "every row lives"
    assert sample.newest() == expected, "as merge would keep them"
    assert rebuilt(sample) == expected, "incremental equals rebuild (R3)"
    assert rebuilt(sample, early) == early_model, "as of an earlier ingestion (R10)"
    version = newest_version(sample)
    sample.update(DAYS)
    assert (newest_version(sample), sample.pending()) == (version, []), "a rebuild without effect makes no commit"


def run(history: History, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, *, by_sequence: bool) -> None:
    order = {"order": {"sequence": "seq"}} if by_sequence else {}
    if not by_sequence:
        history = replace(history, files=[[replace(record, sequence=0) for record in file] for file in history.files])
    sample = SampleLake(lake_in(tmp_path_factory.mktemp("lake")), appended(**order), spark)
    with pieces_of(history.piece_rows) if history.piece_rows else nullcontext():
        check(history, sample, by_sequence=by_sequence)


SOURCES = pytest.mark.parametrize(
    "by_sequence", [False, pytest.param(True, marks=pytest.mark.proof)], ids=["by arrival", "by sequence"]
)


@pytest.mark.proof
@pytest.mark.timeout(2400)
@SOURCES
@law(25)
@example(history=BACKWARD)
@example(history=BY_SPARK)
@given(history=histories())
def test_the_newest_rows_are_those_of_merge(tmp_path_factory, spark, history: History, *, by_sequence: bool) -> None:
    run(history, spark, tmp_path_factory, by_sequence=by_sequence)


@pytest.mark.merge
def test_a_moved_key_changes_the_newest_rows_of_both_days_and_the_rows_of_one(lake: Lake, spark: SparkSession) -> None:
    sample = lake_under_policy(lake, spark, "append")
    deliver_and_update(sample, 0, A, B)
    version = sample.silver_version()
    assert deliver_and_update(sample, 1, MOVED, C) == {SECOND}
    assert rows(sample.newest()) == [("a", 2, 9), ("b", 1, 2), ("c", 2, 3)]
    assert rows(sample.silver()) == [("a", 1, 1), ("a", 2, 9), ("b", 1, 2), ("c", 2, 3)]
    assert sample.silver_version() == version + 1, "a day to which no row came is not rebuilt"


@pytest.mark.parametrize(
    "how", ["delete 1", *(pytest.param(each, marks=pytest.mark.merge) for each in ("copy 0", "gone", "empty"))]
)
def test_newest_rows_that_were_lost_are_merged_again(lake: Lake, spark: SparkSession, how: str) -> None:
    sample = lake_under_policy(lake, spark, "append")
    deliver_and_update(sample, 0, A, B)
    copytree(lake.root, Path(lake.root).parent / "copies/0")
    deliver_and_update(sample, 1, MOVED, C)
    before, version = sample.newest(), sample.silver_version()
    damage(DamagedLake(Path(lake.root).parent, {}), "silver/events_newest", how)
    assert sample.newest() != before
    total = metric(rows="newest")
    with pytest.raises(UnbuiltTableError if how == "gone" else LostSilverError, match="silver/events_newest"):
        silver_tables.require_rows(lake, total)
    assert SECOND in sample.pending()
    sample.update()
    assert sample.newest() == before
    assert (sample.silver_version(), sample.pending()) == (version, []), "the other table has lost nothing"
    silver_tables.require_rows(lake, total)
    assert deliver_and_update(sample, 2, "a,7,2024-01-02T12:00:00Z") == {SECOND}
    assert rows(sample.newest()) == [("a", 2, 7), ("b", 1, 2), ("c", 2, 3)]


def test_a_source_under_another_policy_has_no_such_table(lake: Lake, spark: SparkSession) -> None:
    sample = lake_under_policy(lake, spark, "merge")
    deliver_and_update(sample, 0, A, B)
    assert newest_version(sample) == -1


@pytest.mark.merge
def test_decisions_redactions_and_rebuilds_reach_the_newest_rows(lake: Lake, spark: SparkSession) -> None:
    sample = lake_under_policy(lake, spark, "append")
    deliver_and_update(sample, 0, A, B)
    deliver_and_update(sample, 1, MOVED, C)
    moved = [row.row_id for row in dispositions_account.rows(lake, sample.contract, keys=["a"]) if row.event_date == SECOND]
    quarantine.decide(lake, sample.contract, moved, "reject", by="anna", reason="a test sale")
    sample.update()
    assert rows(sample.newest()) == [("a", 1, 1), ("b", 1, 2), ("c", 2, 3)], "the older row is the newest again"
    redact_fields(lake, sample.contract, "b", ["amount"], by="anna", reason="asked")
    sample.update()
    assert {(row[0], row[2]) for row in sample.newest()} == {("a", 1), ("b", None), ("c", 3)}
    sample.contract = sample.contract.model_copy(
        update={
            "quality": contract(quality={"row_rules": [{"name": "small", "sql": "amount < 3", "severity": "reject"}]}).quality
        }
    )
    silver_rebuild.plan_rebuild(
        lake, sample.contract, lambda: spark, silver_rebuild.RebuildRange(FIRST, SECOND), reason="a rule", runner_id="anna"
    )
    sample.update()
    assert {row[0] for row in sample.newest()} == {"a", "b"}
    assert sample.newest() == rebuilt(sample)


def deliver(sample: SampleLake, *arrivals: date) -> None:
    for arrival in arrivals or ARRIVALS:
        sample.deliver(arrival, csv_file(ARRIVALS[arrival]))
        sample.ingest(arrival)


def stopped(sample: SampleLake, days: list[date] | None, folders: pytest.TempPathFactory) -> list[SampleLake]:
    """Run an update, and return the lakes that it would have left if it had been stopped: before and after each commit."""
    stops: list[SampleLake] = []
    seen: list[tuple[int, ...]] = []
    paths = [layer(sample.lake, "events") for layer in (locations.silver, locations.silver_newest)]

    def copy() -> None:
        now = tuple(path.version() for path in (*paths, locations.applied_inputs(sample.lake)))
        if now in seen:
            return
        seen.append(now)
        root = folders.mktemp("stopped") / "lake"
        copytree(sample.lake.root, root)
        stops.append(SampleLake(sample.lake.with_settings(root=str(root)), sample.contract, sample.spark))

    copy()
    with pytest.MonkeyPatch.context() as patched:
        after_each_commit(patched, copy)
        sample.update(days)
    return stops


def outcome(sample: SampleLake) -> tuple[set[Row], set[Row], list[date]]:
    return sample.silver(), sample.newest(), sample.pending()


@pytest.mark.proof
def test_stopped_after_any_commit_a_run_ends_with_both_tables(lake: Lake, spark: SparkSession, tmp_path_factory) -> None:
    sample = lake_under_policy(lake, spark, "append")
    deliver(sample)
    stops = stopped(sample, None, tmp_path_factory)
    assert rows(sample.newest()) == [("a", 3, 5), ("b", 1, 2)]
    assert any(again.newest() and not again.silver() for again in stops), "one of them lies between the two tables"
    for again in stops:
        again.update()
        assert outcome(again) == outcome(sample)


@pytest.mark.proof
def test_a_lake_of_an_earlier_release_builds_the_newest_rows_with_its_next_run(
    lake: Lake, spark: SparkSession, tmp_path_factory
) -> None:
    sample = lake_under_policy(lake, spark, "append")
    first, second, third = ARRIVALS
    with earlier_release():
        deliver(sample, first)
        sample.update()
        deliver(sample, second)  # it takes the key from the first day, and the second day only is recorded
    assert applied_inputs.lacks_newest(lake, "events")
    stops = stopped(sample, [date(2024, 1, 3)], tmp_path_factory)
    assert rows(sample.newest()) == [("a", 2, 9), ("b", 1, 2)]
    assert sample.pending() == [], "the run that builds them updates every day that waits"
    assert len(sample.silver()) == 4
    assert not applied_inputs.lacks_newest(lake, "events")
    for again in stops:
        assert rows(again.newest()) in ([], rows(sample.newest())), "all of them are there, or none"
        again.update([SECOND])
        again.update()
        assert outcome(again) == outcome(sample)
    deliver(sample, third)
    sample.update()
    assert rows(sample.newest()) == [("a", 3, 5), ("b", 1, 2)]
    assert sample.newest() == rebuilt(sample)
