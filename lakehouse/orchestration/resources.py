"""Resources of assets, checks and sensors: Spark through dagster-pyspark, tables to read through dagster-deltalake.

Assets write with Spark through :class:`LakeSpark`. Checks and sensors read with delta-rs, through the tables of
:class:`LakeTables`. Computations and checks belong to the layers.
"""

from __future__ import annotations

from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from threading import Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster_deltalake import DeltaTableResource, LocalConfig
from dagster_pyspark import LazyPySparkResource
from dagster_pyspark.resources import spark_session_from_config
from deltalake.exceptions import TableNotFoundError
from pydantic import Field, PrivateAttr
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakehouse.lake import Lake, table_io
from lakehouse.lake.lake import Quiet
from lakehouse.lake.table_cache import TableCache
from lakehouse.orchestration import plan_runs
from lakehouse.spark import session as spark_sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from deltalake import DeltaTable

#: Bytes of files. Full compilation takes seconds, which a first load of this size regains: 100 MB take 73 s instead of 109 s.
_LARGE = 2**26
_MANY_TABLES = 200
#: In an object store nothing tells that a table was restored from a copy: tables are opened again after so many seconds.
_REOPENED_SECONDS = 1800.0
#: In an object store, sensors look at tables that only runs write to when a run has ended, and after so many seconds.
_QUIET_SECONDS = 300.0
_OF_PEOPLE = ("_decisions", "_admissions", "_redactions")


#: The session that this process has begun to start, if the first use has not taken it over yet.
_begun: list[Future[SparkSession]] = []


class LakeSpark(LazyPySparkResource):  # type: ignore[misc]  # dagster-pyspark has no types
    """dagster-pyspark's lazy session, with the options of the deployment's settings.

    Java and the JARs are needed only when the first asset uses the session, so the UI opens on a machine without them.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)
    long_lived: bool = False
    _session: Any = PrivateAttr(default=None)
    _is_large: bool = PrivateAttr(default=False)

    @property
    def spark_session(self) -> SparkSession:
        """:raises SetupProblem: if Java or a JAR is missing."""
        if self._session is None:
            # Runs in one process share its session; options take effect when the session starts.
            begun, _begun[:] = [*_begun], []
            wait(begun)
            running = SparkSession.getActiveSession()
            if running is None and begun and begun[0].exception() is None:  # an error comes again
                running = spark_sessions.active_here(begun[0].result())
            self._session = self._started() if running is None else running
        return self._session

    def begin(self) -> None:
        """Begin to start the session beside other work that does not need it, unless there is one; its first use waits for it.

        On a cluster, a session that may not be needed would hold its executors.
        """
        if _begun or not Lake.open().settings.has_spark_here or SparkContext._active_spark_context is not None:  # noqa: SLF001
            return
        spark_sessions.hush_loggers()
        future: Future[SparkSession] = Future()

        def start() -> None:
            try:
                future.set_result(self._started())
            except BaseException as problem:  # noqa: BLE001 (the first use meets it, too)
                future.set_exception(problem)

        _begun.append(future)
        Thread(target=start, name="spark-start", daemon=True).start()

    def _started(self) -> SparkSession:
        options = self._options()
        with spark_sessions.without_usual_lines():
            session: SparkSession = spark_session_from_config(options)
        return session

    def _options(self) -> dict[str, Any]:
        lake = Lake.open()
        if self.long_lived or self._is_large:
            lake = lake.with_settings(spark_long_lived=True)
        return spark_sessions.spark_options(lake) | self.spark_config | lake.settings.PINNED

    def expect(self, size: int) -> None:
        """Announce how many bytes of landing files will be read.

        Large inputs enable full JIT compilation; no effect once the session runs.
        """
        self._is_large |= size > _LARGE

    def session(self) -> SparkSession:
        """Return the session; as a function, for code that may not need it."""
        return self.spark_session


@dataclass
class Engine:
    """What does the work of a run: this process, and Spark as soon as rows or numbers need it.

    :param start: starts Spark.
    """

    start: Callable[[], SparkSession]
    name: str = "this process"

    def session(self) -> SparkSession:
        """The session of Spark, from now on the engine of the run."""
        self.name = "Spark"
        return self.start()


class LakeTables(dg.ConfigurableResource["LakeTables"]):
    """The tables that a check or a sensor's tick reads, each opened once through dagster-deltalake's resource."""

    def reading(self, lake: Lake) -> Lake:
        """The lake, which reads tables through this resource and keeps them open while it is used."""
        return lake.cached(TableCache(_opens(lake)))


class KeptTables:
    """Tables that stay open from one tick of a sensor to its next one, in whichever thread that is."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._lock = Lock()
        self._open()

    def _open(self) -> None:
        self._quiet = Quiet(_is_of_runs, _QUIET_SECONDS) if _is_remote(self._lake) else None
        self._cache = TableCache(_opens_listed(self._lake), is_of_one_thread=False, quiet=self._quiet)
        self._opened = monotonic()

    @contextmanager
    def reading(self, tables: LakeTables, instance: dg.DagsterInstance) -> Iterator[Lake]:
        """The lake with these tables; with others if another tick has not ended: it hangs, or a person tries the sensor."""
        if not self._lock.acquire(blocking=False):
            yield tables.reading(self._lake)
            return
        try:
            if self._quiet is not None and monotonic() - self._opened > _REOPENED_SECONDS:
                self._open()
            if self._quiet is not None:
                self._quiet.is_at(plan_runs.between_runs(instance))
            yield self._lake.cached(self._cache)
            self._cache.forget_answers()
        finally:
            self._lock.release()


def _is_of_runs(address: str) -> bool:
    """Whether only runs and commands that publish write to a table; people also write to tables of decisions and in ``ops``."""
    folder, _, name = address.rpartition("/")
    return folder.endswith(("/bronze", "/silver", "/gold")) and not name.endswith(_OF_PEOPLE)


def _opens(lake: Lake) -> Callable[[str], DeltaTable | None] | None:
    """How tables are opened: through dagster-deltalake; in an object store with the deployment's ``storage_options`` instead.

    dagster-deltalake accepts a fixed set of options, delta-rs accepts more.
    """
    return None if _is_remote(lake) else _open


def _opens_listed(lake: Lake) -> Callable[[str], DeltaTable | None]:
    """The same for sensors; in an object store they open only tables that are listed."""
    return partial(table_io.open_listed, options=lake.storage_options) if _is_remote(lake) else _open


def readers(lake: Lake, tables: Iterable[tuple[str, str]]) -> dict[str, DeltaTableResource]:
    """A resource per table, named ``<layer>_<table>``, for user-defined assets; local roots only.

    Dagster copies all resources for each asset, which takes minutes with thousands of both. So a deployment with many tables has
    none, and its own assets use the resource ``tables``.
    """
    tables = list(tables)
    if _is_remote(lake) or len(tables) > _MANY_TABLES:
        return {}
    return {f"{layer}_{name}": _resource(lake.table(layer, name).address) for layer, name in tables}


def _is_remote(lake: Lake) -> bool:
    return "://" in lake.root


@cache
def _resource(address: str) -> DeltaTableResource:
    """The resource of a local table; cached, because validating its configuration takes longer than opening a table."""
    return DeltaTableResource(url=address, storage_options=LocalConfig())


def _open(address: str) -> DeltaTable | None:
    if not table_io.may_exist(address):
        return None
    try:
        return _resource("").model_copy(update={"url": address}).load()  # 20 µs; a new resource takes six milliseconds
    except TableNotFoundError:
        return None
