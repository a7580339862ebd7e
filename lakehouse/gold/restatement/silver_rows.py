"""The silver rows that a number is computed from, with their windows: those that silver holds, or those of named inputs (R10).

The rows of named inputs, or as known at a time, are computed from Bronze. Rows that came too late for the metric are left out, as
if they had never arrived. The rows of several sources become one table, with the metric's column names, and without rows that an
earlier source has too. Attributes of dimensions are the present ones, or those of the inputs. Recomputing and comparing numbers
belongs to ``reproduction``.

Windows and sessions are Spark expressions: a DataFrame in, a DataFrame out with a row for each window in which a row lies. A day
is ``[midnight, next midnight)`` in the zone of the window, so that a day with a clock change has 23 or 25 hours. The kinds of
windows are defined in ``contracts.windows``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.calendar import days as day_conditions
from lakehouse.contracts.metric_sources import wider
from lakehouse.contracts.series import source_days
from lakehouse.contracts.windows import WINDOW_START, SessionWindow
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.dimensions import joins
from lakehouse.dispositions.living_rows import Slice
from lakehouse.gold.numbers import published_table
from lakehouse.gold.restatement import silver_tables
from lakehouse.lake import table_io
from lakehouse.late_events import left_out
from lakehouse.ledger import redactions
from lakehouse.silver import merge as silver_merge
from lakehouse.snapshots import input_sets
from lakehouse.spark import dataframes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date, datetime
    from zoneinfo import ZoneInfo

    from pyspark.sql import Column, SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.metric_sources import Join, MetricSource
    from lakehouse.contracts.source import SourceContract
    from lakehouse.contracts.windows import EventWindow
    from lakehouse.lake import Lake


def rows(
    spark: SparkSession, lake: Lake, metric: MetricContract, held: DataFrame, named: Mapping[date, Collection[str]]
) -> DataFrame:
    """The rows that silver holds, where the rows of keys that late rows concern are computed without the late rows.

    :param held: the rows that silver holds on the event days concerned, with ``record_key`` and ``event_date``.
    :param named: the inputs of each of the days.
    """
    contract, columns, computed = metric.late_source, held.columns, list[DataFrame]()
    if contract is None:
        return held
    for ids, days in left_out.days_alike(named).items():
        late = left_out.on_days(lake, metric, contract, days, ids)
        if late is None:
            continue
        is_concerned = F.expr(day_conditions.condition_among("event_date", late.days))
        keys = F.broadcast(dataframes.local(spark, pa.table({"record_key": late.keys})))
        others = held.where(is_concerned).join(keys, "record_key", "left_anti").select(*columns)
        held = held.where(~is_concerned).unionByName(others)
        of_keys = silver_merge.state(spark, lake, contract, Slice(late.days, ids, keys=late.keys, without=late.rows))
        known = {name: F.col(name) if name in of_keys.columns else F.lit(None).alias(name) for name in columns}
        computed.append(of_keys.select(*known.values()))
    return reduce(DataFrame.unionByName, computed, held)


def columns_of(metric: MetricContract, entry: MetricSource, columns: Collection[str]) -> list[str]:
    """The columns of a silver table that the numbers of a metric may depend on.

    :param columns: the columns of the table.
    """
    if not metric.sources:
        return metric.columns_read(columns)
    return list(dict.fromkeys(entry.column(name) for name in types_read(metric)))


def unite(rows: Mapping[str, DataFrame], metric: MetricContract) -> DataFrame:
    """The rows of a metric's sources that count, as rows of one table.

    :param rows: by silver table, with its own column names. For a metric with one source they are returned unchanged.
    """
    if not metric.sources:
        [only] = rows.values()
        return only
    types = types_read(metric)
    frames = [_mapped(rows[entry.silver], entry, types) for entry in metric.sources]
    return reduce(lambda earlier, later: earlier.unionByName(_without(later, earlier, metric.deduplicate_by)), frames)


def types_read(metric: MetricContract) -> dict[str, str]:
    """The columns that a metric with several sources reads, by the metric's names, with their Spark types."""
    types = dict(silver_columns(metric.source_contracts[metric.source]))
    read = {name: {types[name]} for name in metric.columns_read(list(types))}
    for entry in metric.sources[1:]:
        theirs = dict(silver_columns(metric.source_contracts[entry.source]))
        for name, kinds in read.items():
            kinds.update({theirs[entry.column(name)]} if entry.column(name) in theirs else ())
    return {name: wider(kinds) or types[name] for name, kinds in read.items()}


