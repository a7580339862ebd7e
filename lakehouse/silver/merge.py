"""Silver: per key the greatest row by the total order, on its own event day (rules R2, R3).

This is the reprocess policy ``merge``; :func:`state` computes the rows that silver should hold on given days under the other
policies as well (``dispositions.reprocess_policy``). :func:`merge` applies pending ingestions, ``local_merge`` does so where few
rows are concerned, and :func:`rebuild` computes days from Bronze; all give the same rows. Which of them is used is decided in
``update``. A contract identifies its silver table: ``SourceContract.newest`` that of the newest rows of an ``append`` source.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.calendar import days as day_conditions
from lakehouse.delta import layout
from lakehouse.delta.columns import silver_columns
from lakehouse.dispositions import claims, deliveries, living_rows, row_frames
from lakehouse.dispositions.living_rows import Slice
from lakehouse.dispositions.readings import ROW_ID
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.dispositions.winners import LIVING_KINDS
from lakehouse.lake import table_io, table_parts
from lakehouse.ledger import decisions, key_log
from lakehouse.silver import admitted_claims
from lakehouse.spark import commits as spark_commits
from lakehouse.spark import dataframes
from lakehouse.spark.commits import MergeClauses

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date

    from deltalake import DeltaTable
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.dispositions.reprocess_policy import Choice
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion

_SORTED_ROWS = 500_000  # the approximate number of rows that a task sorts by day before it writes them
#: The most days of a list with a place for each.
_SPANNED_DAYS = 2**16
_CLAIM_ROW = ["record_key", "event_date", "arrival_date", "ingestion_id", "line_number"]


def state(
    spark: SparkSession,
    lake: Lake,
    contract: SourceContract,
    wanted: Slice,
    *,
    staged: Lake | None = None,
    instead: pa.Table | None = None,
) -> DataFrame:
    """The ``wanted`` rows of silver, computed only from Bronze, decisions, redactions and the contract.

    Few rows are computed in this process, many by tasks of Spark.

    :param staged: the lake of a stage: its Bronze rows and their claims count as well.
    :param instead: claims that replace the recorded judgement of the same claims.
    """
    source, days, ids, until = contract.dataset, wanted.days, wanted.ids, wanted.until
    if staged is None and not instead:
        few = min(lake.settings.local_rows, dataframes.FEW_ROWS)
        rows = living_rows.computed(lake, contract, wanted, few)
        if rows is not None:
            return dataframes.local(spark, rows)
    log = admitted_claims.of_inputs(spark, lake, source, ids, wanted.keys)
    if staged is not None:
        log = admitted_claims.with_staged(spark, log, lake, staged, contract.dataset)
    if instead:
        log = admitted_claims.judged_as_then(spark, log, instead)
    if until is not None:
        log = log.where(F.col("arrival_ts") <= F.lit(until))
    if wanted.without is not None:
        log = log.join(F.broadcast(dataframes.local(spark, wanted.without)), wanted.without.column_names, "left_anti")
    counting = admitted_claims.admitted(spark, log, decisions.newest(lake, contract.dataset, ids))
    counting = admitted_claims.ordered(spark, counting, deliveries.of(lake, contract, ids, until, staged=staged))
    # A checkpoint instead of persist(): the next time, Spark would answer the same query from its cache and miss the rows that
    # delta-rs has added to the key log since.
    chosen = claims.choices(lake, contract, days, ids, until, staged=staged)
    living = _living(spark, contract, counting, days, chosen).localCheckpoint()
    of_keys = living
    if contract.has_partial_corrections:
        of_keys = counting.where("kind <> 'retire'").join(living.select("record_key"), "record_key", "left_semi")
    arrivals = {row[0] for row in of_keys.select("arrival_date").distinct().collect()}
    rows = row_frames.sound_rows(spark, lake, contract, {"arrival_date": arrivals}, ids, staged)
    if contract.has_partial_corrections:
        rows = row_frames.completed(contract, of_keys, rows)
    # With the event day, in case a reading of the rows is just being applied: their claims may be others already.
    return rows.join(living.select(*_CLAIM_ROW), _CLAIM_ROW, "left_semi")


def _living(
    spark: SparkSession, contract: SourceContract, counting: DataFrame, days: Collection[date], chosen: dict[date, Choice]
) -> DataFrame:
    """The claims that put a row on one of ``days``, under the source's reprocess policy."""
    policy = policy_of(contract)
    if not policy.keys_contend:
        return counting.where(_lives(days))
    if policy.chooses_deliveries:
        counting = admitted_claims.of_chosen(spark, contract, counting, chosen)
    else:
        concerned = counting.where(on_days(days)).select("record_key").distinct()
        counting = counting.join(concerned, "record_key", "left_semi")
    return admitted_claims.winners(counting, by_sequence=policy.by_sequence, each_day=policy.contends_per_day).where(_lives(days))


