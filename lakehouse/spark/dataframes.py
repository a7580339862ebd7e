"""Rows of a Delta table as a DataFrame, read in the cheaper of two ways, and the start of a day in a zone.

Delta's scan runs jobs for the snapshot and the list of files, which cost more than reading about 100,000 rows. Up to that number,
delta-rs lists the files: few rows, or rows of many files, are passed to Spark as local data; other rows are read by Spark's
tasks, as Parquet.

Python and Java each have a time zone database. Days are counted with Python's, windows and joins in Spark with Java's: where the
two differ, the same row would have two different days. So the rules of a zone are compared before Spark uses them.
"""

from __future__ import annotations

import logging
import re
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.pandas.types import from_arrow_schema

from lakehouse.calendar import days
from lakehouse.lake import table_io
from lakehouse.spark.jars import SetupProblem

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from zoneinfo import ZoneInfo

    from deltalake import DeltaTable
    from pyspark.sql import Column, DataFrame

    from lakehouse.lake import Lake, Table
    from lakehouse.lake.table_io import Where

#: For more rows, passing them to Spark costs more than reading them by its tasks, and interpreting more than generated code.
FEW_ROWS = 10_000
_MICROS_OF_DAY = 86_400_000_000
#: More files are listed by a Spark job.
_FEW_FILES = 32
#: The names that a listing is compared with: each with each.
_NAMES_AT_ONCE = 500
#: Names of files that mean themselves in a pattern of names.
_PLAIN_NAME = re.compile(r"[\w.-]+")


