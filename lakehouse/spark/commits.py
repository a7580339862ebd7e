"""The edge: every commit to Bronze and silver is made by one of these functions, and carries why it was made.

Those of gold are made in ``revisions``, through delta-rs.

The table properties keep every engine able to read: no deletion vectors, no column mapping, classic checkpoints.
"""

from __future__ import annotations

import json
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from delta import exceptions

from lakehouse.delta import table_io
from lakehouse.delta.columns import arrow_schema, ddl
from lakehouse.delta.partition_writer import PROPERTIES
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lakehouse.delta.columns import Columns
    from lakehouse.settings import Settings

_CHANGE_FEED = {"delta.enableChangeDataFeed": "true"}
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
#: What Spark raises where another writer was quicker. In Python these classes do not inherit from the first one.
CONFLICTS = (
    exceptions.DeltaConcurrentModificationException,
    exceptions.ConcurrentWriteException,
    exceptions.MetadataChangedException,
    exceptions.ProtocolChangedException,
    exceptions.ConcurrentAppendException,
    exceptions.ConcurrentDeleteReadException,
    exceptions.ConcurrentDeleteDeleteException,
    exceptions.ConcurrentTransactionException,
)


def create(spark: SparkSession, path: str, schema: str | StructType, partition_by: str, *, change_feed: bool) -> None:
    """Make an empty table where there is none."""
    empty = spark.createDataFrame([], schema)
    options = PROPERTIES | (_CHANGE_FEED if change_feed else {})
    empty.write.format("delta").mode("ignore").partitionBy(partition_by).options(**options).save(path)


class SchemaChangeError(LakehouseError):
    """A table and a contract whose columns cannot be brought together. Its text tells which, and the way out."""


def align(spark: Callable[[], SparkSession], settings: Settings, path: str, columns: Columns) -> None:
    """Add the columns that a table lacks; it keeps those that the contract has no more, and leaves them empty from now on.

    :param spark: asked for only where there is a column to add.
    :raises SchemaChangeError: where a column has another type.
    """
    table = table_io.open_table(path, settings.storage_options)
    if table is None:
        return
    actual = {item.name: item.type for item in pa.schema(table.schema().to_arrow())}
    wanted = arrow_schema(columns)
    other = [(item.name, actual[item.name], item.type) for item in wanted if actual.get(item.name, item.type) != item.type]
    if other:
        told = ", ".join(f"{name} is {before} there and {now} in the contract" for name, before, now in other)
        msg = (
            f"{told}: a column keeps its type, because older files cannot be read as another one; give the field another name "
            "(with 'column:' it reads the same column of the file), or set the old type again"
        )
        raise SchemaChangeError(msg)
    new = tuple((name, kind) for name, kind in columns if name not in actual)
    if new:
        spark().sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS ({ddl(new)})")


def append_once(frame: DataFrame, path: str, partition_by: str, app_id: str, why: Mapping[str, Any]) -> None:
    """Append in one commit; doing it again under the same ``app_id`` is a no-op."""
    options = {**PROPERTIES, "txnAppId": app_id, "txnVersion": "1", "userMetadata": json.dumps(why, default=str)}
    frame.write.format("delta").mode("append").partitionBy(partition_by).options(**options).save(path)


def replace_days(frame: DataFrame, path: str, days: Collection[date], why: Mapping[str, Any]) -> None:
    """Make ``frame`` the whole content of the given event days, in one commit; a day without rows ends empty."""
    options = {"replaceWhere": f"event_date IN ({day_literals(days)})", "userMetadata": json.dumps(why, default=str)}
    frame.write.format("delta").mode("overwrite").options(**options).save(path)


def merge(spark: SparkSession, source: DataFrame, path: str, clauses: str, why: Mapping[str, Any]) -> None:
    """Run ``MERGE INTO path t USING source s <clauses>``; without effect it makes no commit.

    SQL and not the DeltaTable class, which does not work over Spark Connect.
    """
    view = f"merge_source_{uuid.uuid4().hex}"
    source.createOrReplaceTempView(view)
    try:
        with _commit_metadata(spark, why):
            spark.sql(f"MERGE INTO delta.`{path}` t USING {view} s {clauses}")
    finally:
        spark.catalog.dropTempView(view)


def day_literals(days: Collection[date]) -> str:
    """Days as SQL literals: only literals let Delta skip the files of other days."""
    return ", ".join(f"DATE'{day.isoformat()}'" for day in sorted(days))


@contextmanager
def _commit_metadata(spark: SparkSession, why: Mapping[str, Any]) -> Iterator[None]:
    """SQL takes its commit metadata from the session; what stays set would mark the commits of others."""
    spark.conf.set(_METADATA, json.dumps(why, default=str))
    try:
        yield
    finally:
        spark.conf.unset(_METADATA)
