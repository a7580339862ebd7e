"""The claims that contend for their keys, as a DataFrame, and the winners among them.

Claims are selected by the keys of ingestions, by admission, and by the chosen deliveries. The same rules for few rows are in
``dispositions.claims`` and ``dispositions.winners``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.pandas.types import from_arrow_type

from lakehouse import locations
from lakehouse.delta.columns import ORDER
from lakehouse.dispositions import deliveries, judgement_history
from lakehouse.dispositions.readings import ROW_ID
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.ledger import decisions, ingestions, key_log
from lakehouse.ledger.row_states import AdmissionStatus
from lakehouse.spark import dataframes

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date

    from pyspark.sql import Column, DataFrame, SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.dispositions.reprocess_policy import Choice
    from lakehouse.lake import Lake
    from lakehouse.ledger.decisions import Decision
    from lakehouse.ledger.ids import RowId

_DECISIONS = pa.schema([("ingestion_id", pa.string()), ("line_number", pa.int64()), ("_admits", pa.bool_())])


def key_log_of(spark: SparkSession, lake: Lake, source: str) -> DataFrame:
    """The key log; a column that is newer than the log is empty."""
    log = spark.read.format("delta").load(locations.key_log(lake, source).address)
    new = [item for item in key_log.SCHEMA if item.name not in log.columns]
    if not new:  # Spark Connect refuses to add no columns
        return log
    return log.withColumns({item.name: F.lit(None).cast(from_arrow_type(item.type)) for item in new})


def of_inputs(
    spark: SparkSession, lake: Lake, source: str, ids: Collection[str] | None, keys: pa.Array | None = None
) -> DataFrame:
    """The claims of ingestions: of those in ``ids`` with the judgement that their rows had then (R10); of all, with the present
    one.

    :param ids: ingestions, decisions and rebuild requests; None for all recorded ones.
    :param keys: only the claims about these keys.
    """
    log = key_log_of(spark, lake, source) if keys is None else about(spark, lake, source, keys)
    if ids is not None:
        log = judged_as_then(spark, log, judgement_history.as_of(lake, source, ids))
    return log.where(F.col("ingestion_id").isin(sorted(ingestions.completed(lake, source) if ids is None else ids)))


def about(spark: SparkSession, lake: Lake, source: str, keys: pa.Array) -> DataFrame:
    """All claims of recorded ingestions about ``keys``, read in this process."""
    found = key_log.about(lake, source, key_log.SCHEMA.names, keys)
    claimed = key_log.SCHEMA.empty_table() if found is None else found.cast(key_log.SCHEMA)
    ids = pa.array(sorted(ingestions.completed(lake, source)), pa.string())
    return dataframes.local(spark, claimed.filter(pc.is_in(claimed["ingestion_id"], value_set=ids)))


def about_keys_of(spark: SparkSession, lake: Lake, source: str, ingestion_ids: Collection[str]) -> DataFrame:
    """All claims of recorded ingestions about the keys that occur in these ingestions, computed by tasks of Spark."""
    log = key_log_of(spark, lake, source)
    spoken_of = log.where(F.col("ingestion_id").isin(sorted(ingestion_ids))).select("record_key").distinct()
    wanted = log.where(F.col("ingestion_id").isin(sorted(ingestions.completed(lake, source))))
    return wanted.join(spoken_of, "record_key", "left_semi")


def contested_keys(lake: Lake, source: str, ingestion_ids: Collection[str], arrival_days: Collection[date]) -> pa.Array | None:
    """The keys of these ingestions whose winner is not obvious: a key with a single claim, an admitted insert, is not contested.

    All rows of an ingestion with a decision about any row are compared.

    :param arrival_days: those of the ingestions.
    :returns: None if there are more such keys than are held here.
    """
    ids = pa.array(sorted(ingestions.completed(lake, source)), pa.string())
    decided = decisions.decided_ingestions(lake, source)
    columns, contested = ["record_key", "kind", "standing", "ingestion_id"], pa.array([], pa.string())
    for piece in key_log.about_keys_with(lake, source, columns, {"ingestion_id": ingestion_ids, "arrival_date": arrival_days}):
        claimed = piece.filter(pc.is_in(piece["ingestion_id"], ids))
        is_admitted_insert = pc.and_(
            pc.fill_null(pc.equal(claimed["kind"], "insert"), False),
            pc.fill_null(pc.equal(claimed["standing"], AdmissionStatus.ADMITTED.value), False),
        )
        plain = pc.and_not(is_admitted_insert, pc.is_in(claimed["ingestion_id"], decided))
        per_key = claimed.select(["record_key"]).append_column("plain", plain).group_by("record_key")
        counted = per_key.aggregate([([], "count_all"), ("plain", "min")])
        weighed = counted.filter(pc.or_(pc.greater(counted["count_all"], 1), pc.invert(counted["plain_min"])))
        contested = pa.concat_arrays([contested, *weighed["record_key"].chunks])
        if len(contested) > lake.settings.held_rows:
            return None
    return contested


def admitted(spark: SparkSession, log: DataFrame, decided: dict[RowId, Decision]) -> DataFrame:
    """The claims of the key log whose rows are admitted: by the newest decision, else by the contract.

    :param log: rows of the key log.
    :param decided: the decision in force, by row.
    """
    if not decided:
        return log.where(F.col("standing") == AdmissionStatus.ADMITTED.value)
    rows = [{"ingestion_id": row[0], "line_number": row[1], "_admits": decision.admits} for row, decision in decided.items()]
    overlay = dataframes.local(spark, pa.Table.from_pylist(rows, schema=_DECISIONS))
    joined = log.join(F.broadcast(overlay), ["ingestion_id", "line_number"], "left")
    return joined.where(F.coalesce("_admits", F.col("standing") == AdmissionStatus.ADMITTED.value)).drop("_admits")


def judged_as_then(spark: SparkSession, log: DataFrame, then: pa.Table) -> DataFrame:
    """The claims of the key log, with the claims of ``then`` in place of their present judgement (R10).

    Claims without an admission status in ``then`` did not exist at that time.
    """
    if not len(then):
        return log
    overlay = dataframes.local(spark, then)
    others = log.join(F.broadcast(overlay.select(*judgement_history.CLAIM)), list(judgement_history.CLAIM), "left_anti")
    return others.select(*key_log.SCHEMA.names).unionByName(overlay.where("standing IS NOT NULL"))


def with_staged(spark: SparkSession, log: DataFrame, lake: Lake, staged: Lake, source: str) -> DataFrame:
    """The claims of the key log together with those of a stage: of its files, or of its reading, which replace those of its rows.

    :param staged: the lake of the stage; files whose content Bronze already has add no claim.
    """
    added = key_log_of(spark, staged, source).select(*log.columns)
    if locations.readings(staged, source).open() is None:
        return log.unionByName(added.where(F.col("ingestion_id").isin(ingestions.only_in(staged, lake, source))))
    rows = spark.read.format("delta").load(locations.readings(staged, source).address).select(*ROW_ID)
    return log.join(rows, list(ROW_ID), "left_anti").unionByName(added)


def ordered(spark: SparkSession, claims: DataFrame, of_deliveries: pa.Table) -> DataFrame:
    """Claims with the order of their deliveries; see ``dispositions.deliveries.ordered``."""
    joined = claims.join(F.broadcast(dataframes.local(spark, of_deliveries)), "ingestion_id", "left")
    columns = {
        "ordered_at": F.greatest(F.least("arrival_ts", "arrived_by"), "redelivered_at"),  # which skip NULL
        "delivery": F.coalesce("delivery", F.lit(deliveries.UNKNOWN).cast("bigint")),
    }
    return joined.withColumns(columns).drop("redelivered_at", "arrived_by")


def of_chosen(spark: SparkSession, contract: SourceContract, claims: DataFrame, chosen: dict[date, Choice]) -> DataFrame:
    """The claims of the chosen deliveries: for their day, or for the whole table."""
    if policy_of(contract).chooses_for_table:
        counting = set().union(*(choice.counting for choice in chosen.values()))
        return claims.where(F.col("ingestion_id").isin(sorted(counting)))  # on all days: a key contends on all of them
    schema = pa.schema([("event_date", pa.date32()), ("ingestion_id", pa.string())])
    rows = [
        {"event_date": day, "ingestion_id": ingestion_id} for day, choice in chosen.items() for ingestion_id in choice.counting
    ]
    return claims.join(
        dataframes.local(spark, pa.Table.from_pylist(rows, schema=schema)), ["event_date", "ingestion_id"], "left_semi"
    )


def winners(counting: DataFrame, *, by_sequence: bool, each_day: bool = False) -> DataFrame:
    """The winning claim of each key: (record_key, kind, event_date, order columns, arrival_date, retired).

    The greatest claim by the total order wins (see :func:`ordered`). Without a source sequence there is one exception: inserts of
    a key that a correction has retired are the original arriving late, and are ignored; a later correction of that key counts.

    :param each_day: whether the claims about a key are compared on each event day separately.
    """
    contest = ["record_key", F.col("event_date").alias("_day")] if each_day else ["record_key"]
    per_key = counting.groupBy(*contest).agg(*greatest_claims())
    won = winner(by_sequence=by_sequence).alias("claim")
    return per_key.select("record_key", "retired", won).select("record_key", "retired", "claim.*")


def greatest_claims() -> list[Column]:
    """The aggregates of the claims about a key from which :func:`winner` chooses."""
    claim = F.struct(*ORDER, "ingestion_id", "kind", "event_date", "arrival_date")
    return [
        F.max(claim).alias("greatest"),
        F.max(F.when(F.col("kind") != "insert", claim)).alias("greatest_change"),
        F.max(F.col("kind") == "retire").alias("retired"),
    ]


def winner(*, by_sequence: bool) -> Column:
    """The claim that wins a key: a struct of the order columns, kind, event_date and arrival_date; see :func:`winners`."""
    void = F.lit(False) if by_sequence else F.col("greatest_change.kind") == "retire"
    return F.when(F.coalesce(void, F.lit(False)), F.col("greatest_change")).otherwise(F.col("greatest"))
