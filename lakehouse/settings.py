"""The settings of a deployment: where its data is, which Spark runs it, and when its jobs run.

Each setting is an environment variable with the prefix ``LAKEHOUSE_``, or a line of a ``.env`` file in the working folder. The
needs of a *dataset* are in its contract, not here. Below the frames, code takes a :class:`lakehouse.lake.Lake` instead.
"""

from __future__ import annotations

import json
import logging
import os
import re
from datetime import datetime  # noqa: TC003 (pydantic reads annotations)
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import AfterValidator, Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from lakehouse.calendar.periods import checked_cron
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

#: What the name of a local folder cannot have: delta-rs reads an escape as a letter, and brackets as part of an address.
_NO_NAME = re.compile(r"%[0-9A-Fa-f]{2}|[\[\]]")
_HOW_TARGETS = (
    'write a JSON list such as ["log", "file:/path/alerts.jsonl", "https://example.com/hook"], with "chat+https://..." for the '
    'webhook of a chat, or Apprise URLs such as "mailtos://..." or "slack://..."'
)
#: The prefix of the address of a webhook that accepts ``{"text": ...}``, as chats do.
CHAT_FORM = "chat+"
#: Schedules that Dagster knows by name.
_CRON_NAMES = {"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"}
_CRON_WORDS = r"\b(?:sun|mon|tue|wed|thu|fri|sat|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\b"
#: See ``Settings.rows_in_pieces`` and ``Settings.held_rows``.
_PIECES, _MOST_HELD = 16, 100_000


class InvalidSettingsError(LakehouseError, ValueError):
    """Invalid settings. The message names variables and mistakes, and no value: it may be a secret."""


