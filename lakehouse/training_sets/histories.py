"""Histories of feature values: the moments from which a dimension key or a metric cell has a value.

Under ``as_known``, a value begins when it is both valid and known, or published; under ``as_corrected``, when it is valid.
Joining events with a history belongs to ``as_of``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.contracts.windows import WINDOW_START, EventWindow
from lakehouse.delta.columns import arrow_schema, ddl
from lakehouse.dimensions import as_then, tables
from lakehouse.dimensions.tables import TIME_LENGTH
from lakehouse.gold.numbers import served_version
from lakehouse.spark import dataframes, zones
from lakehouse.training_sets import records as set_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.joins import Join
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.contracts.training_set import MetricFeatures, Reading
    from lakehouse.delta.columns import Columns
    from lakehouse.lake import Lake
    from lakehouse.training_sets.records import Knowledge


#: The columns with the start of a value, and with the moment at which it ends or from which its age counts.
BEGINS, ENDS = "_begins", "_ends"


def of_dimension(
    spark: SparkSession, lake: Lake, contract: SourceContract, join: Join, known: Knowledge, reading: Reading
) -> DataFrame:
    """The attribute history of a dimension's keys: its primary key, the attributes by their names in the set, and their time.

    Untracked attributes also have the value of the change.
    """
    if locations.key_log(lake, contract.dataset).open() is None:
        return _without_records(spark, contract, join)
    inputs = known.sources[contract.dataset]
    names = [F.col(column).alias(name) for column, name in join.attributes]
    key = [F.col(name).alias(f"_of_{name}") for name in contract.primary_key]
    if reading == "as_corrected":
        every = as_then.intervals(spark, lake, contract, inputs.ids, inputs.until)
        return every.select(*key, *names, F.col("valid_from").alias(BEGINS), F.col("valid_to").alias(ENDS))
    columns = _record_columns(contract)
    records = set_records.records(spark, lake, contract, inputs).select(*(name for name, _ in columns[1:]))
    of_key = F.expr(f"substring(record_key, 1, length(record_key) - {TIME_LENGTH})")
    by_key = records.withColumn("_key", of_key).repartition("_key").sortWithinPartitions("_key")
    found = by_key.mapInArrow(partial(_known_of, contract), ddl((*columns, ("from_ts", "timestamp"))))
    holds = F.col("kind").isNotNull() & ~F.coalesce("key_ends", F.lit(False))
    values = [F.when(holds, F.col(column)).alias(name) for column, name in join.attributes]
    return found.select(*key, *values, F.col("from_ts").alias(BEGINS), F.col("ends_at").alias(ENDS))


def of_metric(
    spark: SparkSession, lake: Lake, catalog: Catalog, entry: MetricFeatures, known: Knowledge, reading: Reading
) -> DataFrame:
    """The measure history of a metric's cells: its grain, the measures by their names in the set, and the end of their period.

    The number of the newest ended period counts. A cell that a later revision of its period lacks is NULL.
    """
    series = served_version.daily(lake, catalog, catalog.metrics[entry.metric])
    metric, window = series.metric, series.metric.event_window
    place = [series.by, *([] if window is None else window.columns)]
    grain, measures = list(entry.on), [name for name, _ in entry.measures]
    kinds = {measure.name: measure.type for measure in metric.measures}
    named = [F.col(name).cast(kinds[name]).alias(renamed) for name, renamed in entry.measures]
    stored = locations.gold(lake, series)
    if stored.open() is None:
        return _without_numbers(spark, catalog, entry)
    columns = list(dict.fromkeys([*place, *grain, *measures]))
    published = dataframes.scan(
        spark, lake, stored, [*columns, "revision", "published_at", "superseded_at", "adjustment", "row_count"], {}
    ).where(F.col("adjustment").isNull() & (F.col("published_at") <= F.lit(known.published_until)))
    if reading == "as_corrected":
        published = published.where(F.col("superseded_at").isNull() | (F.col("superseded_at") > F.lit(known.published_until)))
    every = _every_cell(published, series.by, [*place, *grain], measures)
    end = _end_of_period(series)
    begins = end if reading == "as_corrected" else F.greatest(end, "published_at")
    number = F.struct(end.alias(ENDS), F.col("revision"), *named)
    cell = Window.partitionBy(*grain).orderBy(BEGINS)
    newest = F.max("_number").over(cell.rangeBetween(Window.unboundedPreceding, Window.currentRow))
    of_time = every.select(*grain, begins.alias(BEGINS), number.alias("_number")).withColumn("_number", newest)
    renamed = [F.col(f"_number.{name}").alias(name) for _, name in entry.measures]
    keys = [F.col(name).alias(f"_of_{name}") for name in grain]
    return of_time.select(*keys, BEGINS, F.col(f"_number.{ENDS}").alias(ENDS), *renamed)


def _every_cell(published: DataFrame, by: str, cell: list[str], measures: list[str]) -> DataFrame:
    """Each revision of a period with all cells that the period has had; a cell that the revision lacks is NULL."""
    revisions = published.select(by, "revision", "published_at").distinct()
    rows = published.where(F.col("row_count") > 0)
    every = revisions.join(rows.select(*cell).distinct(), by)
    theirs = rows.select(*(F.col(name).alias(f"_{name}") for name in (*cell, "revision")), *measures)
    condition = F.col("revision") == F.col("_revision")
    for name in cell:
        condition = condition & F.col(name).eqNullSafe(F.col(f"_{name}"))
    return every.join(theirs, condition, "left").select(*cell, "revision", "published_at", *measures)


def _without_records(spark: SparkSession, contract: SourceContract, join: Join) -> DataFrame:
    """The history of a dimension without records."""
    kinds = dict(tables.attributes(contract))
    keys = tuple((f"_of_{name}", kinds[name]) for name in contract.primary_key)
    values = tuple((name, kinds[column]) for column, name in join.attributes)
    return dataframes.local(spark, arrow_schema((*keys, *values, (BEGINS, "timestamp"), (ENDS, "timestamp"))).empty_table())


def _without_numbers(spark: SparkSession, catalog: Catalog, entry: MetricFeatures) -> DataFrame:
    """The history of a metric without published numbers."""
    metric = catalog.metrics[entry.metric]
    kinds = {measure.name: measure.type for measure in metric.measures}
    source = catalog.sources[metric.source]
    fields = {field.name: field.type for field in source.typed_fields}
    keys = tuple((f"_of_{name}", fields.get(name, "string")) for name in entry.on)
    measures = tuple((renamed, kinds[name]) for name, renamed in entry.measures)
    return dataframes.local(spark, arrow_schema((*keys, (BEGINS, "timestamp"), (ENDS, "timestamp"), *measures)).empty_table())


def _end_of_period(series: Series) -> Column:
    """The end of a number's period: of its day, or of its window."""
    zone, window = ZoneInfo(series.metric.publication.timezone or "UTC"), series.metric.event_window
    end_of_day = zones.start_of_day(F.date_add(series.by, 1), zone)
    if not isinstance(window, EventWindow):
        return end_of_day
    end = F.col(WINDOW_START) + F.expr(f"interval {int(window.size.total_seconds())} seconds")
    return end if window.overlaps else F.least(end, end_of_day)


def _record_columns(contract: SourceContract) -> Columns:
    """The columns of dimension records that the rule reads and carries along."""
    order = (("source_sequence", "bigint"), ("source_order", "string"), ("ordered_at", "timestamp"), ("delivery", "bigint"))
    clocks = (("known_from", "timestamp"), ("kind", "string"))
    return (("dimension_key", "string"), *tables.changes_of_silver(contract), *order, *clocks)


def _known_of(contract: SourceContract, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Apply the rule of ``records`` to whole keys of records."""
    for records in as_then.whole_keys(batches):
        of_keys = tables.by_key(contract, records.drop_columns(["_key"]))
        columns = arrow_schema((*_record_columns(contract), ("from_ts", "timestamp")))
        yield from set_records.known_values(of_keys).select(columns.names).cast(columns).to_batches()
