"""The rows in force as a DataFrame: the same as ``in_force``, for many rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.dispositions.readings import in_force
from lakehouse.dispositions.readings import table as readings_table
from lakehouse.dispositions.readings.table import NUMBER, READING_ID, RECEIVED, ROW_ID
from lakehouse.spark import dataframes

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.delta.table_io import Where
    from lakehouse.settings import Settings


def rows(
    spark: SparkSession,
    settings: Settings,
    contract: SourceContract,
    columns: Sequence[str],
    where: Where,
    ids: Collection[str] | None = None,
) -> DataFrame:
    """Columns of the rows in force, see ``in_force.pieces``.

    :param where: values of ``arrival_date`` and ``ingestion_id``, which no reading changes.
    :raises FileNotFoundError: when there is no Bronze.
    """
    source = contract.dataset
    readings = in_force.readings_of(settings, source, ids)
    names = [name for name in columns if name != RECEIVED]
    if readings is not None or RECEIVED in columns:
        names = list(dict.fromkeys([*names, *ROW_ID, "arrival_ts"]))
    first = dataframes.scan(spark, settings, locations.bronze(settings, source), names, where)
    if RECEIVED in columns:
        first = first.withColumn(RECEIVED, F.col("arrival_ts"))
    if readings is None:
        return first.select(*columns)
    kinds, held = dict(readings_table.columns(contract)), {item.name for item in readings.table.schema().fields}
    known = [name for name in dict.fromkeys([*columns, *ROW_ID, NUMBER]) if name in held]
    about = {**where, READING_ID: readings.ids}
    again = dataframes.scan(spark, settings, locations.readings(settings, source), [*known, READING_ID], about)
    newest = again.select(*ROW_ID)
    if len(readings.ids) > 1:
        newest = again.groupBy(*ROW_ID).agg(F.max(NUMBER).alias(NUMBER))
        again = again.join(newest, [*ROW_ID, NUMBER], "left_semi")
    # A column that is newer than every reading is empty in them.
    read = again.select(*(F.col(name) if name in held else F.lit(None).cast(kinds[name]).alias(name) for name in columns))
    return first.join(newest, list(ROW_ID), "left_anti").select(*columns).unionByName(read)
