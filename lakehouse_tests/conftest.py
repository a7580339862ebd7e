"""Fixtures of every tier: one Spark a run, and a lake of its own for each test."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import hypothesis
import pytest

from lakehouse.lake import Lake
from lakehouse.settings import Settings
from lakehouse_tests.support import shared_spark
from lakehouse_tests.support.cli import inherited
from lakehouse_tests.support.empty_lake import lake_in, without_retention
from lakehouse_tests.support.laws import is_proof

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytest_plugins = [
    f"lakehouse_tests.support.{name}" for name in ("run_folder", "durations", "dagster_migrations", "noted_commits")
]

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("lakehouse", deadline=None, derandomize=not is_proof())
hypothesis.settings.load_profile("lakehouse")


@pytest.fixture(scope="session")
def spark_remote(pytestconfig: pytest.Config) -> dict[str, str]:
    """The environment of a command that uses the run's Spark; empty if each process has its own."""
    from lakehouse_tests.support import run_folder  # noqa: PLC0415 (pytest imports the plugin first)

    return {} if shared_spark.is_own() else {"LAKEHOUSE_SPARK_REMOTE": shared_spark.address(run_folder.of(pytestconfig))}


@pytest.fixture(scope="session")
def spark(spark_remote: dict[str, str]) -> Iterator[SparkSession]:
    """A session of the run's Spark, or of this process's own, with the options that the product uses."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 (unit tests start without pyspark)

    from lakehouse.spark.session import spark_options  # noqa: PLC0415

    remote = spark_remote.get("LAKEHOUSE_SPARK_REMOTE")
    options = spark_options(Lake(Settings(spark_remote=remote))) if remote else shared_spark.driver_options()
    builder = SparkSession.builder
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _runs_use_the_spark_of_their_test(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of Dagster and commands of a test that has a session use the same Spark."""
    if request.node.get_closest_marker("own_spark") and not shared_spark.is_own():
        pytest.skip("a stream needs a Spark of its own process: LAKEHOUSE_TEST_SPARK=own pytest -m own_spark")
    if "spark" in request.fixturenames:
        for name, value in request.getfixturevalue("spark_remote").items():
            monkeypatch.setenv(name, value)
    else:
        # PySpark notes in the environment that this process is a client; a Spark of another process would take itself for one.
        for name in os.environ.keys() - inherited().keys():
            monkeypatch.delenv(name)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty lake and landing folder, at a fixed time."""
    return lake_in(tmp_path)


@pytest.fixture
def no_retention(lake: Lake) -> Lake:
    """An empty lake whose removed files may be deleted at once."""
    return without_retention(lake)
