"""Metrics over an ``append`` source: each key counts once, by its newest row, unless the contract says ``rows: all``."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given

from lakehouse import locations
from lakehouse.contracts.loader import completed
from lakehouse.contracts.series import Series
from lakehouse.delta import provenance
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.reproduction import reproduce
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import reconciliation
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.gold.restatement.silver_tables import UnbuiltTableError
from lakehouse_tests.support.earlier_append import earlier_release
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake, appended, content_id, csv_file, csv_line
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.reference_model import Record, deliver_again, live_rows
from lakehouse_tests.support.reproducible_lake import TOTAL, ReproducibleLake, metric, reproducible_lake
from lakehouse_tests.support.silver_histories import DAYS, FORWARD, NOON, History, histories

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark

NEWEST, EVERY = metric("newest", TOTAL, rows="newest"), metric("every", TOTAL, rows="all")
APPEND = {"materialization": {"reprocess_policy": "append"}, "changes": {}}
ONE, TWO = date(2024, 2, 1), date(2024, 2, 2)


def published(lake: Lake, definition: MetricContract) -> dict[date, tuple[int | None, int]]:
    """The total and the number of rows that readers see, by day."""
    found = locations.gold(lake, Series(definition)).read(["event_date", "total", "row_count", "is_latest"])
    rows = [] if found is None else found.to_pylist()
    return {row["event_date"]: (row["total"], row["row_count"]) for row in rows if row["is_latest"]}


def number_of(records: Iterable[Record]) -> dict[date, tuple[int | None, int]]:
    """The same of the model."""
    amounts = defaultdict(list)
    for record in records:
        if record.day is not None and record.op != "delete":
            amounts[record.day].append(record.amount)
    return {day: (sum(values), len(values)) for day, values in amounts.items()}


def run(history: History, folders: pytest.TempPathFactory, spark: SparkSession) -> None:
    sample = SampleLake(lake_in(folders.mktemp("lake")), appended(), spark)
    reproducible = ReproducibleLake(sample, [NEWEST, EVERY])
    sample.lake.settings.local_rows, sample.lake.settings.file_bytes = history.local_rows, history.file_bytes
    sample.lake.settings.spark_remote = None  # of more rows than these, first ones are taken in pieces
    files = [[replace(record, sequence=0) for record in file] for file in history.files]
    known: list[Record] = []
    seen: dict[str, dict[date, tuple[int | None, int]]] = {definition.name: {} for definition in (NEWEST, EVERY)}
    changed = {definition.name: Counter[date]() for definition in (NEWEST, EVERY)}
    for number, step in enumerate(history.steps):
        sample.lake.settings.now = NOON + timedelta(days=60, hours=number)
        data = csv_file(map(csv_line, files[step.file]))
        sample.deliver(step.arrival, data, f".{number}.csv")
        sample.ingest(step.arrival)
        deliver_again(known, content_id(data), files[step.file], (step.arrival, f".{number}.csv"))
        if number % 2 and number < len(history.steps) - 1:
            continue  # several files are merged at once
        reproducible.publish()
        for definition, rows in ((NEWEST, live_rows(known, by_sequence=False).values()), (EVERY, known)):
            model = number_of(rows)
            expected = {day: model.get(day, (None, 0)) for day in seen[definition.name].keys() | model.keys()}
            assert published(sample.lake, definition) == expected
            changed[definition.name].update(day for day in expected if expected[day] != seen[definition.name].get(day))
            seen[definition.name] = expected
    for definition in (NEWEST, EVERY):
        revisions = Counter(day for day, _, _ in reproducible.revisions(definition))
        assert revisions == changed[definition.name], "a day is restated when its number changed (R6)"
        assert all(outcome.passed for outcome in reconciliation.check_published(sample.lake, Series(definition), DAYS))
    reproducible.vacuum()
    assert [made.differences for made in reproducible.reproduce_all() if not made.equal] == []


@pytest.mark.merge
@pytest.mark.timeout(2400)
@law(25)
@example(history=FORWARD)
@given(history=histories())
def test_each_key_counts_once_and_what_changed_is_restated(tmp_path_factory, spark, history: History) -> None:
    run(history, tmp_path_factory, spark)


@pytest.mark.merge
def test_a_moved_key_restates_both_days_and_only_one_of_every_row(lake: Lake, spark: SparkSession) -> None:
    reproducible = reproducible_lake(lake, spark, [NEWEST, EVERY], **APPEND)
    reproducible.deliver(1, "a,1,1,,,red", "b,2,1,,,red")
    reproducible.publish()
    reproducible.deliver(2, "a,5,2,,,red", "b,2,1,,,red")
    reproducible.sample.update()
    follows = {definition.name: find_pending(lake, Series(definition)) for definition in (NEWEST, EVERY)}
    assert follows["newest"].starts == {ONE, TWO}
    assert follows["newest"].causes == {ONE: Counter(moved_out=1), TWO: Counter(moved_in=1)}, "b came again as it was"
    reproducible.publish()
    assert published(lake, NEWEST) == {ONE: (2, 1), TWO: (5, 1)}
    assert published(lake, EVERY) == {ONE: (5, 3), TWO: (5, 1)}
    early = datetime(2024, 2, 1, 23, 30, tzinfo=timezone.utc)
    then = {
        definition.name: reproduce.known_at(lake, reproducible.catalog, definition, [ONE, TWO], early, lambda: spark)
        for definition in (NEWEST, EVERY)
    }
    assert {name: {day: rows["total"].to_pylist() for day, rows in of.items()} for name, of in then.items()} == {
        "newest": {ONE: [3]},
        "every": {ONE: [3]},
    }
    assert all(made.equal for made in reproducible.reproduce_all())


@pytest.mark.proof
def test_the_newest_rows_may_be_none_though_silver_has_rows(lake: Lake, spark: SparkSession) -> None:
    """Bronze may hold a deletion from a time when the source was under another policy."""
    sample = SampleLake(lake, appended(), spark)
    reproducible = ReproducibleLake(sample, [NEWEST, EVERY])
    for number, op in enumerate(["insert", "delete", "insert"], start=1):
        moment = datetime(2024, 2, number, 12, tzinfo=timezone.utc)
        sample.deliver(moment.date(), csv_file([csv_line(Record("a", op, ONE, number, moment, None, 0))]))
        sample.ingest(moment.date())
        reproducible.at(number + 1)
        reproducible.publish()
        built = {1: (1, 1), 2: (None, 0), 3: (3, 1)}
        assert published(lake, NEWEST) == {ONE: built[number]}
    assert published(lake, EVERY) == {ONE: (4, 2)}


@pytest.mark.proof
def test_a_metric_of_an_earlier_release_waits_for_the_newest_rows_and_then_restates_all_days(
    lake: Lake, spark: SparkSession
) -> None:
    before = metric("total", TOTAL)
    reproducible = reproducible_lake(lake, spark, [before], **APPEND)
    with earlier_release():
        for day in (1, 2, 3):  # silver has more versions than the table of the newest rows will have
            reproducible.deliver(day, f"a,{day},{day},,,red", f"b{day},2,2,,,red")
            reproducible.publish()
    counted = {ONE: (1, 1), TWO: (8, 4), date(2024, 2, 3): (3, 1)}
    assert published(lake, before) == counted
    after = completed(before, reproducible.catalog.sources)
    reproducible.metrics = [after]
    assert (before.rows, after.rows) == (None, "newest")
    assert find_pending(lake, Series(after)).starts == set()
    with pytest.raises(UnbuiltTableError, match="silver/events_newest has not been built yet"):
        restatement_days.restate(lake, reproducible.sample.contract, Series(after), lambda: spark, [ONE], Run("run"))
    assert published(lake, after) == counted
    reproducible.sample.update([ONE])
    assert find_pending(lake, Series(after)).starts == {ONE, TWO, date(2024, 2, 3)}
    reproducible.publish()
    assert published(lake, after) == {ONE: (None, 0), TWO: (6, 3), date(2024, 2, 3): (3, 1)}
    assert find_pending(lake, Series(after)).starts == set()
    assert all(outcome.passed for outcome in reconciliation.check_published(lake, Series(after), [ONE, TWO]))
    made = reproducible.reproduce_all()
    assert {(definition.equal, definition.contract_then == definition.contract_now) for definition in made} == {
        (True, False),
        (True, True),
    }
    back = metric("total", TOTAL, rows="all")
    assert provenance.of_contract(back) == provenance.of_contract(before) != provenance.of_contract(after)
    reproducible.metrics = [back]
    reproducible.at(4)
    reproducible.publish()
    assert published(lake, back) == counted, "versions of the two tables are not compared with each other"
    assert all(definition.equal for definition in reproducible.reproduce_all())