class Settings(BaseSettings):
    """Deployment settings; ``docs/settings.md`` lists them.

    :raises InvalidSettingsError: for values that are not as documented.
    """

    model_config = SettingsConfigDict(env_prefix="LAKEHOUSE_", env_file=".env", extra="ignore")

    #: Options of each Spark session that decide what an expression of a contract means; a deployment cannot change them, because
    #: a published number can be made again only under the same ones.
    PINNED: ClassVar[dict[str, str]] = {
        "spark.sql.ansi.enabled": "true",  # an overflow is an error, and not another number
        "spark.sql.ansi.doubleQuotedIdentifiers": "false",
        "spark.sql.caseSensitive": "false",
        "spark.sql.decimalOperations.allowPrecisionLoss": "true",
        "spark.sql.legacy.percentileDiscCalculation": "false",
        "spark.sql.legacy.timeParserPolicy": "CORRECTED",
        "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
        "spark.sql.parser.escapedStringLiterals": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.timestampType": "TIMESTAMP_LTZ",
        "spark.sql.variable.substitute": "false",  # ${env:HOME} in a contract is a text, not a value of this machine
    }

    root: str = Field("lakehouse_data", description="Folder or object-store URI that holds the tables.")
    landing: str | None = Field(None, description="Folder with the sources' files; default: <root>/landing/<dataset>.")
    contracts: Path = Field(Path("contracts"), description="Folder with contracts of your own (it need not exist).")
    bundled_contracts: bool = Field(
        False,
        description="Whether the package's example contracts are loaded too; if left out, in this release they still are "
        "where there are no other contracts, or one that needs them.",
    )
    code_commit: str | None = Field(
        None, description="The Git commit of contracts and code; default: that of the repository with the folder of contracts."
    )
    now: datetime | None = Field(None, description="A fixed clock for replays and tests, with a zone; default: the real one.")

    #: Dagster's daemon looks every five seconds; with five it would skip the looks that come a moment too early.
    sensor_seconds: int = Field(4, ge=1, description="Least seconds between two ticks of a sensor (15 in an object store).")
    reconcile_seconds: float = Field(
        600,
        ge=0,
        allow_inf_nan=False,
        description="Seconds that an announced day may wait for silver before a sensor starts silver for it.",
    )
    asset_key_prefix: str = Field(
        "", description="The beginning of all asset keys in Dagster, such as lake or analytics/lake; set it before the first run."
    )
    finality_assets: bool = Field(
        False, description="Whether Dagster has assets of the days that became final, and of those that were restated."
    )
    shared_runs: bool = Field(
        True,
        description="Whether sensors request runs that several tables share; without, each table has runs of its own, which any "
        "executor of Dagster can run.",
    )
    batched_events: bool = Field(
        True,
        description="Whether runs store many of Dagster's events together, also with another storage than that of the project.",
    )
    load_selected: bool = Field(
        True, description="Whether the process of a run constructs only the assets of the run, and those that they are made from."
    )
    settle_seconds: float = Field(
        4,
        ge=0,
        allow_inf_nan=False,
        description="Seconds that a landing file must be unchanged before it is ingested; two ticks, if less than one.",
    )

    close_cron: str = Field("20 0,12 * * *", description="When numbers that are due become preliminary and final (UTC).")
    freshness_cron: str = Field("10 * * * *", description="When sources are checked for silence and overdue reviews (UTC).")
    tuning_cron: str = Field("30 1 * * *", description="When event-time watermarks with 'auto: true' are tuned (UTC).")
    maintenance_cron: str = Field("40 2 * * *", description="When tables are compacted and unused files are deleted (UTC).")
    retention_hours: int = Field(
        168, ge=1, description="Hours that files are kept after they left a table: longer than any read or write of it takes."
    )

    alert_targets: Annotated[list[str], NoDecode] = Field(
        ["log"],
        description='Where alerts and notices are sent, as JSON: ["log", "file:/path/alerts.jsonl", "https://...", "mailtos://..."].',
    )
    addresses: Path | None = Field(
        None,
        description="YAML file with the addresses of owners, stewards, consumers, platform team; default: alert_targets for all.",
    )
    alert_seconds: int = Field(60, ge=1, description="Seconds between two evaluations of the alerts.")

    webserver: str = Field(
        "http://127.0.0.1:3000", description="Dagster's webserver; backfills use it if it serves the same tables."
    )

    mlflow_uri: str | None = Field(
        None, description="Address of an MLflow server; default: an SQLite store below the root, <root>/mlflow/mlflow.db."
    )

    spark_master: str = Field("local[2]", description="Spark master; unused where spark_remote is set.")
    spark_remote: str | None = Field(
        None, description="Spark Connect address such as sc://host:15002; auto: the one started here."
    )
    spark_memory: str = Field("2g", description="Heap of the driver JVM in local mode.")
    spark_profile: Literal["small", "large"] = Field(
        "small", description="small: many short jobs on a few cores; large: Spark's own planner settings."
    )
    local_rows: int = Field(
        1_000_000,
        ge=0,
        description="Up to this many rows are merged and measured in this process, if measures are exact; 0: always by Spark.",
    )
    file_bytes: int = Field(
        262_144,
        ge=0,
        description="Target size of the files that days of a new table share; 0: a partition for each day.",
    )
    spark_long_lived: bool = Field(
        False, description="The session executes many runs: optimise its code for throughput, not for start-up."
    )
    spark_conf: dict[str, str] = Field(default_factory=dict, description="Extra Spark options, as a JSON object.")
    kafka_options: dict[str, str] = Field(
        default_factory=dict, description="Options for Kafka's client, as a JSON object; they replace those of contracts."
    )
    schema_registry_options: dict[str, str] = Field(
        default_factory=dict, description="Options for the client of a schema registry, as a JSON object."
    )
    jars: Path | None = Field(None, description="Folder that holds the two Delta JARs; default: a per-user cache.")
    ivy_settings: Path | None = Field(None, description="Ivy settings file for a Maven mirror.")
    storage_options: dict[str, str] = Field(default_factory=dict, description="delta-rs options for an object store.")

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as problem:
            raise InvalidSettingsError("; ".join(map(_mistake, problem.errors()))) from None
        except SettingsError as problem:
            name = re.search(r'field "(\w+)"', f"{problem}")
            raise InvalidSettingsError(f"{_variable(name[1] if name else '')}: its value is not JSON") from None

    @field_validator("root", "landing")
    @classmethod
    def _not_empty(cls, value: str | None) -> str | None:
        """An empty text would mean the working folder."""
        if value is not None and not value.strip():
            msg = "is empty; give a folder or a URI, or leave the variable out"
            raise ValueError(msg)
        return value

    @field_validator("root")
    @classmethod
    def _is_path(cls, value: str) -> str:
        if "://" not in value and (found := _NO_NAME.search(f"{Path(value).expanduser().absolute()}")):
            msg = f"has {found[0]!r} in its path, by which Delta Lake finds another folder or none; give a folder without it"
            raise ValueError(msg)
        return value

    @field_validator("spark_memory")
    @classmethod
    def _memory(cls, value: str) -> str:
        if not re.fullmatch(r"[1-9]\d*[kmgt]b?", value, re.IGNORECASE):
            msg = "is no amount of memory; write a whole number with a unit, as in 512m or 2g"
            raise ValueError(msg)
        return value

    @property
    def has_spark_here(self) -> bool:
        """Whether Spark, once it is started, has the cores of this machine only."""
        return self.spark_master.startswith("local") and not self.spark_remote

    @property
    def rows_in_pieces(self) -> int:
        """The greatest number of rows that this process takes in pieces, if Spark would have the same cores; few on a cluster."""
        return self.local_rows * _PIECES if self.has_spark_here else self.held_rows

    @property
    def held_rows(self) -> int:
        """The greatest number of rows that are held with all their columns, or passed to Spark; more are many to it."""
        return min(self.local_rows, _MOST_HELD)

    @field_validator("spark_conf")
    @classmethod
    def _no_pinned_option(cls, value: dict[str, str]) -> dict[str, str]:
        for name, pinned in cls.PINNED.items():
            if name in value and value[name].lower() != pinned.lower():
                msg = f"{name} decides what expressions mean, and is {pinned!r} in every deployment; leave it out"
                raise ValueError(msg)
        return value

    @field_validator("spark_remote")
    @classmethod
    def _connect_address(cls, value: str | None) -> str | None:
        if value is None or value == "auto":
            return value
        try:
            parts = urlsplit(value)
            is_address = parts.scheme == "sc" and bool(parts.hostname) and (parts.port or 0) >= 0
        except ValueError:  # of the port
            is_address = False
        if not is_address:
            msg = "is no address of a Spark Connect server; write sc://host:15002, or auto"
            raise ValueError(msg)
        return value

    @field_validator("webserver", "mlflow_uri")
    @classmethod
    def _uri(cls, value: str | None) -> str | None:
        if value is not None and not urlsplit(value).scheme:
            msg = "is no address; write one with its scheme, such as http://127.0.0.1:3000"
            raise ValueError(msg)
        return value

    @field_validator("close_cron", "freshness_cron", "tuning_cron", "maintenance_cron")
    @classmethod
    def _cron(cls, value: str) -> str:
        if value in _CRON_NAMES:
            return value
        numbers = re.sub(_CRON_WORDS, "1", value, flags=re.IGNORECASE)
        try:
            checked_cron(numbers)
        except ValueError:
            msg = "is no cron schedule; write minute, hour, day, month and weekday, as in '40 2 * * *'"
            raise ValueError(msg) from None
        return value

    @field_validator("root", "landing")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        """Local paths become absolute, so that Spark, delta-rs and a daemon in another folder refer to the same place."""
        if value is None or "://" in value:
            return value.rstrip("/") if value else value
        return str(Path(value).expanduser().absolute())

    @field_validator("alert_targets", mode="before")
    @classmethod
    def _known_targets(cls, value: object) -> list[str]:
        """``log``, ``file:`` with an absolute path, an address of http or https, also behind ``chat+``, or an Apprise URL."""
        try:
            addresses = json.loads(value) if isinstance(value, str) else value
        except ValueError:
            addresses = None
        if not isinstance(addresses, list):
            raise ValueError(f"it is no list; {_HOW_TARGETS}")  # noqa: TRY004 (pydantic reports values)
        return [_target(str(address), f"target {number}") for number, address in enumerate(addresses, 1)]

    @field_validator("now")
    @classmethod
    def _zoned(cls, value: datetime | None) -> datetime | None:
        if value is not None and value.tzinfo is None:
            msg = "needs a zone, as in 2024-01-01T06:00:00Z"
            raise ValueError(msg)
        return value


