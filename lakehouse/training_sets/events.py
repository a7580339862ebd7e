"""The rows of a training set: events with their features, as of the event, and optionally their labels. With Spark.

A history has the moments from which a dimension key or a metric cell has a value. The as-of join adds to each event the last row
of a history that had begun by the event. Under ``as_known``, a value begins when it is both valid and known, or published; under
``as_corrected``, when it is valid. A DataFrame in, a DataFrame out.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.contracts import sql_expressions
from lakehouse.contracts.training_set import KEY_PREFIX
from lakehouse.contracts.windows import WINDOW_START, EventWindow
from lakehouse.delta.columns import arrow_schema, ddl
from lakehouse.dimensions import joins, tables
from lakehouse.dimensions.tables import TIME_LENGTH
from lakehouse.gold.numbers import served_version
from lakehouse.ledger import ingestions
from lakehouse.spark import dataframes
from lakehouse.spark.session import sized_for
from lakehouse.training_sets import labels, records

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from datetime import date, datetime

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.metric_sources import Join
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.contracts.training_set import Label, MetricFeatures, Reading, TrainingSetContract
    from lakehouse.delta.columns import Columns
    from lakehouse.lake import Lake
    from lakehouse.training_sets.records import Knowledge


def with_last(events: DataFrame, history: DataFrame, on: Mapping[str, str], at: str, begins: str) -> DataFrame:
    """The events, each once, with the columns of the last history row that began at or before the event.

    Events and history are sorted together, so the cost is one sort, however many history rows an event has. Without an earlier
    row the columns are NULL. NULL in a column of ``on`` equals NULL.

    :param on: for each key column of the history, the event column with the same value; the history's other columns are added.
    :param at: the event column with the time; ``begins`` is the history's column.
    """
    brought = [name for name in history.columns if name not in {*on, begins}]
    keys = [f"_key_{number}" for number in range(len(on))]
    row, value = F.struct(*events.columns), F.struct(*brought)
    ours = events.select(
        *(F.col(column).alias(key) for key, column in zip(keys, on.values())),
        F.col(at).alias("_time"),
        F.lit(1).alias("_is_event"),
        row.alias("_event"),
    )
    theirs = history.select(
        *(F.col(column).alias(key) for key, column in zip(keys, on)),
        F.col(begins).alias("_time"),
        F.lit(0).alias("_is_event"),
        value.alias("_value"),
    )
    so_far = Window.partitionBy(*keys).orderBy("_time", "_is_event").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    last = F.last("_value", ignorenulls=True).over(so_far)
    joined = ours.unionByName(theirs, allowMissingColumns=True).withColumn("_value", last).where(F.col("_is_event") == 1)
    return joined.select("_event.*", *(F.col(f"_value.{name}").alias(name) for name in brought))


DAY = timedelta(days=1)


def events(
    spark: SparkSession,
    lake: Lake,
    catalog: Catalog,
    contract: TrainingSetContract,
    known: Knowledge,
    span: records.Span,
    reading: Reading,
) -> DataFrame:
    """The events of ``span`` with their features: record_key, event_ts, event_date, the features, and the join columns.

    An event without a time of day counts as the first moment of its day in UTC.
    """
    rows = _by_themselves(spark, lake, catalog, contract, known, span, reading)
    for join in contract.features.joins:
        dimension = catalog.sources[join.dimension]
        history = history_of_dimension(spark, lake, dimension, join, known, reading)
        on = {f"_of_{name}": f"{KEY_PREFIX}{column}" for name, column in zip(dimension.primary_key, join.on)}
        rows = with_last(rows, history, on, "event_ts", BEGINS)
        has_ended = F.col(ENDS) <= F.col("event_ts")
        rows = _emptied_where(rows, has_ended, join.names).drop(ENDS)
    for entry in contract.features.metrics:
        history = history_of_metric(spark, lake, catalog, entry, known, reading)
        on = {f"_of_{name}": f"{KEY_PREFIX}{column}" for name, column in entry.on.items()}
        rows = with_last(rows, history, on, "event_ts", BEGINS)
        if entry.max_age is not None:
            age = F.expr(f"interval {int(entry.max_age.total_seconds())} seconds")
            rows = _emptied_where(rows, F.col(ENDS) < F.col("event_ts") - age, [name for _, name in entry.measures])
        rows = rows.drop(ENDS)
    return rows.select(
        "record_key",
        "event_ts",
        "event_date",
        *contract.features.names,
        *(f"{KEY_PREFIX}{name}" for name in contract.key_columns),
    )


def _by_themselves(
    spark: SparkSession,
    lake: Lake,
    catalog: Catalog,
    contract: TrainingSetContract,
    known: Knowledge,
    span: records.Span,
    reading: Reading,
) -> DataFrame:
    """The events with the features from their own columns, and the columns for joins."""
    source = catalog.sources[contract.entity.source]
    inputs = known.sources[source.dataset]
    rows = records.events(spark, lake, source, inputs, span, reading)
    if contract.entity.where:
        rows = rows.where(F.expr(contract.entity.where))
    at = F.coalesce(F.col("event_ts"), dataframes.start_of_day(F.col("event_date"), ZoneInfo(source.clocks.timezone)))
    of_event = [
        F.col(column).alias(column)
        if isinstance(column, str)
        else F.expr(sql_expressions.cast(column.sql, column.type)).alias(column.name)
        for column in contract.features.columns
    ]
    joined_by = [F.col(name).alias(f"{KEY_PREFIX}{name}") for name in contract.key_columns]
    return rows.select("record_key", at.alias("event_ts"), "event_date", *of_event, *joined_by)


def with_labels(
    spark: SparkSession,
    lake: Lake,
    catalog: Catalog,
    contract: TrainingSetContract,
    rows: DataFrame,
    known: Knowledge,
    mature_by: datetime,
) -> DataFrame:
    """The events with a mature label, with ``label`` and ``label_known_at``.

    :param mature_by: events whose label is not mature by this time are left out.
    """
    label = contract.label
    of_events = labels.of_events(spark, lake, catalog.sources[label.source], label, known.sources[label.source])
    is_mature = F.col("event_ts") + F.expr(f"interval {int(label.maturity.total_seconds())} seconds") <= F.lit(mature_by)
    key = F.col(f"{KEY_PREFIX}{label.event_key}")
    joined = rows.where(is_mature).join(of_events, key == of_events["key"], "left").drop("key")
    if label.default is None:
        return joined.where(F.col("label").isNotNull())
    return joined.withColumn("label", F.coalesce("label", _default(label)))


def labelled(
    spark: SparkSession,
    lake: Lake,
    catalog: Catalog,
    contract: TrainingSetContract,
    span: records.Span,
    reading: Reading,
    known_at: datetime | None = None,
) -> pa.Table:
    """The labelled rows of the events of ``span``, for the evaluation of a model.

    The rows are sorted by event time and key. They have the knowledge of now, or of ``known_at``.
    """
    known = records.now(lake, contract.sources, known_at)
    with sized_for(spark, lake, many=ingestions.are_many(lake, contract.entity.source)):
        rows = events(spark, lake, catalog, contract, known, span, reading)
        mature = with_labels(spark, lake, catalog, contract, rows, known, known.published_until)
        return mature.orderBy("event_ts", "record_key").toArrow()


def keys_with_label(
    spark: SparkSession,
    lake: Lake,
    catalog: Catalog,
    contract: TrainingSetContract,
    first: date,
    until: date,
) -> pa.Table:
    """The keys (record_key) of events from ``first`` until before ``until`` whose label is mature now; computes no feature."""
    known = records.now(lake, contract.sources)
    with sized_for(spark, lake, many=ingestions.are_many(lake, contract.entity.source)):
        rows = _by_themselves(spark, lake, catalog, contract, known, records.Span(first, until), contract.reading)
        return with_labels(spark, lake, catalog, contract, rows, known, known.published_until).select("record_key").toArrow()


def unlabelled(
    spark: SparkSession,
    lake: Lake,
    catalog: Catalog,
    contract: TrainingSetContract,
    days: Collection[date],
    known_at: datetime | None = None,
) -> pa.Table:
    """The events of ``days`` with their features as known then, for scoring; sorted by event time and key."""
    known = records.now(lake, contract.sources, known_at)
    span = records.Span(min(days), max(days) + DAY)
    with sized_for(spark, lake, many=ingestions.are_many(lake, contract.entity.source)):
        rows = events(spark, lake, catalog, contract, known, span, "as_known")
        return rows.where(F.col("event_date").isin(sorted(days))).orderBy("event_ts", "record_key").toArrow()


def _emptied_where(rows: DataFrame, condition: Column, names: Collection[str]) -> DataFrame:
    kept = ~F.coalesce(condition, F.lit(False))
    return rows.withColumns({name: F.when(kept, F.col(name)) for name in names})


def _default(label: Label) -> Column:
    return F.lit(label.default).cast(label.type)


#: The columns with the start of a value, and with the moment at which it ends or from which its age counts.
BEGINS, ENDS = "_begins", "_ends"


def history_of_dimension(
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
        every = joins.intervals_as_then(spark, lake, contract, inputs.ids, inputs.until)
        return every.select(*key, *names, F.col("valid_from").alias(BEGINS), F.col("valid_to").alias(ENDS))
    columns = _record_columns(contract)
    rows = records.records(spark, lake, contract, inputs).select(*(name for name, _ in columns[1:]))
    of_key = F.expr(f"substring(record_key, 1, length(record_key) - {TIME_LENGTH})")
    by_key = rows.withColumn("_key", of_key).repartition("_key").sortWithinPartitions("_key")
    found = by_key.mapInArrow(partial(_known_of, contract), ddl((*columns, ("from_ts", "timestamp"))))
    holds = F.col("kind").isNotNull() & ~F.coalesce("key_ends", F.lit(False))
    values = [F.when(holds, F.col(column)).alias(name) for column, name in join.attributes]
    return found.select(*key, *values, F.col("from_ts").alias(BEGINS), F.col("ends_at").alias(ENDS))


def history_of_metric(
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
    end_of_day = dataframes.start_of_day(F.date_add(series.by, 1), zone)
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
    for whole in joins.whole_keys(batches):
        of_keys = tables.by_key(contract, whole.drop_columns(["_key"]))
        columns = arrow_schema((*_record_columns(contract), ("from_ts", "timestamp")))
        yield from records.known_values(of_keys).select(columns.names).cast(columns).to_batches()
