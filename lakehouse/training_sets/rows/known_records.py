"""The records of a source with the start of their knowledge, and the record of each key in a set. With Spark.

A record is known from its arrival; a record admitted by a steward, from the decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.delta.columns import ORDER
from lakehouse.dispositions import deliveries
from lakehouse.dispositions.contests import LIVING_KINDS
from lakehouse.dispositions.readings import frames
from lakehouse.ledger import decisions
from lakehouse.ledger.row_states import AdmissionStatus
from lakehouse.silver import admitted_claims
from lakehouse.spark import dataframes

if TYPE_CHECKING:
    from datetime import date

    from pyspark.sql import Column, DataFrame, SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.contracts.training.training_set import Reading
    from lakehouse.settings import Settings
    from lakehouse.training_sets.known import SourceInputs

_ROW_ID = ["ingestion_id", "line_number"]
_DECIDED = pa.schema([("ingestion_id", pa.string()), ("line_number", pa.int64()), ("_decided_at", pa.timestamp("us", "UTC"))])


def claims(
    spark: SparkSession, settings: Settings, contract: SourceContract, inputs: SourceInputs, keys: pa.Array | None = None
) -> DataFrame:
    """The admitted claims of a set of inputs, each with ``known_from``.

    :param keys: include only claims about these keys.
    """
    source = contract.dataset
    log = admitted_claims.of_inputs(spark, settings, source, inputs.ids, keys)
    if inputs.until is not None:
        log = log.where(F.col("arrival_ts") <= F.lit(inputs.until))
    decided = decisions.newest(settings, source, inputs.ids)
    counting = admitted_claims.admitted(spark, log, decided)
    counting = admitted_claims.ordered(spark, counting, deliveries.of(settings, contract, inputs.ids, inputs.until))
    times = [
        {"ingestion_id": row[0], "line_number": row[1], "_decided_at": decision.decided_at}
        for row, decision in decided.items()
        if decision.admits
    ]
    if not times:
        return counting.withColumn("known_from", F.col("arrival_ts"))
    overlay = dataframes.local(spark, pa.Table.from_pylist(times, schema=_DECIDED))
    joined = counting.join(F.broadcast(overlay), _ROW_ID, "left")
    was_admitted = F.col("standing") == AdmissionStatus.ADMITTED.value
    late = F.greatest("arrival_ts", "_decided_at")
    return joined.withColumn("known_from", F.when(was_admitted, F.col("arrival_ts")).otherwise(late)).drop("_decided_at")


def events(
    spark: SparkSession,
    settings: Settings,
    contract: SourceContract,
    inputs: SourceInputs,
    first: date,
    until: date,
    reading: Reading,
    keys: pa.Array | None = None,
) -> DataFrame:
    """One row for each existing key: its first record under ``as_known``, the newest under ``as_corrected``; silver's columns.

    The first record is the content of a scoring request at the event: later corrections of its columns were not known.

    :param first: the first event day; ``until`` is the first day after the last one.
    """
    record = F.struct("known_from", *ORDER, "ingestion_id", "event_date", "arrival_date")
    aggregates = [*admitted_claims.greatest_claims(), F.min(F.when(_has_row(), record)).alias("_first")]
    every = claims(spark, settings, contract, inputs, keys)
    per_key = every.groupBy("record_key").agg(*aggregates)
    won = per_key.withColumn("_won", admitted_claims.winner(by_sequence=contract.by_sequence))
    living = won.where(_has_row("_won.kind"))
    chosen = living.select("record_key", "_first.*" if reading == "as_known" else "_won.*").where(_within(first, until))
    chosen = chosen.select("record_key", "arrival_date", *_ROW_ID).localCheckpoint()
    of_keys, fills = chosen, contract.has_partial_corrections and reading == "as_corrected"
    if fills:
        of_keys = every.where("kind <> 'retire'").join(chosen.select("record_key"), "record_key", "left_semi")
    arrivals = {row[0] for row in of_keys.select("arrival_date").distinct().collect()}
    rows = frames.sound_rows(spark, settings, contract, {"arrival_date": arrivals}, inputs.ids)
    if fills:
        rows = frames.completed(contract, of_keys, rows)
    return rows.join(chosen.select("record_key", *_ROW_ID), ["record_key", *_ROW_ID], "left_semi")


def records(spark: SparkSession, settings: Settings, contract: SourceContract, inputs: SourceInputs) -> DataFrame:
    """Every admitted record about its own key, deletes included: silver's columns, ``kind``, ``known_from`` and the
    order of the deliveries.
    """
    own = claims(spark, settings, contract, inputs).where(F.col("kind") != "retire")
    narrow = own.select("record_key", *_ROW_ID, "kind", "known_from", "ordered_at", "delivery")
    rows = frames.sound_rows(spark, settings, contract, {}, inputs.ids)
    return rows.join(narrow, ["record_key", *_ROW_ID])


def _has_row(kind: str = "kind") -> Column:
    return F.col(kind).isin(*LIVING_KINDS)


def _within(first: date, until: date) -> Column:
    return (F.col("event_date") >= F.lit(first)) & (F.col("event_date") < F.lit(until))
