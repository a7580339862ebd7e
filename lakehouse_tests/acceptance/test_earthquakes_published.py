"""The real history, published day by day: what readers saw then is what was true then, and nothing was published twice."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, time, timedelta, timezone
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from lakehouse import locations
from lakehouse.calendar.days import span
from lakehouse.contracts import load_catalog
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers import published_table
from lakehouse.gold.numbers.version_selector import parse
from lakehouse.gold.reproduction import reproduce
from lakehouse.orchestration.execution.replay import Replay
from lakehouse.settings import Settings
from lakehouse_tests.support.earthquakes.history import BATCHES, needs_earthquakes, true_daily
from lakehouse_tests.support.earthquakes.published import EMPTY, Numbers, Published

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.gold.numbers.history import PublishedVersion

pytestmark = [pytest.mark.spark, pytest.mark.acceptance, needs_earthquakes]

FIRST = date(2018, 1, 1)
CATALOG = load_catalog(None)
DAILY = Series(CATALOG.metrics["earthquakes_daily"])


@pytest.fixture(name="lake")
def _lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("LAKEHOUSE_ROOT", str(tmp_path / "lake"))
    return Settings(landing=str(BATCHES))


def test_nine_days(spark: SparkSession, lake: Settings) -> None:
    published = replayed(lake, 9)
    check_what_was_seen(lake, published, FIRST + timedelta(days=8))
    check_numbers_as_of_arrivals(lake, spark, [date(2018, 1, 8)])


@pytest.mark.slow
@pytest.mark.timeout(5400)
def test_ninety_days(spark: SparkSession, lake: Settings) -> None:
    published = replayed(lake, 90)
    check_what_was_seen(lake, published, FIRST + timedelta(days=89))
    check_numbers_as_of_arrivals(lake, spark, sorted(true_daily()))
    check_reproduced(lake, spark)


def replayed(lake: Settings, days: int) -> Published:
    published = Published()
    with dg.DagsterInstance.ephemeral() as instance:
        for result in Replay(lake, CATALOG, "earthquakes", instance).days(list(span(FIRST, FIRST + timedelta(days=days - 1)))):
            published.arrive(result.arrival_date)
    return published


def numbers(version: PublishedVersion) -> Numbers:
    (row,) = version.rows
    return (row["n_events"], row["n_with_mag"], row["sum_mag"], row["max_mag"]) if row["row_count"] else EMPTY


def check_what_was_seen(lake: Settings, published: Published, last: date) -> None:
    known = numbers_history.history(lake, DAILY, published_table.partitions(lake, locations.gold(lake, DAILY), DAILY.by))
    assert set(known) == set(published.seen)
    for day, versions in known.items():
        assert [(numbers(one), one.state.value) for one in versions] == published.seen[day], day
        assert [one.revision for one in versions] == list(range(1, len(versions) + 1))
    for as_of, truth in true_daily().items():
        if as_of <= last:
            seen = {day: numbers_history.pick(versions, parse(f"{as_of}")) for day, versions in known.items()}
            shown = {day: numbers(answer.version) for day, answer in seen.items() if answer is not None}
            assert {day: said for day, said in shown.items() if said != EMPTY} == truth, as_of
    for rollup in DAILY.rollups:
        newest = numbers_history.newest(lake, rollup)
        sums: Counter[date] = Counter()
        for day, versions in known.items():
            sums[rollup.period(day).start] += numbers(versions[-1])[0]
        assert {start: version.rows[0]["n_events"] for start, version in newest.items()} == sums


def check_numbers_as_of_arrivals(lake: Settings, spark: SparkSession, as_of_dates: list[date]) -> None:
    """By the clock of the arrivals, from Bronze alone: the same, whatever was published."""
    for as_of in as_of_dates:
        truth = true_daily()[as_of]
        when = datetime.combine(as_of, time.max, timezone.utc)
        found = reproduce.known_at(lake, CATALOG, DAILY.metric, sorted(truth), when, lambda: spark)
        said = {day: rows.to_pylist()[0] for day, rows in found.items()}
        assert {
            day: (row["n_events"], row["n_with_mag"], row["sum_mag"], row["max_mag"]) for day, row in said.items()
        } == truth, as_of


def check_reproduced(lake: Settings, spark: SparkSession) -> None:
    """Every revision of the day that was restated most often is reproduced."""
    known = numbers_history.history(lake, DAILY, published_table.partitions(lake, locations.gold(lake, DAILY), DAILY.by))
    restless = max(known, key=lambda day: len(known[day]))
    for version in known[restless]:
        assert reproduce.reproduce(lake, CATALOG, DAILY, restless, version.revision, lambda: spark).equal, version.name