def _variable(name: str) -> str:
    return f"LAKEHOUSE_{name.upper()}"


def _mistake(error: ErrorDetails) -> str:
    """The mistake in a variable."""
    name, *within = (f"{part}" for part in error["loc"])
    what = error["msg"].removeprefix("Value error, ")
    return f"{' '.join([_variable(name), *within])}: {what[0].lower()}{what[1:]}"


def _target(address: str, place: str) -> str:
    """A target in canonical form: the path of a file is absolute, like the root.

    :param place: names the target, whose address may be a secret.
    :raises ValueError: if it is not a target; the text describes the valid forms, and has no part of the address.
    """
    try:
        parts = urlsplit(address.removeprefix(CHAT_FORM))
        _ = parts.port
    except ValueError:  # its text has parts of the address
        raise ValueError(f"{place} is no address; {_HOW_TARGETS}") from None
    is_chat = address.startswith(CHAT_FORM)
    if parts.scheme == "file" and not is_chat and parts.netloc in {"", "localhost"}:
        path = unquote(parts.path) if address.startswith("file://") else address.removeprefix("file:")
        if path and not path.endswith("/"):
            return f"file:{Path(path).expanduser().absolute()}"
    if address == "log" or _is_web_address(address, parts) or (not is_chat and _is_apprise_url(address, parts)):
        return address
    raise ValueError(f"{place} is unknown; {_HOW_TARGETS}")


def dagster_home() -> Path | None:
    """The folder of the Dagster instance that commands use: ``DAGSTER_HOME``, else ``dagster_home`` here; None without any."""
    if "DAGSTER_HOME" in os.environ:
        return Path(os.environ["DAGSTER_HOME"])
    here = Path("dagster_home").absolute()
    return here if (here / "dagster.yaml").is_file() else None


def _is_web_address(address: str, parts: SplitResult) -> bool:
    plain = address.isascii() and not set(address) & set(" \t\r\n")
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and plain


def _is_apprise_url(address: str, parts: SplitResult) -> bool:
    if "://" not in address or parts.scheme in {"file", "http", "https"}:
        return False
    import apprise  # noqa: PLC0415 (takes 0.3 s to load, and most deployments have no such target)

    log = logging.getLogger("apprise")
    log.disabled = True  # it would print the address
    try:
        return apprise.Apprise.instantiate(address) is not None
    finally:
        log.disabled = False


#: The address of a target, in canonical form.
TargetAddress = Annotated[str, AfterValidator(lambda address: _target(address, "the target"))]
