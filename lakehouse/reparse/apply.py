"""Puts a reading into force: its rows, their previous judgement, their claims, and last the request to rebuild.

The order of commits makes stopping safe (R11): a reading counts once its request is recorded; until then its rows have no effect,
and the same command again finishes it. One process at a time applies a reading of a source.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse import locations, pieces
from lakehouse.delta import commit_log, layout, leases, partition_writer, provenance
from lakehouse.delta.columns import arrow_schema
from lakehouse.dispositions import account_tables, judgement_history, readings
from lakehouse.dispositions.readings import NUMBER, READING_ID, ROW_ID
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_io
from lakehouse.ledger import applied_inputs, contract_archive, ingestions, key_log, rebuild_requests
from lakehouse.ledger.ingestions import UnreadRows
from lakehouse.ledger.rebuild_requests import RebuildRequest
from lakehouse.reparse import changed_claims
from lakehouse.silver.rebuild import PlannedRebuild
from lakehouse.spark import commits as spark_commits

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

#: The lease of a process that applies a reading; renewed after each step.
APPLYING = leases.Work("_applying", timedelta(minutes=15))


class ReadingError(LakehouseError):
    """A reading that cannot be put into force in its present state. The message gives the reason, and what to do."""


def apply(
    lake: Lake,
    contract: SourceContract,
    session: Callable[[], SparkSession],
    from_: Lake,
    *,
    by: str,
    reason: str,
    whole: bool = False,
) -> PlannedRebuild:
    """Put a reading into force and request the rebuild of the event days that it affects; repeating it changes nothing.

    :param from_: the lake of the folder that :func:`lakehouse.reparse.read_again.read_again` has written.
    :param whole: whether all arrival days were read: then files that were held because the contract was changed may be ingested.
    :returns: the event days that silver rebuilds in its next run; none if no row reads differently.
    :raises ReadingError: if the contract or the rows in force have changed since the reading was made, or another process applies
        a reading.
    :raises RedactedKeyError: if a redaction cannot be extended.
    """
    source = contract.dataset
    stored = locations.readings(lake, source)
    turn = [leases.take(stored, APPLYING)]
    if turn[-1] is None:
        msg = (
            f"another process is applying a reading of {source}, or was stopped on another machine: wait until it ends, at most "
            f"{APPLYING.expires // timedelta(minutes=1)} minutes, and repeat the command"
        )
        raise ReadingError(msg)

    def go_on() -> None:
        turn.append(turn[-1] and leases.renew(stored, APPLYING, turn[-1]))
        if turn[-1] is None:
            msg = f"another process has begun to apply a reading of {source}, because this one took too long: repeat the command"
            raise ReadingError(msg)

    try:
        why = _described(from_, source)
        if why is not None and why[READING_ID] not in readings.requested(lake, source):
            _check_current(lake, contract, why)
            changes = _put_into_force(lake, contract, session, from_, why, go_on)
            _request_rebuild(lake, contract, why, changes, by, reason)
        if whole:
            contract_archive.accept(lake, contract)
        return _finished(lake, contract)
    finally:
        if turn[-1] is not None:
            leases.end(stored, APPLYING, turn[-1])


def _described(from_: Lake, source: str) -> dict[str, Any] | None:
    """The metadata of the reading in the folder; None if no row reads differently."""
    table = locations.readings(from_, source).open()
    if table is None or not table_io.rows_at_most(table, {}):
        return None
    metadata_of_commits = (commit_log.commit_metadata(commit) for commit in commit_log.history(table, -1))
    return next(dict(metadata) for metadata in metadata_of_commits if READING_ID in metadata)


def _check_current(lake: Lake, contract: SourceContract, why: dict[str, Any]) -> None:
    """:raises ReadingError: if the reading was made under another contract, or on other rows."""
    now = provenance.of_contract(contract)
    problem = None
    if why["contract"] != now:
        problem = f"was made under contract {why['contract']}, and the contract is {now} now"
    elif why["based_on"] != readings.requested(lake, contract.dataset):
        problem = "was made before another reading was put into force"
    if problem:
        msg = f"the reading of {contract.dataset} {problem}: read the records again"
        raise ReadingError(msg)


def _put_into_force(
    lake: Lake,
    contract: SourceContract,
    session: Callable[[], SparkSession],
    from_: Lake,
    why: dict[str, Any],
    go_on: Callable[[], None],
) -> changed_claims.ReadingChanges:
    """Write everything that a reading changes; it counts as soon as its rebuild is requested."""
    source, reading_id = contract.dataset, why[READING_ID]
    changes = changed_claims.changes(lake, from_, contract)
    changed_claims.follow(lake, contract, from_, set(changes.days))
    _copy_rows(lake, contract, session, from_, why)
    go_on()
    for _, before, after in changed_claims.pieces(lake, from_, source):
        judgement_history.record(lake, source, reading_id, pa.concat_tables([before, after]), lake.now())
        go_on()
    arrivals = changed_claims.arrival_days(from_, source)
    key_log.replace(
        lake, source, arrivals, lambda log: changed_claims.in_place(lake, from_, source, log), f"reading:{reading_id}"
    )
    go_on()
    return changes


def _request_rebuild(
    lake: Lake, contract: SourceContract, why: dict[str, Any], changes: changed_claims.ReadingChanges, by: str, reason: str
) -> None:
    source, reading_id = contract.dataset, why[READING_ID]
    before, now = provenance.newest_in_silver(lake, source), provenance.stamp(contract)
    entry = RebuildRequest(
        source=source,
        operation=rebuild_requests.REPARSE,
        first_day=date.fromisoformat(why["first"]),
        last_day=date.fromisoformat(why["last"]),
        reason=reason,
        runner_id=by,
        code_before=before["code"],
        code_after=now["code"],
        contract_before=before["contract"],
        contract_after=now["contract"],
        recorded_at=lake.now(),
        rows_judged_otherwise=changes.rows,
        malformed_more=changes.malformed_after - changes.malformed_before,
        touched_days=changes.days,
    )
    rebuild_requests.record(lake, replace(entry, operation_id=reading_id), reading_id)


def _copy_rows(
    lake: Lake, contract: SourceContract, session: Callable[[], SparkSession], from_: Lake, why: dict[str, Any]
) -> None:
    """Append the rows to the readings of the lake, unless a stopped run has done so."""
    source, columns = contract.dataset, readings.columns(contract)
    stored = locations.readings(lake, source)
    spark_commits.add_missing_columns(session, stored, columns)
    table = spark_commits.table_of(stored, columns, *layout.of_bronze(lake))
    if len(table_io.read_version(table, ["line_number"], {READING_ID: [why[READING_ID]]})):
        return
    app_id, version, number = f"readings:{source}", table.version(), readings.next_number(lake, source)
    schema = arrow_schema(columns)

    def numbered(rows: pa.Table) -> pa.Table:
        place = rows.column_names.index(NUMBER)
        return rows.set_column(place, NUMBER, pa.repeat(pa.scalar(number, pa.int64()), len(rows))).cast(schema)

    read = locations.readings(from_, source).pieces(schema.names, None)
    rows = pieces.mapped(numbered, pieces.counted("rows copied", read))
    spark_commits.append_rows_alone(rows, stored, app_id, version, why)


def _finished(lake: Lake, contract: SourceContract) -> PlannedRebuild:
    """Enter the rows of readings in force into the account, where a stopped run has not, and return what silver waits for."""
    source = contract.dataset
    waiting: set[str] = set().union(*applied_inputs.pending_manual_inputs(lake, source).values())
    entries = [entry for entry in rebuild_requests.all_of(lake, source) if entry.operation == rebuild_requests.REPARSE]
    days: set[date] = set()
    count = 0
    for number, entry in enumerate(entries, 1):
        account = locations.dispositions(lake, source).snapshot()
        mark = f"reading:{entry.operation_id}"
        if account is None or account.transaction_version(mark) is None:
            columns, where = [*ROW_ID, "arrival_date"], {READING_ID: [entry.operation_id]}
            rows = locations.readings(lake, source).read(columns, where)
            account_tables.after_rebuild(lake, contract, set(entry.touched_days), rows)
            _record_unread(lake, contract, rows, number)
            account = locations.dispositions(lake, source).snapshot()
            if account is not None:
                partition_writer.commit_without_rows(account, why={"reading": entry.operation_id}, transaction=(mark, 1))
        if entry.operation_id in waiting:
            days |= set(entry.touched_days)
            count += entry.rows_judged_otherwise
    before = {name: getattr(entries[-1], f"{name}_before") if entries else None for name in ("code", "contract")}
    return PlannedRebuild(sorted(days), count, before)


def _record_unread(lake: Lake, contract: SourceContract, rows: pa.Table | None, reading: int) -> None:
    """Count again the unread rows in the files of a reading in force.

    :param rows: the ids and arrival days of its rows.
    """
    if rows is None or not len(rows):
        return
    files = rows.group_by(["ingestion_id", "arrival_date"]).aggregate([]).to_pylist()
    where = {name: {file[name] for file in files} for name in ("ingestion_id", "arrival_date")}
    in_force_now = readings.pieces(lake, contract.dataset, list(ingestions.UNREAD_COLUMNS), where)
    now = lake.now()
    counted = {entry.ingestion_id: entry for entry in ingestions.count_unread(contract.dataset, in_force_now, now)}
    entries = [
        counted.get(file["ingestion_id"])
        or UnreadRows(contract.dataset, file["ingestion_id"], file["arrival_date"], malformed=0, recorded_at=now)
        for file in files
    ]
    ingestions.record_unread(lake, [replace(entry, reading=reading) for entry in entries])
