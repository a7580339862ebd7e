"""The measures of a day over each set of rows between the rows that the stream has counted and the rows of silver, with Spark.

The sets are those of ``causes.RowSet``. A row of Bronze enters the chain by its relation to the stream, and leaves it with its
disposition (rule R4); then come the rows of silver themselves, so that any other difference from Bronze (parsed again, redacted)
counts as corrected. The last set has the rows that the metric counts: silver's without those that ``late_events`` leaves out, and
with the older rows that take their place. A correction that takes a row to another window is a move; a correction under another
key counts as corrected in both windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.contracts.series import Series, source_days
from lakehouse.contracts.windows import WINDOW_START
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.dispositions import account, reprocess_policy
from lakehouse.gold.publication import late_at_close
from lakehouse.gold.restatement import lineage, metric_query
from lakehouse.gold.restatement import silver_rows as rows_read
from lakehouse.lake import table_io
from lakehouse.ledger import key_log
from lakehouse.ledger.row_states import Disposition
from lakehouse.live import stream
from lakehouse.live.causes import RowSet
from lakehouse.spark import commits, dataframes
from lakehouse.spark.session import in_zone, sized_for

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


#: The column of the result with the number of the set.
ROW_SET = "row_set"
_ROW_ID = ("ingestion_id", "line_number")
_ENTERS, _LEAVES, _PLACE, _SUPERSEDED = "enters", "leaves", "place", "superseded"
_LEAVES_WITH = {
    Disposition.DUPLICATE: RowSet.DUPLICATE,
    Disposition.QUARANTINED: RowSet.QUARANTINED,
    Disposition.REJECTED: RowSet.REJECTED,
    Disposition.DROPPED: RowSet.DROPPED_BY_POLICY,
}
_DISPOSITIONS = pa.array([disposition.value for disposition in _LEAVES_WITH])
_SETS = pa.array([int(step) for step in _LEAVES_WITH.values()], pa.int32())
#: The dispositions of rows that did not contend for their key.
_BARRED = pa.array([disposition.value for disposition in _LEAVES_WITH if disposition is not Disposition.DUPLICATE])
_RETIRED = reprocess_policy.RETIRED.because
_DELETED = pa.array([reprocess_policy.DELETED.because, reprocess_policy.DELETE_WAS_HERE.because])
_INSERT = "insert"


def measured(
    spark: SparkSession, lake: Lake, metric: MetricContract, contract: SourceContract, day: date, batches: pa.Table
) -> pa.Table:
    """The measures of each set of rows on an event day: :data:`ROW_SET`, event_date, the grain, the measures and row_count.

    A group without rows in a set is left out.

    :param batches: from ``batches``: the rows of Bronze that the stream has read.
    """
    days = source_days(metric, [day])
    leaving, corrected_keys = _leaving(lake, contract, days)
    with sized_for(spark, lake, many=_many(lake, contract, days)), commits.watched(spark, f"{metric.name} on {day}"):
        delivered = _delivered(spark, lake, metric, contract, days, batches)
        present = _present(spark, lake, metric, contract, days)
        delivered = _with_leaving(delivered, dataframes.local(spark, leaving), present)
        present = _with_entering(present, dataframes.local(spark, corrected_keys), delivered)
        columns = [*dict.fromkeys([*metric.columns_read(delivered.columns), "event_date", *metric.grain]), _ENTERS, _LEAVES]
        rows = delivered.select(*columns).unionByName(present.select(*columns))
        if (counting := _counting(spark, lake, metric, [day])) is not None:
            rows = rows.unionByName(counting.select(*columns))
        rows = rows.where(F.col("event_date") == F.lit(day))
        in_sets = rows.withColumn(ROW_SET, F.explode(F.sequence(F.col(_ENTERS), F.col(_LEAVES) - 1)))
        with in_zone(spark, metric.zone):
            return dataframes.in_utc(metric_query.measured(in_sets, metric, [ROW_SET, "event_date", *metric.grain]).toArrow())


def _leaving(lake: Lake, contract: SourceContract, days: Collection[date]) -> tuple[pa.Table, pa.Table]:
    """The inserts on ``days`` that silver does not hold, with the set that each leaves, and the keys of corrections that silver
    holds and that also have an insert.

    Nearly all rows are held by silver as they were inserted; they are not among the result.
    """
    parts, keys = [], [pa.table({"record_key": pa.array([], pa.string())})]
    wanted = pa.array(sorted(days), pa.date32())
    for piece in account.pieces(lake, contract, {"event_date": days}):
        inserts = pc.equal(piece["change_op"], _INSERT)
        corrections = piece.filter(pc.and_(piece["lives"], pc.invert(inserts)))["record_key"]
        contended = pc.and_(inserts, pc.invert(pc.is_in(piece["disposition"], value_set=_BARRED)))
        inserted = piece.filter(pc.and_(contended, pc.is_in(piece["record_key"], value_set=pc.unique(corrections))))
        keys.append(inserted.select(["record_key"]).group_by("record_key").aggregate([]))
        outside = pc.invert(piece["lives"])
        rows = piece.filter(pc.and_(pc.and_(inserts, outside), pc.is_in(piece["event_date"], wanted)))
        parts.append(_labelled(rows, piece.filter(pc.invert(inserts))))
    schema = pa.schema(
        [*((name, account.SCHEMA.field(name).type) for name in _ROW_ID), (_LEAVES, pa.int32()), (_SUPERSEDED, pa.bool_())]
    )
    return pa.concat_tables([schema.empty_table(), *parts]), pa.concat_tables(keys)


def _labelled(rows: pa.Table, others: pa.Table) -> pa.Table:
    """Inserts that silver does not hold, with the set that each leaves, and whether a newer record supersedes it.

    A delete or a correction may repeat the content of the insert: the insert does not count as a duplicate of it here.

    :param others: the deletes and corrections of the same keys.
    """
    outranked_by = _kinds(rows["decided_by"], others)
    equal = pc.equal(rows["disposition"], Disposition.DUPLICATE.value)
    deleted = pc.or_(pc.is_in(rows["because"], value_set=_DELETED), pc.and_(equal, _is(outranked_by, "delete")))
    superseded = pc.or_(
        pc.and_(equal, _is(outranked_by, "correct")),
        pc.and_(pc.equal(rows["disposition"], Disposition.SUPERSEDED.value), pc.invert(pc.equal(rows["because"], _RETIRED))),
    )
    superseded = pc.and_(superseded, pc.invert(deleted))
    by_disposition = _SETS.take(pc.index_in(rows["disposition"], value_set=_DISPOSITIONS))
    leaves = pc.case_when(
        pc.make_struct(deleted, superseded),
        pa.scalar(int(RowSet.DELETED), pa.int32()),
        pa.scalar(int(RowSet.CORRECTED), pa.int32()),
        pc.fill_null(by_disposition, int(RowSet.CORRECTED)),
    )
    return pa.table({**{name: rows[name] for name in _ROW_ID}, _LEAVES: leaves, _SUPERSEDED: superseded})


def _kinds(rows: pa.ChunkedArray, others: pa.Table) -> pa.ChunkedArray:
    """The kind of the record that each file and line names; NULL for an insert."""
    places = pc.binary_join_element_wise(others["source_file"], others["line_number"].cast(pa.string()), ":")
    return others["change_op"].take(pc.index_in(rows, value_set=places, skip_nulls=True))


def _is(kinds: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    return pc.fill_null(pc.equal(kinds, kind), False)


def _delivered(
    spark: SparkSession,
    lake: Lake,
    metric: MetricContract,
    contract: SourceContract,
    days: Collection[date],
    batches: pa.Table,
) -> DataFrame:
    """The inserts in Bronze, in each of their windows, with the set in which the stream puts them."""
    columns = list(dict.fromkeys([*stream.columns_read(metric, contract), "record_key", "event_date", *_ROW_ID]))
    where = {"arrival_date": key_log.arrival_days_with_rows_on(lake, contract.dataset, days), "event_date": days}
    bronze = dataframes.scan(spark, lake, locations.bronze(lake, contract.dataset), columns, where)
    rows = stream.in_windows(stream.inserts(bronze, contract), metric)
    read = F.broadcast(
        dataframes.local(spark, batches.select(["ingestion_id", "first_line", "last_line", "batch", "watermark_before"]))
    )
    in_batch = (rows["ingestion_id"] == read["ingestion_id"]) & rows["line_number"].between(read["first_line"], read["last_line"])
    rows = rows.join(read, in_batch, "left").drop(read["ingestion_id"])
    is_dropped = stream.is_dropped(stream.window_end(metric, contract), F.col("watermark_before"))
    enters = (
        F.when(F.col("event_ts").isNull(), int(RowSet.WITHOUT_EVENT_TIME))
        .when(F.col("batch").isNull(), int(RowSet.NOT_READ))
        .when(is_dropped, int(RowSet.LATE_DROPPED))
        .otherwise(int(RowSet.COUNTED))
    )
    return rows.withColumn(_ENTERS, enters).withColumn(_PLACE, _place(metric))


def _present(
    spark: SparkSession, lake: Lake, metric: MetricContract, contract: SourceContract, days: Collection[date]
) -> DataFrame:
    """The rows of silver in each of their windows; they make the second-to-last set."""
    table, kinds = locations.silver_read(lake, metric), dict(silver_columns(contract))
    columns = list(dict.fromkeys([*metric.columns_read(list(kinds)), "record_key", "change_op", "event_ts"]))
    if table.open() is None:
        rows = dataframes.local(spark, arrow_schema(tuple((name, kinds[name]) for name in columns)).empty_table())
    else:
        rows = dataframes.scan(spark, lake, table, columns, {"event_date": days})
    rows = stream.in_windows(rows, metric)
    leaves = len(RowSet) if metric.late_source is None else int(RowSet.LATE_EVENTS)
    return rows.withColumn(_LEAVES, F.lit(leaves)).withColumn(_PLACE, _place(metric))


def _counting(spark: SparkSession, lake: Lake, metric: MetricContract, days: Collection[date]) -> DataFrame | None:
    """The rows that a metric with late events counts, in each of their windows, which make the last set; None without late
    events.
    """
    if metric.late_source is None:
        return None
    series = Series(metric)
    limited = {*days} - late_at_close.closed_with_every_row(lake, series, days)
    named = lineage.named_now(lake, metric, limited) if limited else None
    rows = rows_read.silver_rows(spark, lake, metric, days, named=named)
    rows = stream.in_windows(rows, metric)
    return rows.withColumn(_ENTERS, F.lit(int(RowSet.LATE_EVENTS))).withColumn(_LEAVES, F.lit(len(RowSet)))


def _with_leaving(delivered: DataFrame, leaving: DataFrame, present: DataFrame) -> DataFrame:
    """Inserts with the set that each leaves: a superseded insert whose key silver does not have in the same window has moved
    away.
    """
    rows = delivered.join(leaving, list(_ROW_ID), "left")
    superseded = rows.where(_SUPERSEDED)
    others = rows.where(~F.coalesce(_SUPERSEDED, F.lit(False))).withColumn(
        _LEAVES, F.coalesce(_LEAVES, F.lit(int(RowSet.CORRECTED)))
    )
    places = present.select("record_key", _PLACE).distinct()
    stayed = superseded.join(places, ["record_key", _PLACE], "left_semi")
    moved = superseded.join(places, ["record_key", _PLACE], "left_anti").withColumn(_LEAVES, F.lit(int(RowSet.MOVED)))
    return others.unionByName(stayed.select(*others.columns)).unionByName(moved.select(*others.columns))


def _with_entering(present: DataFrame, corrected_keys: DataFrame, delivered: DataFrame) -> DataFrame:
    """Rows of silver with the set that each enters: a correction of an insert that is in another window has moved here."""
    places = delivered.where(_SUPERSEDED).select("record_key", _PLACE).distinct().withColumn("was_here", F.lit(True))
    keys = corrected_keys.distinct().withColumn("was_inserted", F.lit(True))
    rows = present.join(keys, "record_key", "left").join(places, ["record_key", _PLACE], "left")
    moved = (F.col("change_op") != _INSERT) & F.col("was_inserted") & F.col("was_here").isNull()
    enters = F.when(moved, int(RowSet.MOVED)).otherwise(int(RowSet.CORRECTED))
    return rows.withColumn(_ENTERS, enters)


def _place(metric: MetricContract) -> F.Column:
    """The window of a row, or its event day, as text: two rows are in the same window if their texts are equal."""
    start = F.coalesce(F.unix_micros(WINDOW_START).cast("string"), F.lit("")) if metric.event_window else F.lit("")
    return F.concat_ws(" ", F.col("event_date").cast("string"), start)


def _many(lake: Lake, contract: SourceContract, days: Collection[date]) -> bool:
    bronze = locations.bronze(lake, contract.dataset).open()
    return bronze is not None and table_io.rows_at_most(bronze, {"event_date": days}) > dataframes.FEW_ROWS