def local(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows in memory as a DataFrame.

    Spark 4.2 silently reads an Arrow table as empty when its first chunk is, so the chunks are combined. Spark Connect accepts no
    empty Arrow table, so an empty DataFrame is created from the schema.
    """
    if not len(rows):
        return spark.createDataFrame([], from_arrow_schema(rows.schema))
    return spark.createDataFrame(rows.combine_chunks())


def in_utc(rows: pa.Table) -> pa.Table:
    """Query results with times in UTC, in any session zone, and without Spark's field metadata."""

    def kind(of: pa.DataType) -> pa.DataType:
        return pa.timestamp(of.unit, "UTC") if pa.types.is_timestamp(of) and of.tz is not None else of

    return rows.cast(pa.schema([pa.field(item.name, kind(item.type)) for item in rows.schema]))


def first_moment(day: Column | str) -> Column:
    """The first moment of a day in UTC, independent of the session's zone."""
    return F.timestamp_micros(F.unix_date(day).cast("bigint") * _MICROS_OF_DAY)


def select_known(frame: DataFrame, kinds: Mapping[str, str], known: Collection[str]) -> DataFrame:
    """Select the columns of ``kinds``, in their order; a column that the frame lacks, because it is newer than the table, is
    empty.

    :param kinds: the Spark type of each wanted column.
    :param known: the columns that the frame has.
    """
    return frame.select(*(name if name in known else F.lit(None).cast(kind).alias(name) for name, kind in kinds.items()))


def scan(spark: SparkSession, lake: Lake, source: Table, columns: Sequence[str], where: Where) -> DataFrame:
    """The rows of a table whose columns have one of the values given for them in ``where``.

    A column that is newer than the table is empty.

    :raises FileNotFoundError: if the table does not exist.
    """
    table = source.open()
    if table is None:
        msg = f"there is no table at {source}; materialize the layer below it first"
        raise FileNotFoundError(msg)
    files = table_io.files_with(table, where)
    row_count = table_io.rows_of(files)
    is_listed_here = row_count <= lake.settings.held_rows
    if row_count <= FEW_ROWS or (is_listed_here and len(files) > _FEW_FILES):
        return local(spark, table_io.read_version(table, columns, where))
    is_plain = table.protocol().min_reader_version == 1  # otherwise the files alone do not define the rows
    frame = (
        _of_files(spark, source, table, files) if is_listed_here and is_plain else spark.read.format("delta").load(source.address)
    )
    for column, values in where.items():
        are_days = len(values) > 0 and all(type(value) is date for value in values)
        frame = frame.where(days.condition_among(column, values) if are_days else F.col(column).isin(sorted(values)))
    held = {item.name for item in table.schema().fields}
    return frame.select(*(F.col(name) if name in held else F.lit(None).alias(name) for name in columns))


def _of_files(spark: SparkSession, source: Table, table: DeltaTable, files: pa.Table) -> DataFrame:
    """The rows of ``files`` of a table."""
    schema = from_arrow_schema(pa.schema(table.schema().to_arrow()))
    names = [unquote(name) for name in files["path"].to_pylist()]
    reader = spark.read.schema(schema).option("basePath", source.address)
    if "://" in source.address and 1 < len(names) <= _NAMES_AT_ONCE and all(map(_PLAIN_NAME.fullmatch, names)):
        # One listing of the folder, in the place of three requests for each file. It would say nothing of a missing one.
        frame = reader.option("pathGlobFilter", f"{{{','.join(names)}}}").parquet(source.address)
        if len(frame.inputFiles()) == len(names):
            return frame
    return reader.parquet(*(f"{source}/{name}" for name in names))


#: From 1970 to the year 2100, in days.
DAYS = (datetime(2101, 1, 1, tzinfo=timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)).days
#: The number of days ahead on which the two must agree; later differences, such as a recently announced change, are a warning.
_NEAR = timedelta(days=366)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_OFFSET = "(unix_seconds(from_utc_timestamp(timestamp_seconds({0} * 86400L), '{1}')) - {0} * 86400L)"
_log = logging.getLogger(__name__)


def start_of_day(day: Column, zone: ZoneInfo) -> Column:
    """The first moment of a day in a zone, independent of the session's zone.

    :raises SetupProblem: if Java's rules for the zone differ from Python's.
    """
    _check(zone)
    return F.to_utc_timestamp(first_moment(day), zone.key)


@lru_cache(maxsize=1_000)  # once per process
def _check(zone: ZoneInfo) -> None:
    spark = SparkSession.getActiveSession()
    if zone.key == "UTC" or spark is None:
        return
    before, after = (_OFFSET.format(day, zone.key) for day in ("(i - 1)", "i"))
    changes = f"filter(sequence(1, {DAYS}), i -> {after} <> {before})"
    try:
        row = spark.sql(f"SELECT transform({changes}, i -> struct(i, {after}))").first()
    except PySparkException:
        msg = f"the Java of Spark does not know the zone {zone.key}, and Python does; update Java (its time zone data, tzdata)"
        raise SetupProblem(msg) from None
    differing = differences(zone, {} if row is None else dict(row[0]))
    if not differing:
        return
    first = (_EPOCH + timedelta(days=differing[0])).date()
    text = (
        f"the time zone data of Python and of Spark's Java differ for {zone.key} from {first} on; "
        "update the Python package tzdata and Java to the same version of the IANA database"
    )
    if first <= (datetime.now(timezone.utc) + _NEAR).date():
        raise SetupProblem(text)
    _log.warning("%s before that day comes", text)


def differences(zone: ZoneInfo, changes: dict[int, int]) -> list[int]:
    """The days since 1970 on which another database and Python's change the clock of a zone differently, in order.

    :param changes: the other database's offset in seconds, by each day at whose UTC midnight it differs from the previous day's.
    """
    offsets = [_offset(day, zone) for day in range(DAYS + 1)]
    ours = {day: offsets[day] for day in range(1, DAYS + 1) if offsets[day] != offsets[day - 1]}
    return sorted(day for day in {*ours, *changes} if ours.get(day) != changes.get(day))


def _offset(day: int, zone: ZoneInfo) -> int:
    offset = (_EPOCH + timedelta(days=day)).astimezone(zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())