def _mapped(rows: DataFrame, entry: MetricSource, types: Mapping[str, str]) -> DataFrame:
    """The columns that a metric reads of a source; a column that is newer than the rows is empty."""
    held = set(rows.columns)
    values = {name: F.col(entry.column(name)) if entry.column(name) in held else F.lit(None) for name in types}
    return rows.select(*(values[name].cast(kind).alias(name) for name, kind in types.items()))


def _without(rows: DataFrame, earlier: DataFrame, by: Collection[str]) -> DataFrame:
    """The rows without an equal row of an earlier source on their event day; a NULL equals nothing.

    Rows of earlier sources that do not count themselves can be included: a still earlier source has their values.
    """
    if not by:
        return rows
    on = ["event_date", *by]
    return rows.join(earlier.select(*on).distinct(), on, "left_anti").select(rows.columns)


def silver_rows(
    spark: SparkSession,
    lake: Lake,
    metric: MetricContract,
    days: Collection[date],
    instead: Mapping[str, DataFrame] | None = None,
    named: Mapping[date, Collection[str]] | None = None,
) -> DataFrame:
    """The Silver rows that the numbers of ``days`` are computed from, with the columns that the metric reads.

    Files of other days are not read.

    :param instead: by silver table, rows that replace those that the table holds.
    :param named: for a metric with late events, the inputs of each day that is read from silver.
    """
    others = instead or {}
    rows = {
        entry.silver: others[entry.silver] if entry.silver in others else rows_held(spark, lake, metric, entry, days, named)
        for entry in metric.read
    }
    united = unite(rows, metric)
    if not metric.joins:
        return united
    facts = None if others or metric.late_events else _few_facts(lake, metric, {"event_date": source_days(metric, days)})
    return joins.joined(united, metric, joins.present(spark, lake, metric, facts))


def rows_held(
    spark: SparkSession,
    lake: Lake,
    metric: MetricContract,
    entry: MetricSource,
    days: Collection[date],
    named: Mapping[date, Collection[str]] | None = None,
) -> DataFrame:
    """The rows that silver holds of one source for the numbers of ``days``, with the source's own column names.

    :param named: see :func:`silver_rows`; rows of keys that late rows concern are computed as if the late rows had never arrived.
    """
    target = locations.silver_read_of(lake, entry)
    table = target.open()
    if table is None and metric.sources:  # the other sources may have rows
        types = dict(silver_columns(metric.source_contracts[entry.source]))
        names = columns_of(metric, entry, types)
        return dataframes.local(spark, arrow_schema(tuple((name, types[name]) for name in names)).empty_table())
    columns = [] if table is None else columns_of(metric, entry, [field.name for field in table.schema().fields])
    where: table_io.Where = {"event_date": source_days(metric, days)}
    if not named:
        return dataframes.scan(spark, lake, target, columns, where)
    held = dataframes.scan(spark, lake, target, list(dict.fromkeys(["record_key", *columns])), where)
    return rows(spark, lake, metric, held, named).select(*columns)


def _few_facts(lake: Lake, metric: MetricContract, where: table_io.Where) -> pa.Table | None:
    """The join columns of silver rows that meet ``where``; None if there are many."""
    held = [(entry, table) for entry, table in silver_tables.tables_read(lake, metric) if table is not None]
    if not held or sum(table_io.rows_at_most(table, where) for _, table in held) > dataframes.FEW_ROWS:
        return None
    names = sorted({name for on in metric.joined_on for name in on})
    parts = []
    for entry, table in held:
        columns = list(dict.fromkeys(entry.column(name) for name in names))
        found = table_io.with_columns(table_io.read_version(table, columns, where), columns)
        parts.append(pa.table([found[entry.column(name)] for name in names], names=names))
    return pa.concat_tables(parts, promote_options="permissive")


