"""The steps after the append of deliveries to Bronze, in this order: the key log, the disposition tables, the unread rows.

The steps read Bronze, so that they can be repeated for rows that a stopped run has appended. Files and ranges of messages share
them. The caller makes the ledger's entry of a delivery from their result, and records it after them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations, pieces
from lakehouse.delta.columns import bronze_columns
from lakehouse.dispositions import account_tables, claims, row_rules
from lakehouse.dispositions.readings import in_force
from lakehouse.dispositions.readings import table as readings_table
from lakehouse.ledger import key_log, unread_rows
from lakehouse.spark import commits as spark_commits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import date, datetime

    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.ledger.row_ids import DeliveredFile
    from lakehouse.settings import Settings


def judged(
    settings: Settings,
    contract: SourceContract,
    session: Callable[[], SparkSession],
    files: Sequence[DeliveredFile],
    redelivered: Mapping[DeliveredFile, date],
) -> dict[str, dict[str, Any]]:
    """Judge the rows of files, enter them into the key log and the disposition tables, and count them.

    :param session: called only for row rules in SQL.
    :param redelivered: files of known content that count again, with the arrival days of their rows.
    :returns: by ingestion id, the fields of :class:`~lakehouse.ledger.ingestions.Ingestion` that are computed from the rows.
    """
    if not files and not redelivered:
        return {}
    ids, arrivals = [file.ingestion_id for file in files], {file.arrival_date for file in files}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    newest: dict[str, dict[str, datetime]] = defaultdict(dict)

    def claims_of() -> Iterator[pa.Table]:
        counts.clear()
        newest.clear()
        where = {"arrival_date": arrivals, "ingestion_id": set(ids)}
        rows_judged = row_rules.judged(settings, contract, session, where)
        for rows in pieces.counted("rows judged", rows_judged):
            _count(rows, counts, newest)
            yield key_log.claims(rows)

    if files:
        key_log.append(settings, contract.dataset, ids, arrivals, claims_of)
    malformed = sum(of_ingestion["malformed"] for of_ingestion in counts.values())
    account_tables.after_ingestions(settings, contract, files, malformed, redelivered)
    if malformed:
        _record_unread(settings, contract, [file for file in files if counts[file.ingestion_id]["malformed"]])
    # From the log: a stopped run may have judged the rows already, under another contract.
    every = [*ids, *(file.ingestion_id for file in redelivered)]
    touched = claims.touched_days(settings, contract, every, {*arrivals, *redelivered.values()})
    touches = {name: {"touched_days": list(days), "touched_rows": list(days.values())} for name, days in touched.items()}
    return {name: {**counts[name], **newest[name], **touches[name]} for name in every}


def _record_unread(settings: Settings, contract: SourceContract, files: Sequence[DeliveredFile]) -> None:
    """Record the malformed rows of files by event day: numbers wait for them."""
    where = {"arrival_date": {file.arrival_date for file in files}, "ingestion_id": {file.ingestion_id for file in files}}
    rows = in_force.pieces(settings, contract.dataset, list(unread_rows.COLUMNS), where)
    unread_rows.record(settings, unread_rows.count(contract.dataset, rows, settings.clock()))


def schema_problem(settings: Settings, contract: SourceContract, session: Callable[[], SparkSession]) -> str | None:
    """Why Bronze cannot take rows of the contract as it is now; columns that are new in it are added."""
    source = contract.dataset
    try:
        spark_commits.add_missing_columns(session, settings, locations.bronze(settings, source), bronze_columns(contract))
        spark_commits.add_missing_columns(
            session, settings, locations.readings(settings, source), readings_table.columns(contract)
        )
    except spark_commits.SchemaChangeError as problem:
        return str(problem)
    return None


def _count(rows: pa.Table, counts: dict[str, Counter[str]], newest: dict[str, dict[str, datetime]]) -> None:
    """Count all, malformed and skewed rows, and take the newest times of the well-formed ones, per ingestion."""
    is_sound = pc.is_null(rows["malformed_reason"])
    arrived = pc.if_else(is_sound, rows["arrival_ts"], pa.scalar(None, rows["arrival_ts"].type))
    marked = pc.if_else(rows["is_marker"], rows["happened_at"], pa.scalar(None, rows["happened_at"].type))
    times = {"newest_arrival": arrived, "newest_event": rows["happened_at"], "newest_marker": marked}
    table = pa.table({**{name: rows[name] for name in ("ingestion_id", "malformed_reason", "is_skewed")}, **times})
    wanted = [([], "count_all"), ("malformed_reason", "count"), ("is_skewed", "sum"), *((name, "max") for name in times)]
    for row in table.group_by("ingestion_id").aggregate(wanted).to_pylist():
        name = row["ingestion_id"]
        counts[name].update(rows=row["count_all"], malformed=row["malformed_reason_count"], skewed=row["is_skewed_sum"])
        greatest = {time: row[f"{time}_max"] for time in times if row[f"{time}_max"] is not None}
        newest[name] |= {time: max(at, newest[name].get(time, at)) for time, at in greatest.items()}
