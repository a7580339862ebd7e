"""The one place that says how Spark is started: JARs, Delta, UTC, and what keeps small commits cheap."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.logger import PySparkLogger

from lakehouse.spark import connect_server
from lakehouse.spark.jars import delta_jars, java

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakehouse.settings import Settings

_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
#: Options of a running session; a Connect client sets them too.
_SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96, the default, ends in 1677 and 2262 for other readers
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    "spark.databricks.delta.properties.defaults.checkpointInterval": "100",
}
#: What makes short jobs shorter: no generated code to compile for a few rows, no re-planning between stages. A day of
#: late arrivals takes two thirds of the time; a day of many millions of rows wants Spark's own settings.
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
#: Options of a local JVM.
_LOCAL = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.default.parallelism": "2",
    "spark.python.worker.reuse": "true",
}


def spark_options(settings: Settings) -> dict[str, str]:
    """All options of the session, as dagster-pyspark's resource and Spark's own builder take them.

    :raises SetupProblem: when Java or a JAR is missing, or a Connect server that settings name cannot be reached.
    """
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)  # they print the stack of what is raised anyway
    remote = connect_server.remote_of(settings)
    if remote is None:
        return local_options(settings)
    return {"spark.remote": remote, **_of_any_session(settings), **settings.spark_conf}


def local_options(settings: Settings) -> dict[str, str]:
    """All options of a Spark of one's own, whatever settings say of a Connect server.

    :raises SetupProblem: when Java or a JAR is missing.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers take the system's Python
    options = {"spark.master": settings.spark_master, **_DELTA, **_of_any_session(settings), **_LOCAL}
    options["spark.driver.memory"] = settings.spark_memory
    java()
    jars = delta_jars(settings)
    options["spark.driver.extraClassPath"] = os.pathsep.join(str(jar) for jar in jars)
    if settings.spark_master.startswith("local"):
        options["spark.driver.extraJavaOptions"] = " ".join(_java_options(settings))
    else:
        options["spark.jars"] = ",".join(str(jar) for jar in jars)
    return options | settings.spark_conf


def _of_any_session(settings: Settings) -> dict[str, str]:
    return _SESSION | (_SMALL if settings.spark_profile == "small" else {})


@contextmanager
def without_ansi(spark: SparkSession) -> Iterator[None]:
    """Inside, an expression that fails for one row is NULL there, and does not end the query."""
    option = "spark.sql.ansi.enabled"
    before = spark.conf.get(option)
    spark.conf.set(option, "false")
    try:
        yield
    finally:
        spark.conf.set(option, before)


@contextmanager
def sized_for(spark: SparkSession, settings: Settings, *, many: bool) -> Iterator[None]:
    """Plan what happens inside for many rows, where there are many: then generating code pays."""
    if settings.spark_profile == "large" or not many:
        yield
        return
    for name in _SMALL:
        spark.conf.set(name, _MANY_ROWS[name])
    try:
        yield
    finally:
        for name, value in _SMALL.items():
            spark.conf.set(name, value)


def _java_options(settings: Settings) -> list[str]:
    quiet = Path(__file__).with_name("log4j2.properties").as_uri()
    options = ["-Duser.timezone=UTC", f"-Dlog4j2.configurationFile={quiet}"]
    if settings.spark_profile == "small":
        options += ["-XX:+UseSerialGC"]
        if not settings.spark_long_lived:
            # C1 alone has a run of its own done 3 s earlier, but costs a process of many runs a fifth from the fourth on. Its
            # default code cache of 48 MB fills within minutes and stops compilation for good.
            options += ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m"]
    return options