_Fields = dict[str, list[str]]


def rows_of_inputs(
    spark: SparkSession,
    lake: Lake,
    metric: MetricContract,
    contract: SourceContract,
    named: Mapping[date, set[str]],
    stored: str | None,
) -> tuple[DataFrame, _Fields]:
    """The rows of the Silver days in ``named`` with their attributes, and per key the metric's columns that were redacted since.

    :param contract: of the silver table of the metric's (first) source.
    :param named: the inputs of each of the days.
    :param stored: the published column ``dimension_inputs`` of the number: the inputs of its further sources and dimensions.
    """
    rows: dict[str, DataFrame] = {}
    hidden: _Fields = {}
    for entry in metric.read:
        is_first = entry.source == metric.source
        of_source = contract if is_first else entry.read_of(metric.further_sources[entry.source])
        ids = named if is_first else _named_beside(lake, entry, stored, named)
        rows[entry.silver], fields = _silver_of_then(spark, lake, metric, of_source, ids)
        for key, own in fields.items():
            hidden[key] = sorted({*hidden.get(key, ()), *(name for field in own for name in entry.names(field))})
    united = unite(rows, metric)
    return _with_attributes_of_then(united, lake, metric, stored), hidden


def rows_known_at(
    spark: SparkSession,
    lake: Lake,
    metric: MetricContract,
    contract: SourceContract,
    wanted: Slice,
    others_at: datetime,
) -> DataFrame:
    """The ``wanted`` rows of the (first) source, and those of the same days of further ones, with their attributes.

    :param others_at: rows of further sources and attributes of dimensions are those known by this time.
    """
    rows: dict[str, DataFrame] = {}
    for entry in metric.read:
        if entry.source == metric.source:
            rows[entry.silver] = _state(spark, lake, metric, contract, wanted)
        else:
            known = input_sets.known_at(lake, entry.source, others_at)
            of_source = entry.read_of(metric.further_sources[entry.source])
            rows[entry.silver] = _state(spark, lake, metric, of_source, Slice(wanted.days, known, others_at))
    return _with_attributes_known_at(unite(rows, metric), lake, metric, others_at)


def _with_attributes_of_then(rows: DataFrame, lake: Lake, metric: MetricContract, stored: str | None) -> DataFrame:
    """Silver rows with the attributes that a revision's inputs of the dimensions give them.

    :param stored: the published column ``dimension_inputs``; a dimension that it does not name is used in its present state.
    """
    named = published_table.parse(stored)

    def intervals_of(join: Join) -> DataFrame:
        contract, entry = metric.dimensions[join.dimension], named.get(join.dimension, {})
        ids = input_sets.ids_of(lake, join.dimension, entry["inputs"]) if entry else None
        return joins.intervals_as_then(rows.sparkSession, lake, contract, ids, without=entry.get("without"))

    return joins.joined(rows, metric, intervals_of)


def _with_attributes_known_at(rows: DataFrame, lake: Lake, metric: MetricContract, when: datetime) -> DataFrame:
    """Silver rows with their attributes as known at ``when``."""

    def intervals_of(join: Join) -> DataFrame:
        contract, ids = metric.dimensions[join.dimension], input_sets.known_at(lake, join.dimension, when)
        return joins.intervals_as_then(rows.sparkSession, lake, contract, ids, when)

    return joins.joined(rows, metric, intervals_of)


def _named_beside(lake: Lake, entry: MetricSource, stored: str | None, days: Collection[date]) -> dict[date, set[str]]:
    """The inputs of a further source for the Silver ``days``, as a number names them; none if it was computed without the
    source.
    """
    named = published_table.parse(stored).get(entry.source)
    if named is None:
        return {day: set() for day in days}
    ids = input_sets.ids_of(lake, entry.source, named["inputs"])
    return {day: ids - set(named["without"].get(f"{day}", ())) for day in days}


