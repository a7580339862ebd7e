"""Where data lives, which Spark runs it, and which clock it believes.

Every setting is an environment variable with the prefix ``LAKEHOUSE_`` (or a line of a ``.env`` file in the working
folder). What a *dataset* needs belongs into its contract, not here.
"""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Deployment settings; see the README for the list with examples."""

    model_config = SettingsConfigDict(env_prefix="LAKEHOUSE_", env_file=".env", extra="ignore")

    root: str = Field("lakehouse_data", description="Folder or object-store URI that holds the tables.")
    landing: str | None = Field(None, description="Folder with the sources' files; default: <root>/landing/<dataset>.")
    contracts: Path = Field(Path("contracts"), description="Folder with contracts of your own (it need not exist).")
    bundled_contracts: bool = Field(True, description="Whether the package's example contracts are loaded too.")
    now: datetime | None = Field(None, description="A fixed clock for replays and tests, with a zone; default: the real one.")

    sensor_seconds: int = Field(15, description="How often the sensors look.")
    reconcile_seconds: float = Field(600, description="How long announced days may wait for silver before they are again.")
    settle_seconds: float = Field(5, description="How long a landing file must have been left alone.")

    close_cron: str = Field("20 0,12 * * *", description="When numbers that are due become preliminary and final (UTC).")

    spark_master: str = Field("local[2]", description="Spark master; unused where spark_remote is set.")
    spark_remote: str | None = Field(None, description="Spark Connect address such as sc://host:15002.")
    spark_memory: str = Field("2g", description="Heap of the driver JVM in local mode.")
    spark_profile: Literal["small", "large"] = Field(
        "small", description="small: many short jobs on a few cores; large: Spark's own planner settings."
    )
    local_rows: int = Field(20_000, description="Up to this many rows are handed to Spark by the driver, not by tasks.")
    spark_long_lived: bool = Field(False, description="The session serves many runs: compile its code fully, not quickly.")
    spark_conf: dict[str, str] = Field(default_factory=dict, description="Extra Spark options, as a JSON object.")
    jars: Path | None = Field(None, description="Folder that holds the two Delta JARs; default: a per-user cache.")
    ivy_settings: Path | None = Field(None, description="Ivy settings file for a Maven mirror.")
    storage_options: dict[str, str] = Field(default_factory=dict, description="delta-rs options for an object store.")

    @field_validator("root", "landing")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        """Local paths become absolute, so that Spark, delta-rs and a daemon in another folder mean the same place."""
        if value is None or "://" in value:
            return value.rstrip("/") if value else value
        return str(Path(value).expanduser().absolute())

    @field_validator("now")
    @classmethod
    def _zoned(cls, value: datetime | None) -> datetime | None:
        if value is not None and value.tzinfo is None:
            msg = "needs a zone, as in 2024-01-01T06:00:00Z"
            raise ValueError(msg)
        return value

    def clock(self) -> datetime:
        """The current time in UTC: the injected one in a replay, else the real one."""
        return self.now or datetime.now(timezone.utc)

    def table(self, layer: str, name: str) -> str:
        """The address of one table; ``layer`` is bronze, silver, gold or ops."""
        return f"{self.root}/{layer}/{name}"

    def landing_of(self, dataset: str) -> str:
        """The folder or URI below which the files of ``dataset`` arrive."""
        return self.landing or f"{self.root}/landing/{dataset}"
