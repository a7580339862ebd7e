"""Checks detect the defects that they are written for."""

from __future__ import annotations

import shutil
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakehouse import locations
from lakehouse.bronze import checks as bronze_checks
from lakehouse.contracts import load_catalog
from lakehouse.silver import checks as silver_checks
from lakehouse_tests.support.lake import SampleLake
from lakehouse_tests.support.sales_files import FIRST_SALES, LATE_SALES

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake
    from lakehouse.quality.check_rules import CheckResult

pytestmark = pytest.mark.spark

FIFTH, SIXTH = date(2024, 11, 5), date(2024, 11, 6)


@pytest.fixture(name="sample")
def _lake(lake: Lake, spark: SparkSession) -> SampleLake:
    return SampleLake(lake, load_catalog(None).sources["sales"], spark)


@pytest.mark.merge
def test_a_key_on_two_days_and_a_lost_row_fail_their_checks(spark: SparkSession, lake: Lake, sample: SampleLake) -> None:
    contract = sample.contract
    for arrival_day, text in ((FIFTH, FIRST_SALES), (SIXTH, LATE_SALES)):
        sample.deliver(arrival_day, text.encode())
        sample.ingest(arrival_day)
    days = sample.pending()
    sample.update()
    arrival = [SIXTH]
    assert all(outcome.passed for outcome in silver_checks.check_silver(lake, contract, days))
    assert all(outcome.passed for outcome in bronze_checks.check_bronze(lake, contract, arrival))

    table = locations.silver(lake, "sales")
    copy = (
        spark.read.format("delta")
        .load(table.address)
        .where("record_key = 's41'")
        .selectExpr("* except (event_date)", "DATE'2024-11-04' event_date")
    )
    copy.write.format("delta").mode("append").save(table.address)
    bronze = f"delta.`{lake.table('bronze', 'sales')}`"
    spark.sql(f"ALTER TABLE {bronze} SET TBLPROPERTIES ('delta.appendOnly' = 'false')")  # as somebody may who means to
    spark.sql(f"DELETE FROM {bronze} WHERE record_key = 's13'")

    def unique(days: Collection[date], changed: pa.Array | None = None) -> dict[int, bool]:
        outcomes = silver_checks.check_silver(lake, contract, days, changed)
        return {outcome.day.day: outcome.passed for outcome in outcomes if outcome.check == "unique_key"}

    assert unique(days) == {1: True, 2: True, 3: False, 4: False}
    third = [day for day in days if day.day == 3]
    assert unique(third, pa.array(["s41", "s13"])) == {3: False}
    assert unique(third, pa.array(["s13"])) == {3: True}, "a key that did not change is looked for on its day only"
    in_bronze = bronze_checks.check_bronze(lake, contract, arrival)
    accounted = [outcome for outcome in in_bronze if outcome.check == "rows_accounted"]
    assert [outcome.passed for outcome in accounted] == [False]
    assert accounted[0].numbers["rows_read"] == 2
    assert accounted[0].numbers["rows_in_bronze"] == 1


@pytest.mark.merge
def test_a_row_that_silver_lost_is_missed_by_the_account_of_its_arrival_day(
    spark: SparkSession, lake: Lake, sample: SampleLake
) -> None:
    sample.deliver(FIFTH, FIRST_SALES.encode())
    sample.ingest(FIFTH)

    def disposed() -> CheckResult:
        outcomes = bronze_checks.check_bronze(lake, sample.contract, [FIFTH])
        (outcome,) = [outcome for outcome in outcomes if outcome.check == "every_row_disposed"]
        return outcome

    assert disposed().passed
    assert disposed().numbers["waiting_for_silver"] == 8
    sample.update()
    assert disposed().passed
    assert disposed().numbers["waiting_for_silver"] == 0
    table = locations.silver(lake, "sales")
    spark.sql(f"UPDATE delta.`{table}` SET line_number = 99 WHERE record_key = 's21'")
    assert disposed().explanation == "silver does not hold the applied rows: materialize silver/sales for 2024-11-02"
    spark.sql(f"UPDATE delta.`{table}` SET line_number = 4 WHERE record_key = 's21'")
    assert disposed().passed
    spark.sql(f"DELETE FROM delta.`{table}` WHERE record_key = 's31'")
    assert not disposed().passed
    assert disposed().explanation == "silver does not hold the applied rows: materialize silver/sales for 2024-11-03"

    shutil.rmtree(locations.key_log(lake, "sales").address)
    assert not disposed().passed
    assert "is in bronze/sales and not in the key log: materialize bronze/sales for 2024-11-05" in str(disposed().explanation)


@pytest.mark.merge
def test_a_row_that_silver_should_no_longer_hold_is_noticed(spark: SparkSession, lake: Lake, sample: SampleLake) -> None:
    withdrawn = FIRST_SALES.splitlines()[0] + "\ns11,north,2024-11-01T10:01:00Z,10.00,1,2024-11-06T06:00:00Z,delete,0,\n"
    for arrival_day, text in ((FIFTH, FIRST_SALES), (SIXTH, withdrawn)):
        sample.deliver(arrival_day, text.encode())
        sample.ingest(arrival_day)
        sample.update()

    def passed() -> list[bool]:
        outcomes = bronze_checks.check_bronze(lake, sample.contract, [FIFTH, SIXTH])
        return [one.passed for one in outcomes if one.check == "every_row_disposed"]

    assert passed() == [True, True]
    table = locations.silver(lake, "sales")
    version = table.open().version()
    ghost = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(table.address)
    ghost = ghost.where("record_key = 's11' and _change_type = 'insert'").drop(
        "_change_type", "_commit_version", "_commit_timestamp"
    )
    ghost.write.format("delta").mode("append").save(table.address)
    assert table.open().version() == version + 1
    assert passed() == [False, True]