def _silver_of_then(
    spark: SparkSession,
    lake: Lake,
    metric: MetricContract,
    contract: SourceContract,
    named: Mapping[date, set[str]],
) -> tuple[DataFrame, _Fields]:
    """The Silver rows of the days in ``named``, each computed from its own inputs, and per key the fields redacted since."""
    parts = []
    hidden: _Fields = {}
    for ids, days in left_out.days_alike(named).items():
        rows = _state(spark, lake, metric, contract, Slice(days, ids))
        hidden |= _hidden_since(lake, contract, rows, ids)
        parts.append(rows)
    return reduce(DataFrame.unionByName, parts), hidden


def _state(spark: SparkSession, lake: Lake, metric: MetricContract, contract: SourceContract, wanted: Slice) -> DataFrame:
    """``silver.merge.state`` without rows that came too late for the metric; a source that has delivered nothing has no rows."""
    if locations.key_log(lake, contract.dataset).version() < 0:
        return dataframes.local(spark, arrow_schema(silver_columns(contract)).empty_table())
    late = (
        left_out.on_days(lake, metric, contract, wanted.days, wanted.ids)
        if metric.late_events and wanted.ids is not None
        else None
    )
    return silver_merge.state(spark, lake, contract, replace(wanted, without=late.rows if late else None))


def _hidden_since(lake: Lake, contract: SourceContract, rows: DataFrame, ids: Collection[str]) -> _Fields:
    """By key of ``rows``, the fields that redactions other than ``ids`` hide."""
    hidden: dict[str, set[str]] = defaultdict(set)
    before: dict[str, set[str]] = defaultdict(set)
    for entry in redactions.all_of(lake, contract.dataset):
        (before if entry.redaction_id in ids else hidden)[entry.record_key].update(entry.fields)
    since = {key: sorted(fields - before[key]) for key, fields in hidden.items() if fields - before[key]}
    if not since:
        return {}
    there = rows.where(F.col("record_key").isin(sorted(since))).select("record_key").distinct().collect()
    return {row[0]: since[row[0]] for row in there}


_MICROSECOND = timedelta(microseconds=1)
_STEPS = ("_pause", "_unbroken", "_day_before", "_is_first")


