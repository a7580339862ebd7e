"""The options of every Spark session: JARs, Delta, UTC, and options that make small commits cheap.

Spark's options are set in no other module.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.logger import PySparkLogger

from lakehouse import object_store
from lakehouse.object_store import S3
from lakehouse.spark import class_archive, connect, private_options
from lakehouse.spark.jars import delta_jars, java, s3_jars

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
#: Options of a running session besides those that the settings pin; a Connect client sets all of them, too.
_SESSION = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96, the default, ends in 1677 and 2262 for other readers
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}
#: Short jobs run faster without code generation and without re-planning between stages: a day of late arrivals takes two thirds
#: of the time. A day of many millions of rows needs Spark's own settings.
_SMALL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_MANY_ROWS = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
#: Options of a driver started by this process.
_DRIVER = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.worker.reuse": "true",
}
#: Options of a Spark within the driver's JVM; executors on other machines would look for the driver on their own machine.
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.default.parallelism": "2",
}


def spark_options(lake: Lake) -> dict[str, str]:
    """The options of a session, for dagster-pyspark's resource and for Spark's own builder.

    :raises SetupProblem: if Java or a JAR is missing, or the Connect server named in the settings cannot be reached.
    """
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect.logging"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)  # they print the stack trace of an error that is raised anyway
    remote = connect.remote_address(lake)
    if remote is None:
        return private_options.hidden(local_options(lake))
    importlib.import_module("delta.connect.exceptions")  # a Connect client knows Delta's conflicts once this is imported
    return {"spark.remote": remote, **_of_any_session(lake), **lake.settings.spark_conf, **lake.settings.PINNED}


def local_options(lake: Lake) -> dict[str, str]:
    """The options of a local Spark, whether or not the settings name a Connect server.

    :raises SetupProblem: if Java or a JAR is missing.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise workers use the system's Python
    options = {"spark.master": lake.settings.spark_master, **_DELTA, **_of_any_session(lake), **_DRIVER}
    options["spark.driver.memory"] = lake.settings.spark_memory
    java_path, jars = java(), delta_jars(lake)
    if object_store.is_used(lake):
        options |= S3.of(lake).spark_options()
        jars += s3_jars(lake)
    options["spark.driver.extraClassPath"] = os.pathsep.join(str(jar) for jar in jars)
    if lake.settings.spark_master.startswith("local"):
        options |= _LOCAL
        options["spark.driver.extraJavaOptions"] = " ".join(_java_options(lake, java_path, jars))
    else:
        options["spark.jars"] = ",".join(str(jar) for jar in jars)
    return options | lake.settings.spark_conf | lake.settings.PINNED


def _of_any_session(lake: Lake) -> dict[str, str]:
    return _SESSION | (_SMALL if lake.settings.spark_profile == "small" else {})


def without_ansi(spark: SparkSession) -> AbstractContextManager[None]:
    """Within the context, an expression that fails for a row gives NULL for that row instead of failing the query."""
    return _with_option(spark, "spark.sql.ansi.enabled", "false")


def in_zone(spark: SparkSession, zone: str) -> AbstractContextManager[None]:
    """Within the context, contract expressions see the hours and days of ``zone``.

    Instants do not change. A query must be built and collected within the context, because Spark Connect reads the option when a
    query runs. The product's own computations do not depend on the option. Arrow's timestamp types carry the zone: see
    ``dataframes.in_utc``.
    """
    option = "spark.sql.session.timeZone"
    return nullcontext() if zone == "UTC" else _with_option(spark, option, zone)


@contextmanager
def _with_option(spark: SparkSession, option: str, value: str) -> Iterator[None]:
    before = spark.conf.get(option)
    spark.conf.set(option, value)
    try:
        yield
    finally:
        spark.conf.set(option, before)


@contextmanager
def sized_for(spark: SparkSession, lake: Lake, *, many: bool) -> Iterator[None]:
    """Within the context, plan queries for many rows if ``many``: generated code pays off then."""
    if lake.settings.spark_profile == "large" or not many:
        yield
        return
    for name in _SMALL:
        spark.conf.set(name, _MANY_ROWS[name])
    try:
        yield
    finally:
        for name, value in _SMALL.items():
            spark.conf.set(name, value)


def _java_options(lake: Lake, java_path: str, jars: list[Path]) -> list[str]:
    quiet = Path(__file__).with_name("log4j2.properties").as_uri()
    options = ["-Duser.timezone=UTC", f"-Dlog4j2.configurationFile={quiet}"]
    options += class_archive.java_options(java_path, jars, ends_soon=not lake.settings.spark_long_lived)
    if lake.settings.spark_profile == "small":
        options += ["-XX:+UseSerialGC"]
        if not lake.settings.spark_long_lived:
            # With C1 alone, a single run ends 3 s earlier, but a process of many runs is a fifth slower from the fourth run on.
            # C1's default code cache of 48 MB fills within minutes, which stops compilation for good.
            options += ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m"]
    return options
