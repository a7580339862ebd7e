"""The options of every Spark session: JARs, Delta, UTC, small commits that are cheap, and starts that are short and quiet.

Spark's options are set in no other module.

A start maps an archive of the Java classes that Spark loads into memory, instead of reading hundreds of JARs. Java writes the
archive at the end of one process and uses it in later processes (class-data sharing, JEP 350). An archive is bound to the Java
and the JARs that it was written with: each combination has a separate archive, and Java ignores an archive that does not fit. The
archive is optional; if its folder is not writable, starts are only slower. While a session starts, lines of the JVM's error
stream that are irrelevant to users are removed.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import importlib
import logging
import os
import re
import struct
import sys
import termios
import threading
import time
import uuid
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from pyspark.logger import PySparkLogger

from lakehouse import object_store
from lakehouse.object_store import S3
from lakehouse.spark import connect
from lakehouse.spark.jars import delta_jars, java, s3_jars

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
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
    hush_loggers()
    remote = connect.remote_address(lake)
    if remote is None:
        return connect.hide_options(local_options(lake))
    importlib.import_module("delta.connect.exceptions")  # a Connect client knows Delta's conflicts once this is imported
    return {"spark.remote": remote, **_of_any_session(lake), **lake.settings.spark_conf, **lake.settings.PINNED}


@cache
def hush_loggers() -> None:
    """Hush the loggers of PySpark that print the stack trace of an error which is raised anyway.

    While PySpark makes one, each new logger of the process is of its class: call this before other threads make some.
    """
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect.logging"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def local_options(lake: Lake) -> dict[str, str]:
    """The options of a local Spark, whether or not the settings name a Connect server.

    :raises SetupProblem: if Java or a JAR is missing.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise workers use the system's Python
    options = {"spark.master": lake.settings.spark_master, **_DELTA, **_of_any_session(lake), **_DRIVER}
    options["spark.driver.memory"] = lake.settings.spark_memory
    java_path, jars = java(), delta_jars(lake)
    if object_store.is_used(lake.settings):
        options |= S3.of(lake.storage_options).spark_options()
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
    options += archive_options(java_path, jars, ends_soon=not lake.settings.spark_long_lived)
    if lake.settings.spark_profile == "small":
        options += ["-XX:+UseSerialGC"]
        if not lake.settings.spark_long_lived:
            # With C1 alone, a single run ends 3 s earlier, but a process of many runs is a fifth slower from the fourth run on.
            # C1's default code cache of 48 MB fills within minutes, which stops compilation for good.
            options += ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m"]
    return options


#: After this time, another process tries to write an archive that is still missing.
_CLAIM = timedelta(hours=1)
#: Archives that no start has used for this long are deleted.
_UNUSED = timedelta(days=30)
_SILENT = "-Xlog:cds*=off"


def archive_options(java: str, jars: Sequence[Path], *, ends_soon: bool) -> list[str]:
    """The Java options for using the archive, or for writing it at the end of the process if it does not exist.

    :param java: the path of the Java executable.
    :param jars: the JARs on the class path in addition to Spark's own.
    :param ends_soon: whether the process ends soon enough to write the archive.
    """
    folder = platformdirs.user_cache_path("lakehouse", appauthor=False) / "classes"
    archive = folder / f"{_key(java, jars)}.jsa"
    if any(character.isspace() or character in "\"'" for character in str(archive)):
        return []  # Spark splits its option at spaces
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if archive.is_file() or _adopted(archive):
            os.utime(archive)
            return [f"-XX:SharedArchiveFile={archive}", _SILENT]
        if ends_soon and _claimed(archive.with_suffix(".claim")):
            return [f"-XX:ArchiveClassesAtExit={archive.with_suffix(f'.{uuid.uuid4().hex}.new')}", _SILENT]
    except OSError:
        return []
    return []


def _key(java: str, jars: Sequence[Path]) -> str:
    """The file name of an archive: a hash of the Java and the JARs to which it is bound."""
    spark = find_spec("pyspark")
    parts = [Path(java).resolve(), *jars, Path(spark.origin).parent / "jars" if spark and spark.origin else ""]
    stamped = [f"{part} {part.stat().st_mtime_ns}" for part in parts if isinstance(part, Path)]
    return hashlib.sha256("\n".join(stamped).encode()).hexdigest()[:16]


def _adopted(archive: Path) -> bool:
    """Rename a complete archive to its final name. Several processes may have written one each, and may still be writing."""
    for file in archive.parent.glob(f"{archive.stem}.*.new"):
        with file.open("rb") as content:
            is_complete = any(content.read(4))  # Java writes the first bytes last
        if is_complete:
            file.replace(archive)
            _tidy(archive)
            return True
    return False


def _claimed(claim: Path) -> bool:
    """Whether this process has claimed the writing of the archive."""
    with suppress(FileNotFoundError):
        if time.time() - claim.stat().st_mtime < _CLAIM.total_seconds():
            return False
        claim.unlink()
    with suppress(FileExistsError):
        claim.touch(exist_ok=False)
        return True
    return False


def _tidy(archive: Path) -> None:
    """Delete unused archives, and the remains of writing this one."""
    oldest = time.time() - _UNUSED.total_seconds()
    for file in archive.parent.iterdir():
        with suppress(FileNotFoundError):
            if file.stat().st_mtime < oldest or (file.stem.startswith(archive.stem) and file.suffix == ".claim"):
                file.unlink()


_log = logging.getLogger(__name__)
_STDERR, _REST_SECONDS = 2, 2.0
#: Lines that Spark writes at every start.
_USUAL = re.compile(rb"WARNING: Using incubator modules: |Using Spark's default log4j profile: |Setting default log level to ")


@contextmanager
def without_usual_lines() -> Iterator[None]:
    """Suppress the usual start-up lines of a JVM started within the context; all other lines go to the error stream.

    With this module's logger at DEBUG, nothing is suppressed.
    """
    if _log.isEnabledFor(logging.DEBUG):
        yield
        return
    before = os.dup(_STDERR)
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR)
    os.close(writing)
    threading.Thread(target=_pass_on, args=(reading, before), name="jvm-output", daemon=True).start()
    atexit.register(_wait_for_rest, reading)
    try:
        yield
    finally:
        os.dup2(before, _STDERR)


def active_here(spark: SparkSession) -> SparkSession:
    """A session that another thread has started, as the active one of this thread."""
    spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)  # noqa: SLF001
    return spark


def _wait_for_rest(reading: int) -> None:
    """Wait until what this process has written is passed on, such as the message of an error while the JVM starts."""
    end = time.monotonic() + _REST_SECONDS
    with suppress(OSError):
        while struct.unpack("i", fcntl.ioctl(reading, termios.FIONREAD, struct.pack("i", 0)))[0] and time.monotonic() < end:
            time.sleep(0.01)
    time.sleep(0.02)  # the last line is on its way


def _pass_on(reading: int, writing: int) -> None:
    """Pass lines on until the last process that writes to the pipe has ended."""
    with os.fdopen(reading, "rb") as lines, os.fdopen(writing, "wb", buffering=0) as output:
        for line in lines:
            if not _USUAL.match(line):
                output.write(line)
