"""Silver against Bronze and numbers against silver: no row is missed, and no difference that resolves itself is reported."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import example, given

from lakehouse import locations
from lakehouse.bronze import checks as bronze_checks
from lakehouse.contracts.series import Series
from lakehouse.dispositions import account as dispositions_account
from lakehouse.gold.publication import held_numbers
from lakehouse.gold.restatement import reconciliation as restatement_checks
from lakehouse.lake import table_io
from lakehouse.ledger import decisions, publications
from lakehouse.ledger.decisions import Decision
from lakehouse.silver import checks as silver_checks
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake, contract, csv_file, csv_line
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.reproducible_lake import TOTAL, ReproducibleLake, metric, reproducible_lake
from lakehouse_tests.support.resent_days import ARRIVED, FIRST, SECOND, A, B, C, D, deliver_and_update, lake_under_policy
from lakehouse_tests.support.silver_histories import BACKWARD, DAYS, FORWARD, History, histories

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake
    from lakehouse.quality.check_rules import CheckResult

pytestmark = pytest.mark.spark

POLICIES = ("merge", "overwrite_partition_safe", "overwrite_all", "append")
BOTH = [FIRST, SECOND]


def judged(sample: SampleLake, days: list[date] = BOTH) -> list[CheckResult]:
    """The check on silver, as a run of the layer evaluates it with the others."""
    found = [one for one in silver_checks.check_silver(sample.lake, sample.contract, days) if one.check == "equals_bronze"]
    assert [one.day for one in found] == days
    return found


def passed(sample: SampleLake, days: list[date] = BOTH) -> list[bool]:
    return [one.passed for one in judged(sample, days)]


def lose(sample: SampleLake, key: str) -> pa.Table:
    """Remove a row from silver without a record of it; returns the row."""
    table = locations.silver(sample.lake, "events").open()
    assert table is not None
    gone = table_io.read_version(table, None, {"record_key": [key]})
    table.delete(f"record_key = '{key}'")
    return gone


def add(sample: SampleLake, rows: pa.Table) -> None:
    write_deltalake(locations.silver(sample.lake, "events").address, rows, mode="append")


@pytest.mark.merge
@pytest.mark.parametrize("policy", [*POLICIES[:2], *(pytest.param(name, marks=pytest.mark.proof) for name in POLICIES[2:])])
def test_under_every_policy_a_lost_and_a_doubled_row_are_found(lake: Lake, spark: SparkSession, policy: str) -> None:
    sample = lake_under_policy(lake, spark, policy)
    deliver_and_update(sample, 0, A, B, C)
    deliver_and_update(sample, 1, "a,7,2024-01-01T12:00:00Z", D)
    assert all(outcome.passed and not outcome.numbers["difference"] for outcome in judged(sample))
    assert [outcome.numbers["rows_applied"] for outcome in judged(sample)] == {
        "merge": [3, 1],
        "overwrite_partition_safe": [2, 1],
        "overwrite_all": [2, 0],
        "append": [4, 1],
    }[policy]
    row = lose(sample, "d")
    first, second = judged(sample)
    assert (first.passed, second.passed) == (False, True)
    assert not first.warns
    assert (first.numbers["rows_missing"], first.numbers["rows_too_many"], first.numbers["difference"]) == (1, 0, -1)
    assert first.explanation == (
        "silver lacks 1 applied rows of the day and holds 0 that are not applied: materialize silver/events for 2024-01-01"
    )
    add(sample, row)
    assert passed(sample) == [True, True]
    add(sample, row)
    first, second = judged(sample)
    assert (first.passed, second.passed) == (False, True)
    assert (first.numbers["rows_missing"], first.numbers["rows_too_many"], first.numbers["difference"]) == (0, 1, 1)
    quiet = replace_contract(sample, quality={"severity": {"equals_bronze": "warn"}})
    assert [outcome.warns for outcome in judged(quiet)] == [True, True]
    sample.update([FIRST])
    assert passed(sample) == [True, True], "the way out that it names helps"


def replace_contract(sample: SampleLake, **changes: Any) -> SampleLake:
    return replace(sample, contract=type(sample.contract).model_validate({**sample.contract.model_dump(), **changes}))


def test_a_row_in_the_place_of_another_is_found_though_the_counts_agree(lake: Lake, spark: SparkSession) -> None:
    sample = lake_under_policy(lake, spark, "merge")
    deliver_and_update(sample, 0, A, B, C)
    row = lose(sample, "b")
    add(sample, row.set_column(row.column_names.index("line_number"), "line_number", pa.array([99], pa.int64())))
    [first] = judged(sample, [FIRST])
    assert not first.passed
    assert (first.numbers["rows_in_silver"], first.numbers["rows_applied"], first.numbers["difference"]) == (2, 2, 0)
    assert (first.numbers["rows_missing"], first.numbers["rows_too_many"]) == (1, 1)


@pytest.mark.merge
def test_rows_that_wait_for_silver_are_reported_without_a_failure(lake: Lake, spark: SparkSession) -> None:
    sample = lake_under_policy(lake, spark, "merge")
    deliver_and_update(sample, 0, A, B, C)
    sample.deliver(ARRIVED[1], csv_file([f"{D},2024-02-02T06:00:00Z,,,0"]))
    sample.ingest(ARRIVED[1])
    first, second = judged(sample)
    assert (first.passed, second.passed) == (True, True)
    assert (first.numbers["rows_missing"], first.numbers["waits_for_silver"], second.numbers["waits_for_silver"]) == (1, 1, 0)
    assert str(first.explanation).endswith(": newer input is pending")

    ledger = DeltaTable(lake.table("ops", "ingestions").address)  # as it is while the file is taken in, or its run was stopped
    ledger.delete(f"arrival_date = '{ARRIVED[1]}'")
    assert sample.pending() == []
    assert passed(sample) == [True, True]
    assert [one.numbers["rows_missing"] for one in judged(sample)] == [1, 0]


@pytest.mark.merge
def test_accounts_that_lag_behind_a_decision_fail_no_check(lake: Lake, spark: SparkSession) -> None:
    sample = lake_under_policy(lake, spark, "merge")
    deliver_and_update(sample, 0, A, B, C)
    [b] = [row for row in dispositions_account.rows(lake, sample.contract) if row.record_key == "b"]
    said = Decision(b.ingestion_id, b.line_number, "b", "reject", "anna", "a test", lake.now(), touched_days=[FIRST])
    decisions.record(lake, "events", [said])  # and killed before its entry in the books
    assert passed(sample) == [True, True]
    sample.update()
    assert sample.pending() == []
    first, _ = judged(sample)
    assert (first.passed, first.numbers["rows_applied"], first.numbers["difference"]) == (True, 1, 0)


@pytest.mark.merge
def test_without_the_operational_tables_the_way_back_is_named(lake: Lake, spark: SparkSession) -> None:
    sample = lake_under_policy(lake, spark, "merge")
    assert passed(sample) == [True, True], "nothing equals nothing"
    deliver_and_update(sample, 0, A, B, C)
    shutil.rmtree(lake.table("ops", "").address)
    first, _ = judged(sample)
    assert not first.passed
    assert "not in the key log: materialize bronze/events for 2024-02-01 again" in str(first.explanation)
    sample.ingest(ARRIVED[0])
    sample.update()
    assert passed(sample) == [True, True]


@law(25)
@example(FORWARD)
@example(BACKWARD)
@given(histories())
def test_it_holds_at_every_step_of_any_history(spark: SparkSession, tmp_path_factory, history: History) -> None:
    sample = SampleLake(lake_in(tmp_path_factory.mktemp("lake")), contract(), spark)
    for number, step in enumerate(history.steps):
        sample.deliver(step.arrival, csv_file(map(csv_line, history.files[step.file])), f".{number}.csv")
        sample.ingest(step.arrival)
        assert passed(sample, DAYS) == [True] * len(DAYS)
        if days := step.updated & set(sample.pending()):
            sample.update(days)
            assert passed(sample, DAYS) == [True] * len(DAYS)
    sample.update()
    outcomes = judged(sample, DAYS)
    assert not any(
        outcome.numbers["difference"] or outcome.numbers["waits_for_silver"] or outcome.explanation for outcome in outcomes
    )
    rows = sample.silver()
    assert {outcome.day: outcome.numbers["rows_in_silver"] for outcome in outcomes} == {
        day: sum(row[1] == day for row in rows) for day in DAYS
    }
    for key, day, *_ in sorted(rows, key=str)[:1]:
        lose(sample, key)
        assert [outcome.day for outcome in judged(sample, DAYS) if not outcome.passed] == [day]


def published(reproducible: ReproducibleLake, *numbers: int) -> list[CheckResult]:
    days = [date(2024, 2, number) for number in numbers]
    return restatement_checks.check_published(reproducible.lake, Series(reproducible.metrics[0]), days)


def counts_of(outcome: CheckResult) -> tuple[bool, int, int, int]:
    numbers = outcome.numbers
    return outcome.passed, numbers["published_rows"], numbers["silver_rows"], numbers["explained"]


@pytest.mark.merge
def test_a_published_number_follows_silver_or_says_why_not_yet(lake: Lake, spark: SparkSession) -> None:
    reproducible = reproducible_lake(lake, spark, [metric("total", TOTAL)])
    assert [counts_of(outcome) for outcome in published(reproducible, 1)] == [(True, 0, 0, 0)], "before anything"
    reproducible.deliver(3, "a,1,1,,,", "b,2,1,,,", "c,3,2,,,")
    reproducible.publish()
    assert [counts_of(outcome) for outcome in published(reproducible, 1, 2, 3)] == [
        (True, 2, 2, 0),
        (True, 1, 1, 0),
        (True, 0, 0, 0),
    ]

    reproducible.deliver(4, "d,4,1,,,", "c,,,delete,,")
    reproducible.sample.update()
    first, second = published(reproducible, 1, 2)
    assert (counts_of(first), counts_of(second)) == ((True, 2, 3, 1), (True, 1, 0, 1))
    assert first.explanation == (
        "the published number contains 2 rows, and silver has 3: silver has changed since, and a restatement is pending"
    )
    reproducible.publish()
    assert [counts_of(outcome) for outcome in published(reproducible, 1, 2)] == [(True, 3, 3, 0), (True, 0, 0, 0)], (
        "an emptied day, too"
    )

    lose(reproducible.sample, "a")
    series = Series(reproducible.metrics[0])
    newest = publications.restatements_of(lake, series.name)[-1]
    lie = replace(newest, followed_version=reproducible.sample.silver_version(), followed_commit=None)
    publications.record_restatement(lake, lie)
    [first] = published(reproducible, 1)
    assert counts_of(first) == (False, 3, 2, 0)
    assert not first.warns
    assert str(first.explanation).endswith(": no pending change explains it: materialize gold/total for 2024-02-01")


@pytest.mark.merge
def test_a_number_that_somebody_has_to_decide_on_or_has_explains_it(lake: Lake, spark: SparkSession) -> None:
    reproducible = reproducible_lake(
        lake, spark, [metric("total", TOTAL, checks={"row_count": {"max": 1}}, publication={"start_delay": 1})]
    )
    reproducible.deliver(2, "a,1,1,,,", "x,1,2,,,")
    reproducible.publish()
    first, second = published(reproducible, 1, 2)
    assert (counts_of(first), counts_of(second)) == ((True, 1, 1, 0), (True, 0, 1, 1))
    assert str(second.explanation).endswith(": it is not published before 1 days have passed")
    reproducible.deliver(3, "b,2,1,,,")
    reproducible.publish()
    [first] = published(reproducible, 1)
    assert counts_of(first) == (True, 1, 2, 1)
    assert str(first.explanation).endswith(": the new number is held: see 'lakehouse gold held'")
    series = Series(reproducible.metrics[0])
    held_numbers.drop(lake, series, series.period(date(2024, 2, 1)), 2, "anna", "nonsense")
    reproducible.publish([])
    [first] = published(reproducible, 1)
    assert counts_of(first) == (True, 1, 2, 1)
    assert str(first.explanation).endswith(": the new number was dropped, and the published one stays")


@pytest.mark.merge
def test_a_closed_number_counts_with_its_adjustments(lake: Lake, spark: SparkSession) -> None:
    reproducible = reproducible_lake(
        lake, spark, [metric("total", TOTAL, publication={"final_after": 2, "after_close": "adjust"})]
    )
    reproducible.deliver(4, "a,1,1,,,")
    reproducible.publish()
    reproducible.deliver(5, "b,2,1,,,", "c,2,1,,,")
    reproducible.publish()
    assert [row[2] for row in reproducible.revisions(reproducible.metrics[0])] == [1, None]
    assert [counts_of(one) for one in published(reproducible, 1)] == [(True, 3, 3, 0)]


def test_its_names_are_those_of_its_outcomes(lake: Lake, spark: SparkSession) -> None:
    sample = lake_under_policy(lake, spark, "merge")
    deliver_and_update(sample, 0, A, B, C)
    asked = replace_contract(sample, quality={"nulls": {"amount": 0}, "row_count": {"min": 1}}, freshness={"max_age": "P1D"})
    in_silver = {one.check for one in silver_checks.check_silver(lake, asked.contract, BOTH)}
    assert in_silver == set(silver_checks.silver_check_names(asked.contract))
    assert {one.check for one in bronze_checks.check_bronze(lake, asked.contract, ARRIVED[:1])} == set(
        bronze_checks.bronze_check_names(asked.contract)
    )
    of_metric = restatement_checks.gold_check_names(Series(metric("total", TOTAL)))
    assert of_metric.keys() & restatement_checks.PUBLISHED.keys() == {restatement_checks.EQUALS_SILVER}
