"""Checks as the UI runs them again: on one partition, on a range, on none; and the rolling backfill's run, on real tables."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from lakehouse import locations
from lakehouse.bronze import checks as bronze_checks
from lakehouse.contracts import Catalog, load_catalog
from lakehouse.contracts.series import Series
from lakehouse.contracts.source import SourceContract
from lakehouse.gold.restatement import reconciliation as restatement_checks
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.orchestration.build import build_definitions
from lakehouse.orchestration.resources import LakeSpark
from lakehouse.silver import checks as silver_checks
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.sales_files import FIRST_SALES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark

BRONZE, SILVER, GOLD = (dg.AssetKey(path) for path in (["bronze", "sales"], ["silver", "sales"], ["gold", "revenue"]))
DAYS = [f"2024-11-0{day}" for day in (1, 2, 3, 4)]
RANGE = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")


class House:
    """A deployment in this process, with a lake of one arrival day that is published."""

    def __init__(self, lake: Lake, instance: dg.DagsterInstance) -> None:
        loaded = load_catalog(None)
        rules = loaded.sources["sales"].quality.model_dump() | {"nulls": {"customer_id": 0}, "row_count": {"min": 1}}
        self.contract = SourceContract.model_validate({**loaded.sources["sales"].model_dump(), "quality": rules})
        self.metric = loaded.metrics["revenue"]
        self.lake, self.instance = lake, instance
        definitions = build_definitions(lake.settings, Catalog({"sales": self.contract}, {"revenue": self.metric}))
        self.job = definitions.resolve_implicit_global_asset_job_def()

    def run(self, assets: set[dg.AssetKey], tags: dict[str, str], checks: set[dg.AssetCheckKey] | None = None) -> Any:
        job = self.job.get_subset(asset_selection=assets, asset_check_selection=checks)
        result = job.execute_in_process(instance=self.instance, tags=tags)
        assert result.success
        return result

    def check(self, key: dg.AssetKey, tags: dict[str, str], *names: str) -> list[dg.AssetCheckEvaluation]:
        """Execute checks as the page of an asset does, by default all."""
        check_names = (
            names
            or {
                BRONZE: bronze_checks.bronze_check_names(self.contract),
                SILVER: silver_checks.silver_check_names(self.contract),
                GOLD: restatement_checks.gold_check_names(Series(self.metric)),
            }[key]
        )
        return self.run(set(), tags, {dg.AssetCheckKey(key, name) for name in check_names}).get_asset_check_evaluations()

    def silver_version(self) -> int:
        return locations.silver(self.lake, "sales").version()


def span(first: str, last: str) -> dict[str, str]:
    return dict(zip(RANGE, (first, last)))


def by_partition(evaluations: list[dg.AssetCheckEvaluation]) -> dict[str | None, dict[str, bool]]:
    passed: dict[str | None, dict[str, bool]] = {}
    for one in evaluations:
        assert one.check_name not in passed.setdefault(one.partition, {}), "one evaluation a partition"
        passed[one.partition][one.check_name] = one.passed
    return passed


@pytest.fixture(name="house", scope="module")
def _house(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    lake = lake_in(tmp_path_factory.mktemp("house"))
    Path(str(lake.settings.landing), "arrival_date=2024-11-05.csv").write_text(FIRST_SALES)
    with dg.DagsterInstance.ephemeral() as instance:
        house = House(lake, instance)
        house.run({BRONZE}, {"dagster/partition": "2024-11-05"})
        house.run({SILVER}, span(DAYS[0], DAYS[-1]))
        house.run({GOLD}, span(DAYS[0], DAYS[-1]))
        assert Series(house.metric).rollups
        yield house


@pytest.fixture
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: LakeSpark) -> None:
        pytest.fail("somebody asked for a JVM")

    monkeypatch.setattr(LakeSpark, "spark_session", property(refuse))


@pytest.mark.merge
@pytest.mark.usefixtures("no_jvm")
@pytest.mark.parametrize("key", [BRONZE, SILVER], ids=["bronze", "silver"])
def test_on_one_partition_all_checks_are_about_it(house: House, key: dg.AssetKey) -> None:
    day = "2024-11-05" if key == BRONZE else "2024-11-02"
    evaluations = house.check(key, {"dagster/partition": day})
    [(partition, passed)] = by_partition(evaluations).items()
    assert partition == day
    assert all(passed.values())
    assert all(one.target_materialization_data is not None for one in evaluations)
    assert {"nulls", "row_count" if key == BRONZE else "equals_bronze"} <= passed.keys()
    numbers = {one.check_name: {name: value.value for name, value in one.metadata.items()} for one in evaluations}
    assert numbers["nulls"] == {"customer_id_nulls": 0, "customer_id_null_share": 0.0}
    if key == SILVER:
        assert numbers["equals_bronze"]["rows_in_silver"] == numbers["equals_bronze"]["rows_applied"] == 2


@pytest.mark.merge
@pytest.mark.usefixtures("no_jvm")
@pytest.mark.parametrize(("first", "last"), [(DAYS[0], DAYS[2]), (DAYS[1], DAYS[1])], ids=["three days", "one day"])
def test_on_a_range_each_partition_has_an_evaluation_of_its_own(house: House, first: str, last: str) -> None:
    told = by_partition(house.check(SILVER, span(first, last)))
    wanted = [day for day in DAYS if first <= day <= last]
    assert set(told) == {None, *wanted}, "and one for the run as a whole"
    for day in wanted:
        assert told[day] == dict.fromkeys(silver_checks.silver_check_names(house.contract), True)


@pytest.mark.usefixtures("no_jvm")
def test_the_published_number_is_held_against_silver_without_a_jvm(house: House) -> None:
    [one] = house.check(GOLD, {"dagster/partition": DAYS[1]}, "published_equals_silver")
    assert (one.partition, one.passed) == (DAYS[1], True)
    assert {name: value.value for name, value in one.metadata.items()} == {
        "published_rows": 2,
        "silver_rows": 2,
        "difference": 0,
        "explained": 0,
    }
    told = by_partition(house.check(GOLD, span(DAYS[0], DAYS[3]), "published_equals_silver"))
    assert set(told) == {None, *DAYS}


@pytest.mark.usefixtures("no_jvm")
def test_a_day_that_nothing_is_known_of_starts_no_jvm(house: House) -> None:
    told = by_partition(house.check(GOLD, {"dagster/partition": "2024-12-24"}))
    assert told == {"2024-12-24": dict.fromkeys(restatement_checks.gold_check_names(Series(house.metric)), True)}


def test_the_number_is_recomputed_for_the_others(house: House) -> None:
    told = by_partition(house.check(GOLD, {"dagster/partition": DAYS[1]}))
    assert told == {DAYS[1]: dict.fromkeys(restatement_checks.gold_check_names(Series(house.metric)), True)}


def test_the_runs_of_the_layers_report_the_same_checks(house: House) -> None:
    for key, names in (
        (SILVER, silver_checks.silver_check_names(house.contract)),
        (GOLD, restatement_checks.gold_check_names(Series(house.metric))),
    ):
        result = house.run({key}, span(DAYS[0], DAYS[1]))
        told = by_partition(result.get_asset_check_evaluations())
        assert all(told[day] == dict.fromkeys(names, True) for day in DAYS[:2])


@pytest.mark.merge
def test_the_rolling_backfill_makes_a_bad_day_good_and_leaves_the_others_alone(house: House) -> None:
    series = Series(house.metric)
    version = house.silver_version()
    house.run({SILVER}, span(DAYS[0], DAYS[3]))
    assert house.silver_version() == version, "days that come out equal are not written"
    assert not find_pending(house.lake, series).starts, "and queue nothing below"
    table = locations.silver(house.lake, "sales").open()
    assert table is not None
    table.delete("record_key = 's21'")
    told = by_partition(house.check(SILVER, span(DAYS[0], DAYS[3]), "equals_bronze"))
    assert [day for day in DAYS if not told[day]["equals_bronze"]] == [DAYS[1]]
    result = house.run({SILVER}, span(DAYS[0], DAYS[3]))
    assert by_partition(result.get_asset_check_evaluations())[DAYS[1]]["equals_bronze"]
    made = {event.partition for event in result.all_events if event.is_step_materialization}
    assert made == set(DAYS)
    assert find_pending(house.lake, series).starts <= {date(2024, 11, 2)}
