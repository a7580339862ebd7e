"""Resources: the Spark session (dagster-pyspark) and a JVM-free reader per table (dagster-deltalake)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagster_deltalake import DeltaTableResource, LocalConfig
from dagster_pyspark import LazyPySparkResource
from dagster_pyspark.resources import spark_session_from_config
from pydantic import Field, PrivateAttr
from pyspark.sql import SparkSession

from lakehouse.settings import Settings
from lakehouse.spark.session import spark_options

if TYPE_CHECKING:
    from collections.abc import Iterable


class LakeSpark(LazyPySparkResource):  # type: ignore[misc]  # dagster-pyspark has no types
    """The session as the settings say, started by the first asset that asks for it.

    Java and the JARs are looked for only then, so that the UI opens on a machine that has neither.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)
    long_lived: bool = False
    _session: Any = PrivateAttr(default=None)

    @property
    def spark_session(self) -> SparkSession:
        """:raises SetupProblem: when Java or a JAR is missing."""
        if self._session is None:
            # Runs of one process share its session; options take effect when that is started.
            running = SparkSession.getActiveSession()
            self._session = running or spark_session_from_config(self._options())
        return self._session

    def _options(self) -> dict[str, Any]:
        settings = Settings()
        if self.long_lived:
            settings = settings.model_copy(update={"spark_long_lived": True})
        return spark_options(settings) | self.spark_config

    def session(self) -> SparkSession:
        """The same as a function, for code that may not need it."""
        return self.spark_session


def readers(settings: Settings, tables: Iterable[tuple[str, str]]) -> dict[str, DeltaTableResource]:
    """A reader per table, named ``<layer>_<table>``, for assets of your own; local roots only."""
    if "://" in settings.root:
        return {}
    return {
        f"{layer}_{name}": DeltaTableResource(url=settings.table(layer, name), storage_options=LocalConfig())
        for layer, name in tables
    }
