"""The real history through the real assets: right after every arrival day, as its readers saw it, and as one range."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from datetime import date, datetime, time, timedelta, timezone
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from lakehouse import locations
from lakehouse.calendar.days import span
from lakehouse.contracts import load_catalog
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers.version_selector import parse
from lakehouse.gold.reproduction import reproduce
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.lake import Lake
from lakehouse.ledger import applied_inputs, ingestions
from lakehouse.operations.maintain import maintain
from lakehouse.orchestration.build import build_definitions
from lakehouse.orchestration.execution.replay import Replay
from lakehouse.settings import Settings
from lakehouse.silver import update as silver_update
from lakehouse_tests.support.earthquakes.history import (
    BATCHES,
    gold_daily,
    needs_earthquakes,
    silver_digest,
    true_daily,
    true_digests,
)
from lakehouse_tests.support.earthquakes.published import EMPTY, Numbers, Published
from lakehouse_tests.support.earthquakes.replayed import CATALOG, FIRST, replayed
from lakehouse_tests.support.stopped_commits import stopped_after_each_commit

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.gold.numbers.history import PublishedVersion

pytestmark = [pytest.mark.spark, pytest.mark.merge, needs_earthquakes]

TENTH = date(2018, 1, 10)
DAILY = Series(CATALOG.metrics["earthquakes_daily"])


@pytest.fixture(name="lake")
def _lake(tmp_path: Path) -> Lake:
    return Lake(Settings(root=str(tmp_path / "lake"), landing=str(BATCHES)))


@pytest.mark.proof
def test_ten_days_one_by_one(spark: SparkSession, lake: Lake) -> None:
    replayed(lake, 10).audited.check_all(lake)


@pytest.mark.proof
def test_readers_of_ten_days_saw_what_was_true_then(spark: SparkSession, lake: Lake) -> None:
    check_what_was_seen(lake, replayed(lake, 10).published, TENTH)
    check_numbers_as_of_arrivals(lake, spark, [date(2018, 1, 8)])


@pytest.mark.proof
def test_a_month_as_one_range_through_each_layer_after_ten_days(spark: SparkSession, lake: Lake) -> None:
    replayed(lake, 10)
    truth, daily = true_digests(), true_daily()
    with dg.DagsterInstance.ephemeral() as instance:
        job = build_definitions(lake.settings, CATALOG).resolve_implicit_global_asset_job_def()

        def materialize_range(layer: str, name: str, first: date, last: date) -> None:
            tags = {ASSET_PARTITION_RANGE_START_TAG: f"{first}", ASSET_PARTITION_RANGE_END_TAG: f"{last}"}
            done = job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey([layer, name])], tags=tags)
            assert done.success
            evaluations = [
                event.asset_check_evaluation_data
                for event in done.all_events
                if event.event_type_value == "ASSET_CHECK_EVALUATION"
            ]
            judged = {evaluation.partition for evaluation in evaluations}
            assert judged - {None} == {f"{day}" for day in span(first, last)}  # None: a check step's own summary of the range
            assert all(evaluation.passed for evaluation in evaluations)

        materialize_range("bronze", "earthquakes", date(2018, 1, 11), date(2018, 2, 10))
        touched = applied_inputs.pending(lake, "earthquakes")
        assert {date(2018, 1, 28), date(2018, 1, 29)} <= set(touched)
        materialize_range("silver", "earthquakes", min(touched), max(touched))
        assert silver_digest(lake) == truth[date(2018, 2, 10)]
        assert not applied_inputs.pending(lake, "earthquakes")

        restated = find_pending(lake, DAILY).starts
        materialize_range("gold", "earthquakes_daily", min(restated), max(restated))
    numbers = gold_daily(lake)
    unchanged_since = {day for day in numbers if day < min(restated)}
    assert {day: numbers[day] for day in unchanged_since} == {day: daily[date(2018, 1, 8)][day] for day in unchanged_since}
    assert len(numbers) == len(daily[date(2018, 2, 8)]) + 2


@pytest.mark.proof
@pytest.mark.timeout(1200)
def test_twenty_days_of_which_the_tables_of_the_first_ten_are_converted_and_killed_behind_each_commit(
    spark: SparkSession, lake: Lake
) -> None:
    truth, daily = true_digests(), true_daily()
    usual, lake.settings.file_bytes = lake.settings.file_bytes, 0  # of an earlier release
    with dg.DagsterInstance.ephemeral() as instance:
        for result in Replay(lake, CATALOG, "earthquakes", instance).days(list(span(FIRST, TENTH))):
            assert silver_digest(lake) == truth[result.arrival_date]
        lake.settings.file_bytes = usual
        assert stopped_after_each_commit(lambda: [*maintain(lake, CATALOG, convert=True)]) >= 9
        assert [upkeep for upkeep in maintain(lake, CATALOG, convert=True) if upkeep.converted or upkeep.problem] == []
        for layer, name in (("bronze", "earthquakes"), ("silver", "earthquakes"), ("gold", DAILY.name)):
            table = lake.table(layer, name).snapshot()
            assert table is not None
            assert table.metadata().partition_columns == []
        for result in Replay(lake, CATALOG, "earthquakes", instance).days(list(span(TENTH, TENTH + timedelta(days=10)))):
            arrival = result.arrival_date
            assert silver_digest(lake) == truth[arrival]
            if arrival in daily:
                assert gold_daily(lake) == daily[arrival]
    check_reproduced(lake, spark)


@pytest.mark.proof
@pytest.mark.timeout(5400)
def test_ninety_days_one_by_one(spark: SparkSession, lake: Lake) -> None:
    after = replayed(lake, 90)
    assert sum(days for arrival, days in after.recomputed.items() if arrival > TENTH) <= 519
    after.audited.check_all(lake)
    assert after.audited.counts == {"backfill": 731, "late_merge": 993, "correction": 2_962}


@pytest.mark.proof
@pytest.mark.timeout(5400)
def test_readers_of_ninety_days_saw_what_was_true_then(spark: SparkSession, lake: Lake) -> None:
    check_what_was_seen(lake, replayed(lake, 90).published, FIRST + timedelta(days=89))
    check_numbers_as_of_arrivals(lake, spark, sorted(true_daily()))
    check_reproduced(lake, spark)


@pytest.mark.proof
@pytest.mark.timeout(5400)
def test_a_month_in_shuffled_order_with_each_file_twice_and_every_day_rebuilt(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    days = list(span(FIRST, FIRST + timedelta(days=29)))
    landing = tmp_path / "landing"
    landing.mkdir()
    for day in days:
        for suffix in ("", ".again"):
            shutil.copy(BATCHES / f"arrival_date={day}.csv.gz", landing / f"arrival_date={day}{suffix}.csv.gz")
    lake.settings.landing = str(landing)
    catalog = load_catalog(None)
    bundled = catalog.sources["earthquakes"]
    anew = bundled.source.model_copy(update={"landing": "arrival_date={arrival_date}*.csv.gz"})
    contract = catalog.sources["earthquakes"] = bundled.model_copy(update={"source": anew})
    random.Random(20180101).shuffle(days)
    with dg.DagsterInstance.ephemeral() as instance:
        replay = Replay(lake, catalog, "earthquakes", instance)
        for day in days:
            (result,) = replay.days([day])
            assert result.files == 1, "the same content again adds nothing"
    assert silver_digest(lake) == true_digests()[max(days)]
    deliveries = ingestions.all_of(lake, "earthquakes")
    assert Counter(entry.status for entry in deliveries) == {"ingested": 30, "redelivered": 30}

    version = locations.silver(lake, "earthquakes").version()
    every_day = set().union(*(entry.touched_days for entry in deliveries))
    assert silver_update.update(lake, contract, lambda: spark, every_day, "rebuild").rebuilt == every_day
    assert locations.silver(lake, "earthquakes").version() == version, "a rebuild of everything changes nothing (R3)"


def numbers(version: PublishedVersion) -> Numbers:
    (row,) = version.rows
    return (row["n_events"], row["n_with_mag"], row["sum_mag"], row["max_mag"]) if row["row_count"] else EMPTY


def check_what_was_seen(lake: Lake, published: Published, last: date) -> None:
    known = numbers_history.history(lake, DAILY)
    assert set(known) == set(published.seen)
    for day, versions in known.items():
        assert [(numbers(one), one.state.value) for one in versions] == published.seen[day], day
        assert [one.revision for one in versions] == list(range(1, len(versions) + 1))
    for as_of, truth in true_daily().items():
        if as_of <= last:
            seen = {day: numbers_history.pick(versions, parse(f"{as_of}")) for day, versions in known.items()}
            shown = {day: numbers(answer.version) for day, answer in seen.items() if answer is not None}
            assert {day: found for day, found in shown.items() if found != EMPTY} == truth, as_of
    for rollup in DAILY.rollups:
        newest = numbers_history.newest(lake, rollup)
        sums: Counter[date] = Counter()
        for day, versions in known.items():
            sums[rollup.period(day).start] += numbers(versions[-1])[0]
        assert {start: version.rows[0]["n_events"] for start, version in newest.items()} == sums


def check_numbers_as_of_arrivals(lake: Lake, spark: SparkSession, as_of_dates: list[date]) -> None:
    """By the clock of the arrivals, from Bronze alone: the same, whatever was published."""
    for as_of in as_of_dates:
        truth = true_daily()[as_of]
        when = datetime.combine(as_of, time.max, timezone.utc)
        found = reproduce.known_at(lake, CATALOG, DAILY.metric, sorted(truth), when, lambda: spark)
        known = {day: rows.to_pylist()[0] for day, rows in found.items()}
        assert {
            day: (row["n_events"], row["n_with_mag"], row["sum_mag"], row["max_mag"]) for day, row in known.items()
        } == truth, as_of


def check_reproduced(lake: Lake, spark: SparkSession) -> None:
    """Every revision of the day that was restated most often is reproduced."""
    known = numbers_history.history(lake, DAILY)
    restless = max(known, key=lambda day: len(known[day]))
    for version in known[restless]:
        assert reproduce.reproduce(lake, CATALOG, DAILY, restless, version.revision, lambda: spark).equal, version.name