def merge(
    spark: SparkSession,
    lake: Lake,
    contract: SourceContract,
    days: Collection[date],
    contents: Mapping[str, Ingestion],
    arrival_days: Collection[date],
    why: dict[str, Any],
) -> None:
    """Merge pending ingestions into ``days``, in one commit that also moves rows between these days.

    Rows are appended if silver has no row on these days.

    :param contents: the ingestions, by their ids.
    :param arrival_days: the partitions of Bronze with the rows of the ingestions.
    """
    target = locations.silver_of(lake, contract)
    row_count = sum(entry.rows for entry in contents.values())
    while True:
        target.newest_version()  # the key log has to be as new as silver, see the end
        table = spark_commits.table_of(target, silver_columns(contract), *layout.of_silver(lake))
        before = table.version()
        if not table_io.rows_at_most(table, {"event_date": days}):
            rows = _first_rows(spark, lake, contract, days, contents, arrival_days)
            rows = _in_files(lake, table, rows, rows_by_day(contents, days))
            spark_commits.append_alone(rows, target, f"silver:{contract.silver_table}", before, why)
            if target.is_beyond(before + 1):  # a rebuild may have brought the same rows
                rebuild(spark, lake, contract, days, why, rows_of_days=rows_by_day(contents, days))
            return
        if row_count > lake.settings.held_rows:
            claims_of_keys = admitted_claims.about_keys_of(spark, lake, contract.dataset, contents)
        else:
            keys, _ = key_log.keys_and_days(lake, contract.dataset, contents, arrival_days)
            claims_of_keys = admitted_claims.about(spark, lake, contract.dataset, keys)
        source = _merge_source(spark, lake, contract, days, claims_of_keys, arrival_days)
        spark_commits.merge(spark, source, target, clauses(table, contract, days), why)
        if not target.is_beyond(before + 1):
            return
        # Another writer has committed since the key log was read: its rows may outrank a row written here.


def rebuild(
    spark: SparkSession,
    lake: Lake,
    contract: SourceContract,
    days: Collection[date],
    why: dict[str, Any],
    *,
    rows_of_days: Mapping[date, int],
) -> set[date]:
    """Compute days from Bronze and replace those whose content differs.

    :param rows_of_days: the approximate number of rows of each day.
    :returns: the days that were written.
    """
    target = locations.silver_of(lake, contract)
    written: set[date] = set()
    while True:
        before = target.newest_version()  # what is computed has to be as new as silver
        wanted = _in_files(lake, target.open(), state(spark, lake, contract, Slice(days)), rows_of_days).persist()
        try:
            current = spark.read.format("delta").load(target.address).where(on_days(days))
            different = changed_days(current, wanted)
            if different:
                spark_commits.replace_days(wanted.where(on_days(different)), target, different, why)
        finally:
            wanted.unpersist()
        written |= different
        if not target.is_beyond(before + bool(different)):
            return written
        # Another writer has committed since Bronze was read. Delta reports no conflict, because its transaction began later.


def changed_days(before: DataFrame, after: DataFrame) -> set[date]:
    """The event days on which two sets of rows differ, as multisets.

    Rows are compared as in ``quality.row_sums``, by their number and the sum of their hashes: no row has to be shuffled.
    """
    columns = after.columns
    signed = before.select(*columns, F.lit(-1).alias("_sign")).unionByName(after.select(*columns, F.lit(1).alias("_sign")))
    hashed = row_hash(columns)
    halves = {"_high": F.shiftright("_hash", 32), "_low": F.col("_hash").bitwiseAND(F.lit(0xFFFFFFFF))}  # no sum overflows
    sums = [F.sum("_sign").alias("_count"), *(F.sum(F.col("_sign") * half).alias(name) for name, half in halves.items())]
    by_day = signed.select("event_date", "_sign", hashed.alias("_hash")).groupBy("event_date").agg(*sums)
    return {row[0] for row in by_day.where("_count <> 0 OR _high <> 0 OR _low <> 0").select("event_date").collect()}


def row_hash(columns: Sequence[str]) -> Column:
    """A hash of the ``columns`` of a row."""
    # Spark's hash skips NULL, so that it would not depend on the column in which a value occurs.
    return F.xxhash64(*columns, *(F.col(name).isNull() for name in columns))


