"""Fixtures of every tier: one Spark a run, and a lake of its own for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hypothesis
import pytest

from lakehouse.settings import Settings
from lakehouse_tests.support import run_folder, shared_spark
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
def spark(pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    """A session of the run's Spark, with the options that the product uses."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 (unit tests start without pyspark)

    from lakehouse.spark.session import spark_options  # noqa: PLC0415

    remote = shared_spark.address(run_folder.of(pytestconfig))
    builder = SparkSession.builder
    for name, value in spark_options(Settings(spark_profile="large", spark_remote=remote)).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LAKEHOUSE_SPARK_REMOTE", remote)  # for runs of Dagster in this process, and for commands
        yield session
    session.stop()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """An empty lake and landing folder, at a fixed time."""
    return lake_settings(tmp_path)


@pytest.fixture
def no_retention(settings: Settings) -> Settings:
    """An empty lake whose removed files may be deleted at once."""
    return without_retention(settings)
