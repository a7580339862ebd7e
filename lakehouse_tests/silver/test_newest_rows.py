"""The newest row of each key, kept in a table beside the rows of an ``append`` source by the rules of ``merge``."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import date
from shutil import copytree
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.dispositions import account as dispositions_account
from lakehouse.ledger import applied_inputs
from lakehouse.silver import rebuild as silver_rebuild
from lakehouse.stewardship import quarantine
from lakehouse.stewardship.redact import redact_fields
from lakehouse_tests.support.earlier_append import earlier_release
from lakehouse_tests.support.lake import Lake, appended, content_id, contract, csv_file, csv_line, row_of
from lakehouse_tests.support.lake_settings import lake_settings
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.reference_model import Record, deliver_again, live_rows
from lakehouse_tests.support.resent_days import FIRST, SECOND, A, B, C, deliver_and_update, lake_under_policy
from lakehouse_tests.support.silver_histories import BACKWARD, BY_SPARK, DAYS, History, histories
from lakehouse_tests.support.small_pieces import pieces_of
from lakehouse_tests.support.stopped_commits import after_each_commit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from lakehouse.settings import Settings
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


def newest_version(lake: Lake) -> int:
    return table_io.version(locations.silver_newest(lake.settings, "events"))


def rebuilt(lake: Lake, ids: Iterable[str] | None = None) -> set[Row]:
    of_newest = Lake(lake.settings, lake.contract.newest, lake.spark)
    return of_newest.rebuilt(DAYS, None if ids is None else [*ids])


def check(history: History, lake: Lake, *, by_sequence: bool) -> None:
    lake.settings.local_rows = history.local_rows
    known: list[Record] = []
    delivered: list[str] = []
    for number, step in enumerate(history.steps):
        data = csv_file(map(csv_line, history.files[step.file]))
        lake.deliver(step.arrival, data, f".{number}.csv")
        lake.ingest(step.arrival)
        if (name := content_id(data)) not in delivered:
            delivered.append(name)
        deliver_again(known, name, history.files[step.file], (step.arrival, f".{number}.csv"))
        if days := step.updated & set(lake.pending()):
            lake.update(days)
        if len(delivered) == 2:
            early, early_model = list(delivered), {row_of(one) for one in live_rows(known, by_sequence=by_sequence).values()}
    lake.update(lake.pending())
    expected = {row_of(record) for record in live_rows(known, by_sequence=by_sequence).values()}
    assert lake.silver() == {row_of(record) for record in known if record.op != "delete"}, "every row lives"
    assert lake.newest() == expected, "as merge would keep them"
    assert rebuilt(lake) == expected, "incremental equals rebuild (R3)"
    assert rebuilt(lake, early) == early_model, "as of an earlier ingestion (R10)"
    version = newest_version(lake)
    lake.update(DAYS)
    assert (newest_version(lake), lake.pending()) == (version, []), "a rebuild without effect makes no commit"


def run(history: History, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, *, by_sequence: bool) -> None:
    order = {"order": {"sequence": "seq"}} if by_sequence else {}
    if not by_sequence:
        history = replace(history, files=[[replace(record, sequence=0) for record in file] for file in history.files])
    lake = Lake(lake_settings(tmp_path_factory.mktemp("lake")), appended(**order), spark)
    with pieces_of(history.piece_rows) if history.piece_rows else nullcontext():
        check(history, lake, by_sequence=by_sequence)


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
def test_a_moved_key_changes_the_newest_rows_of_both_days_and_the_rows_of_one(settings: Settings, spark: SparkSession) -> None:
    lake = lake_under_policy(settings, spark, "append")
    deliver_and_update(lake, 0, A, B)
    version = lake.silver_version()
    assert deliver_and_update(lake, 1, MOVED, C) == {SECOND}
    assert rows(lake.newest()) == [("a", 2, 9), ("b", 1, 2), ("c", 2, 3)]
    assert rows(lake.silver()) == [("a", 1, 1), ("a", 2, 9), ("b", 1, 2), ("c", 2, 3)]
    assert lake.silver_version() == version + 1, "a day to which no row came is not rebuilt"


def test_a_source_under_another_policy_has_no_such_table(settings: Settings, spark: SparkSession) -> None:
    lake = lake_under_policy(settings, spark, "merge")
    deliver_and_update(lake, 0, A, B)
    assert newest_version(lake) == -1


@pytest.mark.merge
def test_decisions_redactions_and_rebuilds_reach_the_newest_rows(settings: Settings, spark: SparkSession) -> None:
    lake = lake_under_policy(settings, spark, "append")
    deliver_and_update(lake, 0, A, B)
    deliver_and_update(lake, 1, MOVED, C)
    moved = [row.row_id for row in dispositions_account.rows(settings, lake.contract, keys=["a"]) if row.event_date == SECOND]
    quarantine.decide(settings, lake.contract, moved, "reject", by="anna", reason="a test sale")
    lake.update()
    assert rows(lake.newest()) == [("a", 1, 1), ("b", 1, 2), ("c", 2, 3)], "the older row is the newest again"
    redact_fields(settings, lake.contract, "b", ["amount"], by="anna", reason="asked")
    lake.update()
    assert {(row[0], row[2]) for row in lake.newest()} == {("a", 1), ("b", None), ("c", 3)}
    lake.contract = lake.contract.model_copy(
        update={
            "quality": contract(quality={"row_rules": [{"name": "small", "sql": "amount < 3", "severity": "reject"}]}).quality
        }
    )
    silver_rebuild.plan_rebuild(settings, lake.contract, lambda: spark, FIRST, SECOND, reason="a rule", runner_id="anna")
    lake.update()
    assert {row[0] for row in lake.newest()} == {"a", "b"}
    assert lake.newest() == rebuilt(lake)


def deliver(lake: Lake, *arrivals: date) -> None:
    for arrival in arrivals or ARRIVALS:
        lake.deliver(arrival, csv_file(ARRIVALS[arrival]))
        lake.ingest(arrival)


def stopped(lake: Lake, days: list[date] | None, folders: pytest.TempPathFactory) -> list[Lake]:
    """Run an update, and return the lakes that it would have left if it had been stopped: before and after each commit."""
    stops: list[Lake] = []
    seen: list[tuple[int, ...]] = []
    paths = [layer(lake.settings, "events") for layer in (locations.silver, locations.silver_newest)]

    def copy() -> None:
        now = tuple(table_io.version(path) for path in (*paths, locations.applied_inputs(lake.settings)))
        if now in seen:
            return
        seen.append(now)
        root = folders.mktemp("stopped") / "lake"
        copytree(lake.settings.root, root)
        stops.append(Lake(lake.settings.model_copy(update={"root": str(root)}), lake.contract, lake.spark))

    copy()
    with pytest.MonkeyPatch.context() as patched:
        after_each_commit(patched, copy)
        lake.update(days)
    return stops


def outcome(lake: Lake) -> tuple[set[Row], set[Row], list[date]]:
    return lake.silver(), lake.newest(), lake.pending()


@pytest.mark.proof
def test_stopped_after_any_commit_a_run_ends_with_both_tables(settings: Settings, spark: SparkSession, tmp_path_factory) -> None:
    lake = lake_under_policy(settings, spark, "append")
    deliver(lake)
    stops = stopped(lake, None, tmp_path_factory)
    assert rows(lake.newest()) == [("a", 3, 5), ("b", 1, 2)]
    assert any(again.newest() and not again.silver() for again in stops), "one of them lies between the two tables"
    for again in stops:
        again.update()
        assert outcome(again) == outcome(lake)


@pytest.mark.proof
def test_a_lake_of_an_earlier_release_builds_the_newest_rows_with_its_next_run(
    settings: Settings, spark: SparkSession, tmp_path_factory
) -> None:
    lake = lake_under_policy(settings, spark, "append")
    first, second, third = ARRIVALS
    with earlier_release():
        deliver(lake, first)
        lake.update()
        deliver(lake, second)  # it takes the key from the first day, and the second day only is recorded
    assert applied_inputs.lacks_newest(settings, "events")
    stops = stopped(lake, [date(2024, 1, 3)], tmp_path_factory)
    assert rows(lake.newest()) == [("a", 2, 9), ("b", 1, 2)]
    assert lake.pending() == [], "the run that builds them updates every day that waits"
    assert len(lake.silver()) == 4
    assert not applied_inputs.lacks_newest(settings, "events")
    for again in stops:
        assert rows(again.newest()) in ([], rows(lake.newest())), "all of them are there, or none"
        again.update([SECOND])
        again.update()
        assert outcome(again) == outcome(lake)
    deliver(lake, third)
    lake.update()
    assert rows(lake.newest()) == [("a", 3, 5), ("b", 1, 2)]
    assert lake.newest() == rebuilt(lake)
