"""Fixtures of every tier: one Spark a run, and a lake of its own for each test."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from lakehouse.settings import Settings
from lakehouse_tests.support import shared_spark
from lakehouse_tests.support.lake_settings import lake_settings, without_retention
from lakehouse_tests.support.laws import is_proof

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_RUN = pytest.StashKey[str]()
pytest_plugins = ["lakehouse_tests.support.durations"]

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("lakehouse", deadline=None, derandomize=not is_proof())
hypothesis.settings.load_profile("lakehouse")


def pytest_configure(config: pytest.Config) -> None:
    """One folder for the processes of the run."""
    if not hasattr(config, "workerinput"):
        config.stash[_RUN] = tempfile.mkdtemp(prefix="lakehouse-tests-")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker the run's folder."""
    node.workerinput["run_folder"] = node.config.stash[_RUN]


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what the processes of the run have shared."""
    if not hasattr(config, "workerinput"):
        shared_spark.stop(Path(config.stash[_RUN]))
        shutil.rmtree(config.stash[_RUN], ignore_errors=True)


@pytest.fixture(scope="session")
def run_folder(request: pytest.FixtureRequest) -> Path:
    """A folder that all processes of the run share."""
    config = request.config
    return Path(config.workerinput["run_folder"] if hasattr(config, "workerinput") else config.stash[_RUN])


@pytest.fixture(scope="session")
def spark(run_folder: Path) -> Iterator[SparkSession]:
    """A session of the run's Spark, with the options that the product uses."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 (unit tests start without pyspark)

    from lakehouse.spark.session import spark_options  # noqa: PLC0415

    builder = SparkSession.builder
    for name, value in spark_options(Settings(spark_profile="large", spark_remote=shared_spark.address(run_folder))).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
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