def with_sessions(rows: DataFrame, sessions: SessionWindow) -> DataFrame:
    """Rows with the first moment of their session in ``window_start``, and in ``event_date`` the day on which it begins.

    The sessions that begin on a day are correct if the rows of the two days before and of the next day are included. A row
    without an event time, or without a value in a column of the key, lies in no session: it stays on its day, with NULL. Rows
    without a key do not belong to one visitor, and would otherwise form one session that never ends.

    :param rows: with ``event_date``, ``event_ts`` and the key of the sessions.
    """
    placed = reduce(and_, (F.col(name).isNotNull() for name in ("event_ts", *sessions.key)))
    # Rows that lie in no session are a partition of their own, so that they do not interrupt others.
    own = [*sessions.key, placed]
    in_order, of_day = Window.partitionBy(*own).orderBy("event_ts"), Window.partitionBy(*own, "event_date")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    elapsed = F.unix_micros("event_ts") - F.unix_micros(F.lag("event_ts").over(in_order))
    rows = rows.withColumn("_pause", F.coalesce(elapsed > sessions.gap // _MICROSECOND, F.lit(True)))
    rows = rows.withColumn("_unbroken", ~F.max("_pause").over(of_day))
    rows = rows.withColumn("_day_before", F.lag("event_date").over(in_order))
    # A session that continued over the previous midnight, and did not pause on this day, ends with the day.
    has_lasted = F.lag("_unbroken").over(in_order) & (F.col("_day_before") != F.col("event_date"))
    rows = rows.withColumn("_is_first", F.col("_pause") | has_lasted)
    began = [
        F.last(F.when(F.col("_is_first"), F.col(name)), ignorenulls=True).over(so_far) for name in ("event_ts", "event_date")
    ]
    rows = rows.withColumns({"_began": began[0], "_began_on": began[1]})
    rows = rows.withColumn(WINDOW_START, F.when(placed, F.col("_began")))
    rows = rows.withColumn("event_date", F.when(placed, F.col("_began_on")).otherwise(F.col("event_date")))
    return rows.drop(*_STEPS, "_began", "_began_on")


_WINDOWS = "_windows"


def with_windows(rows: DataFrame, window: EventWindow | SessionWindow) -> DataFrame:
    """Rows with the first moment of their window in ``window_start``, and in ``event_date`` the day on which it begins.

    A row without an event time lies in no window: it stays, once, with NULL.

    :param rows: with ``event_date``, ``event_ts`` and the key of sessions.
    """
    if isinstance(window, SessionWindow):
        return with_sessions(rows, window)
    if not window.overlaps:
        start = _midnight("event_date", window.zone)
        passed = F.unix_micros("event_ts") - start
        return rows.withColumn(WINDOW_START, F.timestamp_micros(start + passed - passed % _micros(window.step)))
    before = F.date_sub("event_date", 1)
    days = F.concat(_covering(F.col("event_date"), window), _covering(before, window, until=_midnight("event_date", window.zone)))
    nowhere = F.array(F.struct(F.col("event_date").alias("day"), F.lit(None).cast("timestamp").alias("start")))
    every = rows.withColumn(_WINDOWS, F.explode(F.when(F.col("event_ts").isNull(), nowhere).otherwise(days)))
    placed = every.withColumn("event_date", F.col(f"{_WINDOWS}.day")).withColumn(WINDOW_START, F.col(f"{_WINDOWS}.start"))
    return placed.drop(_WINDOWS)


def is_among(starts: Collection[datetime | None]) -> Column:
    """Whether the window of a row begins at one of ``starts``."""
    known = [_literal(start) for start in starts if start is not None]
    among = [f"{WINDOW_START} IN ({', '.join(known)})"] if known else []
    return _any_of([*among, *([f"{WINDOW_START} IS NULL"] if None in starts else [])])


def lie_within(starts: Collection[datetime | None], size: timedelta) -> Column:
    """Whether a row lies in one of the spans that begin at ``starts``, so that files are skipped by their event times.

    :param starts: None stands for the rows without an event time.
    """
    spans = [f"(event_ts >= {_literal(start)} AND event_ts < {_literal(start + size)})" for start in starts if start is not None]
    return _any_of([*spans, *(["event_ts IS NULL"] if None in starts else [])])


def _literal(moment: datetime) -> str:
    """A moment in UTC, at a whole second, in SQL."""
    return f"TIMESTAMP'{moment:%Y-%m-%d %H:%M:%S}+00:00'"


def _any_of(conditions: Collection[str]) -> Column:
    return F.expr(" OR ".join(conditions) or "false")


def window_ends(window: EventWindow) -> Column:
    """The moment at which a window has ended, for rows with ``event_date`` and ``window_start`` from :func:`with_windows`."""
    start = F.unix_micros(WINDOW_START)
    if window.overlaps:
        return F.timestamp_micros(start + _micros(window.size))
    return F.timestamp_micros(F.least(start + _micros(window.step), _midnight(F.date_add("event_date", 1), window.zone)))


def next_midnight(zone: ZoneInfo) -> Column:
    """The moment at which the event day of a row has ended."""
    return F.timestamp_micros(_midnight(F.date_add("event_date", 1), zone))


def _covering(day: Column, window: EventWindow, until: Column | None = None) -> Column:
    """The windows that begin on a day and cover the row's event time, as an array of structs ``day``, ``start``.

    :param until: the microsecond at which the day ends; not needed for the row's own day.
    """
    start, step, size = _midnight(day, window.zone), _micros(window.step), _micros(window.size)
    passed = F.unix_micros("event_ts") - start
    first = F.greatest(F.lit(0), F.floor((passed - size) / step) + 1).cast("bigint")
    last = F.floor(passed / step) if until is None else F.least(F.floor(passed / step), F.floor((until - start - 1) / step))
    numbers = F.sequence(first, F.greatest(first, last.cast("bigint")))
    found = F.transform(numbers, lambda n: F.struct(day.alias("day"), F.timestamp_micros(start + n * step).alias("start")))
    return F.when(last >= first, found).otherwise(F.slice(found, 1, 0))


def _midnight(day: Column | str, zone: ZoneInfo) -> Column:
    """The first microsecond of a day since 1970."""
    return F.unix_micros(dataframes.start_of_day(F.col(day) if isinstance(day, str) else day, zone))


def _micros(length: timedelta) -> int:
    return int(length.total_seconds()) * 1_000_000
