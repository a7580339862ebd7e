"""The real history under four lateness policies: all rows accounted for every day; accepting all equals no quarantine."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.calendar.days import span
from lakehouse.contracts import load_catalog
from lakehouse.contracts.source_rules import Lateness
from lakehouse.dispositions import account as dispositions_account
from lakehouse.lake import Lake, Table
from lakehouse.ledger.ids import row_id_of
from lakehouse.settings import Settings
from lakehouse.stewardship import quarantine
from lakehouse.stewardship.quarantine import QuarantineFilter
from lakehouse_tests.support.earthquakes.history import BATCHES, needs_earthquakes, silver_digest, true_digests
from lakehouse_tests.support.lake import SampleLake

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract

pytestmark = [pytest.mark.spark, pytest.mark.merge, pytest.mark.proof, needs_earthquakes]

FIRST = date(2018, 1, 1)


def earthquakes(watermark: int | None) -> SourceContract:
    """The bundled contract; rows that come more than ``watermark`` days late wait for a steward."""
    bundled = load_catalog(None).sources["earthquakes"]
    if watermark is None:
        return bundled
    late = Lateness.model_validate({"watermark": f"P{watermark}D", "beyond": "quarantine"})
    return bundled.model_copy(update={"lateness": late})


def check_books(sample: SampleLake) -> Counter[str]:
    """Every row of Bronze has one disposition, those that are applied and no delete are what silver holds."""
    place = ("ingestion_id", "line_number")
    bronze = _read(locations.bronze(sample.lake, "earthquakes"), *place)
    disposed = _read(locations.dispositions(sample.lake, "earthquakes"), *place, "disposition", "change_op")
    assert len(disposed) == len(bronze)
    assert {row[:2] for row in disposed} == set(bronze)
    applied = {row[:2] for row in disposed if row[2] == "applied" and row[3] != "delete"}
    held = _read(locations.silver(sample.lake, "earthquakes"), *place)
    assert applied == set(held)
    assert len(applied) == len(held)
    counted = Counter(row[2] for row in disposed)
    assert len(quarantine.entries(sample.lake, sample.contract, QuarantineFilter())) == counted["quarantined"]
    return counted


def check_account(sample: SampleLake) -> None:
    """The account, recomputed from all claims and decisions, equals the stored one."""
    account = dispositions_account.rows(sample.lake, sample.contract)
    columns = ("ingestion_id", "line_number", "disposition", "because", "decided_by")
    told = sorted(_read(locations.dispositions(sample.lake, "earthquakes"), *columns), key=str)
    anew = [tuple(getattr(row, name) for name in columns) for row in account]
    assert told == sorted(((*row[:2], row[2].value, *row[3:]) for row in anew), key=str)


def _read(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    found = table.read(columns)
    return [] if found is None else list(zip(*(found[name].to_pylist() for name in columns)))


def take(sample: SampleLake, day: date) -> None:
    sample.ingest(day)
    if sample.pending():
        sample.update()


def accept_all(sample: SampleLake, chance: random.Random, portions: int) -> None:
    """Accept the quarantined rows in random order, split over a number of commands."""
    rows = [row_id_of(entry) for entry in quarantine.entries(sample.lake, sample.contract, QuarantineFilter())]
    chance.shuffle(rows)
    size = -(-len(rows) // portions)
    for start in range(0, len(rows), size):
        quarantine.decide(sample.lake, sample.contract, rows[start : start + size], "accept", by="test", reason="all of it")
        if chance.random() < 0.5:
            sample.update()
    if sample.pending():
        sample.update()


def replay(lake: Any, spark: SparkSession, watermark: int | None, days: int) -> SampleLake:
    sample = SampleLake(lake, earthquakes(watermark), spark)
    for day in span(FIRST, FIRST + timedelta(days=days - 1)):
        cached = replace(sample, lake=lake.cached())
        take(cached, day)
        counted = check_books(cached)
        assert bool(counted["quarantined"]) == (watermark is not None)
        if day.day % 10 == 0:
            check_account(sample)
    return sample


def test_four_days_with_a_quarantine(spark: SparkSession, tmp_path: Path) -> None:
    sample = replay(Lake(Settings(root=str(tmp_path), landing=str(BATCHES))), spark, 2, 4)
    assert silver_digest(sample.lake) != true_digests()[FIRST + timedelta(days=3)]
    accept_all(sample, random.Random(5), portions=2)
    assert silver_digest(sample.lake) == true_digests()[FIRST + timedelta(days=3)]
    check_books(sample)
    check_account(sample)


@pytest.mark.timeout(5400)
@pytest.mark.parametrize(("watermark", "days"), [(None, 30), (2, 90), (7, 30), (30, 30)])
def test_many_days_under_each_policy(spark: SparkSession, tmp_path: Path, watermark: int | None, days: int) -> None:
    sample = replay(Lake(Settings(root=str(tmp_path), landing=str(BATCHES))), spark, watermark, days)
    if watermark is not None:
        accept_all(sample, random.Random(watermark), portions=7)
    assert silver_digest(sample.lake) == true_digests()[FIRST + timedelta(days=days - 1)]
    check_books(sample)
    check_account(sample)
