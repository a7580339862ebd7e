"""Resources on real tables: what checks and sensors read, they read through dagster-deltalake's resource."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from dagster_deltalake import DeltaTableResource
from dagster_pyspark import LazyPySparkResource

from lakehouse import locations
from lakehouse.contracts import load_catalog
from lakehouse.orchestration import resources
from lakehouse.orchestration.build import build_definitions
from lakehouse.orchestration.plan_runs import between_runs
from lakehouse.orchestration.resources import LakeSpark, LakeTables, readers
from lakehouse_tests.support.arrivals import append_to_bronze, at, bronze_row
from lakehouse_tests.support.sensor_ticks import SensorTicks

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.lake import Lake

CATALOG = load_catalog(None)
SALES = CATALOG.sources["sales"]
ARRIVED = date(2024, 11, 5)


@pytest.fixture(name="loaded")
def _loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of the tables that dagster-deltalake's resource has loaded since."""
    addresses: list[str] = []
    load = DeltaTableResource.load

    def recording(resource: DeltaTableResource) -> Any:
        addresses.append(resource.url)
        return load(resource)

    monkeypatch.setattr(DeltaTableResource, "load", recording)
    return addresses


def deliver(lake: Lake, rows: int) -> None:
    append_to_bronze(lake, SALES, [bronze_row(at(ARRIVED, 6), timedelta(hours=1)) for _ in range(rows)])


def test_a_check_reads_its_tables_through_the_resource(deployment: Lake, instance: dg.DagsterInstance, loaded: list[str]) -> None:
    deliver(deployment, 3)
    job = build_definitions(deployment.settings, CATALOG).resolve_implicit_global_asset_job_def()
    selected = {dg.AssetCheckKey(dg.AssetKey(["bronze", "sales"]), "rows_accounted")}
    subset = job.get_subset(asset_selection=set(), asset_check_selection=selected)
    (evaluation,) = subset.execute_in_process(
        instance=instance, tags={"dagster/partition": f"{ARRIVED}"}
    ).get_asset_check_evaluations()
    assert evaluation.metadata["rows_in_bronze"].value == 3
    assert not evaluation.passed, "no ingestion names these rows"
    assert loaded.count(locations.bronze(deployment, "sales").address) == 1, "opened once, kept open for the other reads"


def test_a_sensor_reads_its_tables_through_the_resource(
    deployment: Lake, instance: dg.DagsterInstance, loaded: list[str]
) -> None:
    deliver(deployment, 1)
    sensor = SensorTicks(deployment, CATALOG, "alerts", instance)
    assert "open" in sensor.skip_message()
    assert loaded.count(locations.bronze(deployment, "sales").address) == 1
    assert sensor.skip_message() == "nothing has changed since the last look"
    assert loaded.count(locations.bronze(deployment, "sales").address) == 1, "kept open from tick to tick"
    deliver(deployment, 1)
    assert "open" in sensor.skip_message(), "what is committed in between is seen"


def test_reads_see_each_new_commit_and_no_table_where_there_is_none(deployment: Lake) -> None:
    LakeTables().reading(deployment)
    table = locations.bronze(deployment, "sales")
    assert table.read(["arrival_date"], None) is None
    for rows in (1, 2):
        deliver(deployment, 1)
        found = table.read(["arrival_date"], None)
        assert found is not None
        assert len(found) == rows


def test_a_custom_asset_finds_each_table_under_its_name(deployment: Lake) -> None:
    deliver(deployment, 2)
    resources = readers(deployment, [("bronze", "sales")])
    assert len(resources["bronze_sales"].load().to_pyarrow_table()) == 2
    assert {"bronze_sales", "silver_sales", "gold_revenue"} <= set(
        build_definitions(deployment.settings, CATALOG).resources or {}
    )
    assert readers(deployment.with_settings(root="s3://bucket/lake"), [("bronze", "sales")]) == {}


def test_spark_is_dagster_pysparks_lazy_resource(deployment: Lake) -> None:
    spark = (build_definitions(deployment.settings, CATALOG).resources or {})["spark"]
    assert isinstance(spark, LakeSpark)
    assert isinstance(spark, LazyPySparkResource)


def test_a_session_for_large_files_is_compiled_fully() -> None:
    compiled = "spark.driver.extraJavaOptions"
    small, large = LakeSpark(), LakeSpark()
    small.expect(2**20)
    large.expect(2**30)
    large.expect(1)
    assert "TieredStopAtLevel=1" in small._options()[compiled]
    assert "TieredStopAtLevel" not in large._options()[compiled]


_BEGUN = """
from lakehouse.orchestration.resources import LakeSpark
from lakehouse.spark.jars import SetupProblem
LakeSpark().begin()
LakeSpark().begin()
try:
    first = LakeSpark().session()
    print(first.range(3).count(), LakeSpark().session().sparkContext is first.sparkContext)
    LakeSpark().begin()
except SetupProblem as problem:
    print("problem")
"""


@pytest.mark.merge
def test_a_session_that_was_begun_is_that_of_the_first_use() -> None:
    assert _printed_by(_BEGUN, {}) == "3 True"


def test_the_first_use_says_what_a_session_that_was_begun_lacks(tmp_path: Path) -> None:
    assert _printed_by(_BEGUN, {"JAVA_HOME": f"{tmp_path}", "PATH": f"{tmp_path}"}) == "problem"


def _printed_by(program: str, settings: dict[str, str]) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "LAKEHOUSE_SPARK_REMOTE"} | settings
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("name", "is_of_runs"),
    [
        ("gold/revenue", True),
        ("silver/sales", True),
        ("bronze/sales", True),
        ("bronze/sales_decisions", False),
        ("bronze/sales_redactions", False),
        ("ops/restatements", False),
    ],
)
def test_people_write_to_tables_of_decisions_and_of_operations(name: str, *, is_of_runs: bool) -> None:
    assert resources._is_of_runs(f"s3://bucket/lake/{name}") == is_of_runs


def test_there_is_quiet_between_runs(instance: dg.DagsterInstance) -> None:
    before = between_runs(instance)
    assert before is not None
    run = instance.create_run_for_job(dg.job(name="empty")(lambda: None))
    assert between_runs(instance) is None
    instance.report_run_canceled(run)
    assert between_runs(instance) not in {before, None}


_LOGGERS = """
import logging, threading
from lakehouse.orchestration.resources import LakeSpark
classes = set()
change = logging.setLoggerClass
def noted(kind):
    if threading.current_thread() is not threading.main_thread():
        classes.add(kind.__name__)
    change(kind)
logging.setLoggerClass = noted
LakeSpark().begin()
LakeSpark().session()
print(sorted(classes))
"""


@pytest.mark.merge
def test_a_session_that_starts_beside_other_work_changes_no_class_of_its_loggers() -> None:
    assert _printed_by(_LOGGERS, {}) == "[]"
