"""Fixtures of every tier: one Spark session a process, and a lake of its own for each test."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import hypothesis
import pytest

from lakehouse.settings import Settings
from lakehouse_tests.support.hypothesis_settings import ALL_EXAMPLES
from lakehouse_tests.support.lake_settings import lake_settings, without_retention

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

# How long an example takes says how busy the machine is; and an example that nobody has seen fails for the one who tries it
# before a release, not for the one who has changed something else.
hypothesis.settings.register_profile("lakehouse", deadline=None, derandomize=not os.environ.get(ALL_EXAMPLES))
hypothesis.settings.load_profile("lakehouse")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session, with the options that the product uses."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 (unit tests start without pyspark)

    from lakehouse.spark.session import spark_options  # noqa: PLC0415

    builder = SparkSession.builder.appName("lakehouse tests")
    options = spark_options(Settings(spark_long_lived=True))
    # As in a session that ends soon: the workers share the cores, and what C2 compiles costs a third more than it saves.
    options["spark.driver.extraJavaOptions"] += " -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
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
