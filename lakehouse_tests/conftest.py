"""Fixtures of every tier: one Spark a run, and a lake of its own for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hypothesis
import pytest

from lakehouse.settings import Settings
from lakehouse_tests.support import shared_spark
from lakehouse_tests.support.lake_settings import lake_settings, without_retention
from lakehouse_tests.support.laws import is_proof

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytest_plugins = ["lakehouse_tests.support.run_folder", "lakehouse_tests.support.durations"]

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("lakehouse", deadline=None, derandomize=not is_proof())
hypothesis.settings.load_profile("lakehouse")


@pytest.fixture(scope="session")
def spark_remote(pytestconfig: pytest.Config) -> dict[str, str]:
    """The environment of a command that uses the run's Spark."""
    from lakehouse_tests.support import run_folder  # noqa: PLC0415 (pytest imports the plugin first)

    return {"LAKEHOUSE_SPARK_REMOTE": shared_spark.address(run_folder.of(pytestconfig))}


@pytest.fixture(scope="session")
def spark(spark_remote: dict[str, str]) -> Iterator[SparkSession]:
    """A session of the run's Spark, with the options that the product uses."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 (unit tests start without pyspark)

    from lakehouse.spark.session import spark_options  # noqa: PLC0415

    builder = SparkSession.builder
    for name, value in spark_options(
        Settings(spark_profile="large", spark_remote=spark_remote["LAKEHOUSE_SPARK_REMOTE"])
    ).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _runs_use_the_spark_of_their_test(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of Dagster and commands of a test that has a session use the same Spark."""
    if "spark" in request.fixturenames:
        for name, value in request.getfixturevalue("spark_remote").items():
            monkeypatch.setenv(name, value)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """An empty lake and landing folder, at a fixed time."""
    return lake_settings(tmp_path)


@pytest.fixture
def no_retention(settings: Settings) -> Settings:
    """An empty lake whose removed files may be deleted at once."""
    return without_retention(settings)
