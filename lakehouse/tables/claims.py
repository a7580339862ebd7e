"""The claims that count: those of admitted rows, as the contract and the stewards have it, under each reprocess policy.

Here the key log meets the decisions, for Spark (:func:`admitted`) and without a JVM (:func:`choices`, :func:`reach`). How
one claim wins its key is in ``silver`` and ``domain.dispositions``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.domain import policies
from lakehouse.domain.admission import Standing
from lakehouse.domain.policies import Choice, Share
from lakehouse.ledger import decisions, key_log, overruled, store
from lakehouse.tables import frames
from lakehouse.tables.schema import ORDER

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date, datetime

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.domain.dispositions import RowId
    from lakehouse.ledger.decisions import Decision
    from lakehouse.settings import Settings

_DECIDED = pa.schema([("ingestion_id", pa.string()), ("line_number", pa.int64()), ("_admits", pa.bool_())])


def admitted(spark: SparkSession, log: DataFrame, decided: dict[RowId, Decision]) -> DataFrame:
    """The claims of the key log whose rows are admitted: by the contract, or else by the decision that holds."""
    if not decided:
        return log.where(F.col("standing") == Standing.ADMITTED.value)
    rows = [{"ingestion_id": row[0], "line_number": row[1], "_admits": one.admits} for row, one in decided.items()]
    overlay = frames.local(spark, pa.Table.from_pylist(rows, schema=_DECIDED))
    joined = log.join(F.broadcast(overlay), ["ingestion_id", "line_number"], "left")
    return joined.where(F.coalesce("_admits", F.col("standing") == Standing.ADMITTED.value)).drop("_admits")


def judged_as_then(spark: SparkSession, log: DataFrame, then: pa.Table) -> DataFrame:
    """The claims of the key log, with those of ``then`` in the place of what is said of them now (R10)."""
    if not len(then):
        return log
    overlay = frames.local(spark, then)
    others = log.join(F.broadcast(overlay.select(*overruled.CLAIM)), list(overruled.CLAIM), "left_anti")
    return others.select(*key_log.SCHEMA.names).unionByName(overlay)


def is_admitted(row: RowId, standing: str | None, decided: dict[RowId, Decision]) -> bool:
    """The same for one row."""
    return decided[row].admits if row in decided else standing == Standing.ADMITTED.value


def reach(settings: Settings, contract: SourceContract, own_days: set[date], keys: pa.Array) -> set[date]:
    """The event days whose silver content rows of these days and keys may change, under the source's policy."""
    policy = contract.materialization.reprocess_policy
    if policy == "merge":
        return own_days | key_log.days_of(settings, contract.dataset, keys)
    if policy == "overwrite_all" and own_days:
        return own_days | key_log.days(settings, contract.dataset)
    return own_days


def choices(
    settings: Settings,
    contract: SourceContract,
    days: Collection[date],
    ids: Collection[str] | None = None,
    until: datetime | None = None,
) -> dict[date, Choice]:
    """Per event day the arrival that it is made of, under the policies that overwrite.

    :param ids: as known by these ingestions, decisions and operations only (R10).
    :param until: of what had arrived by then only.
    """
    source, options = contract.dataset, settings.storage_options
    whole_table = contract.materialization.reprocess_policy == "overwrite_all"
    where: dict[str, Collection[Any]] = {} if whole_table else {"event_date": days}
    if ids is not None:
        where["ingestion_id"] = ids
    log = store.read(key_log.path(settings, source), ["event_date", *ORDER, "standing"], where, options)
    then = overruled.as_of(settings, source, ids).to_pylist() if ids is not None else []
    stood = {(row["ingestion_id"], row["line_number"]): row["standing"] for row in then}
    decided = decisions.newest(settings, source, ids)
    shares: dict[tuple[date, str], list[tuple[Any, ...]]] = defaultdict(list)
    barred_by_hand: Counter[tuple[date, str]] = Counter()
    accepted = set()
    for row in [] if log is None else log.to_pylist():
        if row["event_date"] is None or (until is not None and row["arrival_ts"] > until):
            continue
        row_id, place = (row["ingestion_id"], row["line_number"]), (row["event_date"], row["ingestion_id"])
        decision = decided.get(row_id)
        if is_admitted(row_id, stood.get(row_id, row["standing"]), decided):
            shares[place].append(tuple(row[name] for name in ORDER))
        elif decision is not None:
            barred_by_hand[place] += 1  # the file did hold it: rejecting rows of a file must not bring an older one back
        if decision is not None and decision.admits and decision.about_file:
            accepted.add(place)
    by_day: dict[date, list[Share]] = defaultdict(list)
    for place, orders in shares.items():
        day, ingestion_id = place
        by_day[day].append(Share(ingestion_id, len(orders) + barred_by_hand[place], max(orders), place in accepted))
    if whole_table:
        choice = policies.newest(share for found in by_day.values() for share in found)
        return dict.fromkeys(days, choice)
    return {day: policies.choose(by_day.get(day, []), contract.materialization.max_shrink) for day in days}


def of_holders(spark: SparkSession, contract: SourceContract, claims: DataFrame, chosen: dict[date, Choice]) -> DataFrame:
    """The claims of the arrivals that were chosen: for their day, or for the whole table."""
    if contract.materialization.reprocess_policy == "overwrite_all":
        holders = {choice.holder for choice in chosen.values() if choice.holder}
        return claims.where(F.col("ingestion_id").isin(sorted(holders)))  # on all days: a key contends on all of them
    schema = pa.schema([("event_date", pa.date32()), ("ingestion_id", pa.string())])
    rows = [{"event_date": day, "ingestion_id": choice.holder} for day, choice in chosen.items() if choice.holder]
    return claims.join(
        frames.local(spark, pa.Table.from_pylist(rows, schema=schema)), ["event_date", "ingestion_id"], "left_semi"
    )
