"""Rows of a Delta table as a DataFrame, read in whichever way is cheaper.

Few rows are read by delta-rs and passed to Spark as local data, which saves Delta's own jobs: a snapshot and a file listing for
each scan, which cost more than the rows. More rows are read by Spark's tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.pandas.types import from_arrow_schema

from lakehouse.delta import table_io

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.delta.table_io import Where
    from lakehouse.settings import Settings


def local(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows in memory as a DataFrame.

    Spark 4.2 silently reads an Arrow table as empty when its first chunk is, so the chunks are combined. Spark Connect accepts no
    empty Arrow table, so an empty DataFrame is created from the schema.
    """
    if not len(rows):
        return spark.createDataFrame([], from_arrow_schema(rows.schema))
    return spark.createDataFrame(rows.combine_chunks())


def scan(spark: SparkSession, settings: Settings, path: str, columns: Sequence[str], where: Where) -> DataFrame:
    """The rows of a table whose columns hold one of the values given for them in ``where``.

    :raises FileNotFoundError: when there is no table.
    """
    table = table_io.open_table(path, settings.storage_options)
    if table is None:
        msg = f"there is no table at {path}; materialize the layer below it first"
        raise FileNotFoundError(msg)
    if table_io.rows_at_most(table, where) <= settings.local_rows:
        return local(spark, table_io.read_version(table, columns, where))
    frame = spark.read.format("delta").load(path)
    for column, values in where.items():
        frame = frame.where(F.col(column).isin(sorted(values)))
    return frame.select(*columns)
