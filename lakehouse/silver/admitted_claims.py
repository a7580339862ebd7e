"""The claims that may contend for their keys, as a DataFrame: admitted rows only, of the chosen arrivals only.

The same rules row by row are in ``dispositions.claims``; how one claim wins its key is in ``merge``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.dispositions import judgement_history
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.ledger import key_log
from lakehouse.ledger.row_states import AdmissionStatus
from lakehouse.spark import dataframes

if TYPE_CHECKING:
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.dispositions.reprocess_policy import Choice
    from lakehouse.ledger.decisions import Decision
    from lakehouse.ledger.row_ids import RowId

_DECISIONS = pa.schema([("ingestion_id", pa.string()), ("line_number", pa.int64()), ("_admits", pa.bool_())])


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
    """The claims of the key log, with those of ``then`` in place of their present judgement (R10)."""
    if not len(then):
        return log
    overlay = dataframes.local(spark, then)
    others = log.join(F.broadcast(overlay.select(*judgement_history.CLAIM)), list(judgement_history.CLAIM), "left_anti")
    return others.select(*key_log.SCHEMA.names).unionByName(overlay)


def of_holders(spark: SparkSession, contract: SourceContract, claims: DataFrame, chosen: dict[date, Choice]) -> DataFrame:
    """The claims of the chosen arrivals: for their day, or for the whole table."""
    if policy_of(contract).chooses_for_table:
        holders = {choice.holder for choice in chosen.values() if choice.holder}
        return claims.where(F.col("ingestion_id").isin(sorted(holders)))  # on all days: a key contends on all of them
    schema = pa.schema([("event_date", pa.date32()), ("ingestion_id", pa.string())])
    rows = [{"event_date": day, "ingestion_id": choice.holder} for day, choice in chosen.items() if choice.holder]
    return claims.join(
        dataframes.local(spark, pa.Table.from_pylist(rows, schema=schema)), ["event_date", "ingestion_id"], "left_semi"
    )
