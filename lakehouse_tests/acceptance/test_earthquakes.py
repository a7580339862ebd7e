"""The real history through the real assets: right after every arrival day, one by one and as one range."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from datetime import date, timedelta
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from lakehouse import locations
from lakehouse.calendar.days import span
from lakehouse.contracts import load_catalog
from lakehouse.contracts.series import Series
from lakehouse.delta import table_io
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import applied_inputs, ingestions
from lakehouse.orchestration.build import build_definitions
from lakehouse.orchestration.execution.replay import Replay
from lakehouse.settings import Settings
from lakehouse.silver import update as silver_update
from lakehouse_tests.support.earthquakes.audit import AuditModel
from lakehouse_tests.support.earthquakes.history import (
    BATCHES,
    gold_daily,
    needs_earthquakes,
    silver_digest,
    true_daily,
    true_digests,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.acceptance, needs_earthquakes]

FIRST = date(2018, 1, 1)
TENTH = date(2018, 1, 10)


@pytest.fixture(name="lake")
def _lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("LAKEHOUSE_ROOT", str(tmp_path / "lake"))
    return Settings(landing=str(BATCHES))


def test_ten_days_one_by_one_then_a_month_as_one_range_through_each_layer(spark: SparkSession, lake: Settings) -> None:
    truth, daily = true_digests(), true_daily()
    catalog = load_catalog(None)
    audited = AuditModel(catalog)
    with dg.DagsterInstance.ephemeral() as instance:
        for result in Replay(lake, catalog, "earthquakes", instance).days(list(span(FIRST, TENTH))):
            assert silver_digest(lake) == truth[result.arrival_date]
            audited.check(lake, result.arrival_date)
            assert result.rows > 0
            assert result.malformed == 0
            if result.arrival_date in daily:
                assert gold_daily(lake) == daily[result.arrival_date]
        audited.check_all(lake)

        job = build_definitions(lake, catalog).resolve_implicit_global_asset_job_def()

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

        restated = find_pending(lake, Series(catalog.metrics["earthquakes_daily"])).starts
        materialize_range("gold", "earthquakes_daily", min(restated), max(restated))
    numbers = gold_daily(lake)
    unchanged_since = {day for day in numbers if day < min(restated)}
    assert {day: numbers[day] for day in unchanged_since} == {day: daily[date(2018, 1, 8)][day] for day in unchanged_since}
    assert len(numbers) == len(daily[date(2018, 2, 8)]) + 2


@pytest.mark.slow
@pytest.mark.timeout(5400)
def test_ninety_days_one_by_one(spark: SparkSession, lake: Settings) -> None:
    truth, daily = true_digests(), true_daily()
    catalog = load_catalog(None)
    audited = AuditModel(catalog)
    with dg.DagsterInstance.ephemeral() as instance:
        replay = Replay(lake, catalog, "earthquakes", instance)
        recomputed = 0
        for result in replay.days(list(span(FIRST, FIRST + timedelta(days=89)))):
            assert silver_digest(lake) == truth[result.arrival_date], result.arrival_date
            audited.check(lake, result.arrival_date)
            if result.arrival_date in daily:
                assert gold_daily(lake) == daily[result.arrival_date], result.arrival_date
            if result.arrival_date > TENTH:
                recomputed += len(result.touched)
    assert recomputed <= 519
    audited.check_all(lake)
    assert audited.counts == {"late_merge": 46_852, "correction": 2_962}


@pytest.mark.slow
@pytest.mark.timeout(5400)
def test_a_month_in_shuffled_order_with_each_file_twice_and_every_day_rebuilt(
    spark: SparkSession, lake: Settings, tmp_path: Path
) -> None:
    days = list(span(FIRST, FIRST + timedelta(days=29)))
    landing = tmp_path / "landing"
    landing.mkdir()
    for day in days:
        for suffix in ("", ".again"):
            shutil.copy(BATCHES / f"arrival_date={day}.csv.gz", landing / f"arrival_date={day}{suffix}.csv.gz")
    lake.landing = str(landing)
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

    version = table_io.version(locations.silver(lake, "earthquakes"), lake.storage_options)
    every_day = set().union(*(entry.touched_days for entry in deliveries))
    assert silver_update.update(lake, contract, lambda: spark, every_day, "rebuild").rebuilt == every_day
    assert table_io.version(locations.silver(lake, "earthquakes"), lake.storage_options) == version, (
        "a rebuild of everything changes nothing (R3)"
    )