def _in_files(lake: Lake, table: DeltaTable | None, rows: DataFrame, rows_of_days: Mapping[date, int]) -> DataFrame:
    """The rows, partitioned so that every task writes whole days, and those that share a file in their order.

    :param table: the table to which they are written.
    :param rows_of_days: about how many rows each day has.
    """
    if table is None or not table_parts.share_files(table):
        return rows.repartition(max(2, sum(rows_of_days.values()) // _SORTED_ROWS), "event_date")
    files = table_parts.filled(sorted(rows_of_days.items()), layout.rows_per_file(lake, table)) or [[]]
    place = F.lit(0)
    if len(files) > 1:
        numbers = {day: number for number, days in enumerate(files) for day in days}
        first, span = min(numbers), (max(numbers) - min(numbers)).days
        if span < _SPANNED_DAYS:  # a map is searched, an array is not
            by_offset = F.lit([numbers.get(first + timedelta(days=offset), 0) for offset in range(span + 1)])
            place = F.try_element_at(by_offset, F.datediff("event_date", F.lit(first)) + 1)
        else:
            by_day = F.create_map(*(F.lit(one) for pair in numbers.items() for one in pair))
            place = F.try_element_at(by_day, F.col("event_date"))
    return rows.repartitionById(len(files), F.coalesce(place, F.lit(0)).cast("int")).sortWithinPartitions("event_date")


def rows_by_day(contents: Mapping[str, Ingestion], days: Collection[date]) -> Counter[date]:
    """About how many rows the ingestions bring to each of the days."""
    brought: Counter[date] = Counter()
    for entry in contents.values():
        brought.update({day: count for day, count in entry.rows_by_day.items() if day in days})
    return brought


def _first_rows(
    spark: SparkSession,
    lake: Lake,
    contract: SourceContract,
    days: Collection[date],
    ingestion_ids: Collection[str],
    arrival_days: Collection[date],
) -> DataFrame:
    """The rows that the ingestions bring to days on which silver has none; only the claims about contested keys are compared."""
    source, columns = contract.dataset, [name for name, _ in silver_columns(contract)]
    contested = admitted_claims.contested_keys(lake, source, ingestion_ids, arrival_days)
    delivered = {"arrival_date": arrival_days, "ingestion_id": ingestion_ids}
    rows = row_frames.sound_rows(spark, lake, contract, delivered).where(on_days(days)).select(*columns)
    if contested is None:
        weighed = admitted_claims.about_keys_of(spark, lake, source, ingestion_ids)
    elif len(contested):
        weighed = admitted_claims.about(spark, lake, source, contested)
    else:
        return rows
    won = _merge_source(spark, lake, contract, days, weighed, arrival_days).where("_lives AND _present").select(*columns)
    if contested is None:
        return won
    keys = dataframes.local(spark, pa.table({"record_key": contested}))
    return rows.join(F.broadcast(keys), "record_key", "left_anti").select(*columns).unionByName(won)


def _merge_source(
    spark: SparkSession,
    lake: Lake,
    contract: SourceContract,
    days: Collection[date],
    claims_of_keys: DataFrame,
    arrival_days: Collection[date],
) -> DataFrame:
    """One row per key of ``claims_of_keys`` and day on which silver may hold it; see ``local_merge``."""
    places = claims_of_keys.where(on_days(days)).select("record_key", F.col("event_date").alias("_day")).distinct()
    counting = admitted_claims.admitted(spark, claims_of_keys, decisions.newest(lake, contract.dataset))
    counting = admitted_claims.ordered(spark, counting, deliveries.of(lake, contract))
    won = admitted_claims.winners(counting, by_sequence=contract.by_sequence).join(places, "record_key")
    won = won.withColumn("_lives", _lives(days) & (F.col("event_date") == F.col("_day")))
    rest = won.select("record_key", "_day", "_lives", *(F.col(name).alias(f"_{name}") for name in ROW_ID))
    rows = row_frames.sound_rows(spark, lake, contract, {"arrival_date": arrival_days}).withColumn("_present", F.lit(True))
    same_row = [
        rows.record_key == rest.record_key,
        rows.ingestion_id == rest["_ingestion_id"],
        rows.line_number == rest["_line_number"],
    ]
    return rest.join(rows, same_row, "left").drop(rows.record_key)


def clauses(table: DeltaTable, contract: SourceContract, days: Collection[date]) -> MergeClauses:
    """The clauses of the MERGE into silver's table, for Spark and for delta-rs.

    A row that wins its key replaces the present one, which may also be newer: when its key was retired, or when older content was
    delivered again. Columns of the table that the contract no longer has are emptied, so that no older value stays in them.
    """
    columns = [name for name, _ in silver_columns(contract)]
    another = "(" + " OR ".join(f"s._{name} <> t.{name}" for name in ROW_ID) + ")"
    return MergeClauses(
        on=f"{day_conditions.condition_among('t.event_date', days)} AND t.event_date = s._day AND t.record_key = s.record_key",
        delete=f"{another} AND NOT s._lives",
        update=f"{another} AND s._present",
        insert="s._lives AND s._present",
        columns=columns,
        emptied=[item.name for item in table.schema().fields if item.name not in columns],
    )


def _lives(days: Collection[date]) -> Column:
    """Whether a claim puts a row on one of ``days``."""
    return F.coalesce(F.col("kind").isin(*LIVING_KINDS) & on_days(days), F.lit(False))


def on_days(days: Collection[date]) -> Column:
    """Whether a row lies on one of ``days``; NULL for one without a day."""
    # As text: to build a Column from objects takes several calls to the JVM for each day.
    return F.expr(day_conditions.condition_among("event_date", days))
