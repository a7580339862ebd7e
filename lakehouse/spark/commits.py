"""The commits to Bronze and Silver: every one is made by a function of this module and carries metadata with its cause.

Gold is committed through delta-rs, in ``gold.publication.revisions``. The table properties keep every engine able to read: no
deletion vectors, no column mapping, classic checkpoints.
"""

from __future__ import annotations

import json
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from delta import exceptions
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lakehouse.delta import commit_log, table_io
from lakehouse.delta.columns import arrow_schema, ddl
from lakehouse.delta.partition_writer import PROPERTIES
from lakehouse.errors import LakehouseError
from lakehouse.spark import commit_lease, stages

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lakehouse.delta.columns import Columns
    from lakehouse.settings import Settings

_CHANGE_FEED = {"delta.enableChangeDataFeed": "true"}
#: The id of a commit in its own metadata.
_COMMIT_ID = "commit_id"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


class AppendedMeanwhileError(LakehouseError):
    """Another writer has appended to a table since it was read; see :func:`append_alone`."""


#: What is raised when another writer has committed first. In Python the classes of Delta do not inherit from the first one.
CONFLICTS = (
    AppendedMeanwhileError,
    exceptions.DeltaConcurrentModificationException,
    exceptions.ConcurrentWriteException,
    exceptions.MetadataChangedException,
    exceptions.ProtocolChangedException,
    exceptions.ConcurrentAppendException,
    exceptions.ConcurrentDeleteReadException,
    exceptions.ConcurrentDeleteDeleteException,
    exceptions.ConcurrentTransactionException,
)


#: After a conflict with another writer everything is computed again from a fresh read: writing the same DataFrame again
#: would undo the other writer's commit.
recomputed_on_conflict = retry(
    retry=retry_if_exception_type(CONFLICTS),
    stop=stop_after_attempt(5),
    wait=wait_random_exponential(multiplier=0.2, max=5),
    reraise=True,
)


def create(
    spark: SparkSession, settings: Settings, path: str, schema: str | StructType, partition_by: str, *, change_feed: bool
) -> None:
    """Create an empty table unless there is one already."""
    empty = spark.createDataFrame([], schema)
    options = PROPERTIES | (_CHANGE_FEED if change_feed else {})
    with commit_lease.held(settings, path):
        empty.write.format("delta").mode("ignore").partitionBy(partition_by).options(**options).save(path)


class SchemaChangeError(LakehouseError):
    """The columns of a table and of its contract cannot be reconciled. The message names them and the remedy."""


def add_missing_columns(spark: Callable[[], SparkSession], settings: Settings, path: str, columns: Columns) -> None:
    """Add the columns of a contract that a table lacks. Columns that the contract no longer has stay, and stay empty.

    :param spark: called only when there is a column to add.
    :raises SchemaChangeError: when a column has another type.
    """
    table = table_io.open_table(path, settings.storage_options)
    if table is None:
        return
    actual = {item.name: item.type for item in pa.schema(table.schema().to_arrow())}
    wanted = arrow_schema(columns)
    changed = [(item.name, actual[item.name], item.type) for item in wanted if actual.get(item.name, item.type) != item.type]
    if changed:
        types = ", ".join(f"{name} is {before} in the table and {now} in the contract" for name, before, now in changed)
        msg = (
            f"{types}: a column keeps its type, because older files cannot be read as another one; give the field another name "
            "(with 'column:' it reads the same column of the file), or set the old type again"
        )
        raise SchemaChangeError(msg)
    new = tuple((name, kind) for name, kind in columns if name not in actual)
    if new:
        with commit_lease.held(settings, path):
            spark().sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS ({ddl(new)})")


def append_alone(
    frame: DataFrame, settings: Settings, path: str, partition_by: str, app_id: str, since: int, metadata: Mapping[str, Any]
) -> None:
    """Append rows in one commit, unless another writer has appended under the same ``app_id`` since a version of the table.

    Of two such appends at once Delta fails one, and Spark drops one that begins later without an error; the commit is
    therefore looked up by an id of its own.

    :param since: the version of the table, -1 if it did not exist, that the rows are based on.
    :raises AppendedMeanwhileError: when another writer has appended; other :data:`CONFLICTS` are possible as well.
    """
    commit_id = uuid.uuid4().hex
    named = json.dumps({**metadata, _COMMIT_ID: commit_id}, default=str)
    options = {**PROPERTIES, "txnAppId": app_id, "txnVersion": f"{since + 1}", "userMetadata": named}
    with commit_lease.held(settings, path), stages.watched(frame.sparkSession, f"append to {path}"):
        frame.write.format("delta").mode("append").partitionBy(partition_by).options(**options).save(path)
    table = table_io.open_table(path, settings.storage_options)
    commits = [] if table is None else commit_log.history(table, since)
    if not any(commit_log.commit_metadata(commit).get(_COMMIT_ID) == commit_id for commit in commits):
        msg = f"another writer has appended to {path} since version {since}"
        raise AppendedMeanwhileError(msg)


def replace_days(frame: DataFrame, settings: Settings, path: str, days: Collection[date], metadata: Mapping[str, Any]) -> None:
    """Replace the content of event days in one commit; a day for which ``frame`` has no rows becomes empty."""
    options = {"replaceWhere": f"event_date IN ({day_literals(days)})", "userMetadata": json.dumps(metadata, default=str)}
    what = f"replacement of {len(days)} days of {path}"
    with commit_lease.held(settings, path), stages.watched(frame.sparkSession, what):
        frame.write.format("delta").mode("overwrite").options(**options).save(path)


def merge(
    spark: SparkSession, settings: Settings, source: DataFrame, path: str, clauses: str, metadata: Mapping[str, Any]
) -> None:
    """Run ``MERGE INTO path t USING source s <clauses>``. A merge that changes nothing makes no commit.

    It is written in SQL because the class ``DeltaTable`` does not work over Spark Connect.
    """
    view = f"merge_source_{uuid.uuid4().hex}"
    source.createOrReplaceTempView(view)
    try:
        with commit_lease.held(settings, path), _commit_metadata(spark, metadata), stages.watched(spark, f"MERGE into {path}"):
            spark.sql(f"MERGE INTO delta.`{path}` t USING {view} s {clauses}")
    finally:
        spark.catalog.dropTempView(view)


def day_literals(days: Collection[date]) -> str:
    """Days as SQL literals: Delta skips the files of other days only for literals."""
    return ", ".join(f"DATE'{day.isoformat()}'" for day in sorted(days))


@contextmanager
def _commit_metadata(spark: SparkSession, metadata: Mapping[str, Any]) -> Iterator[None]:
    """SQL statements take their commit metadata from the session; it is unset afterwards, or later commits would carry it."""
    spark.conf.set(_METADATA, json.dumps(metadata, default=str))
    try:
        yield
    finally:
        spark.conf.unset(_METADATA)
