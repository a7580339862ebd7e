"""The account as tables for SQL: ``ops/<source>_dispositions`` and ``silver/<source>_quarantine``.

Copies of what ``accounts`` says, brought up to date for the rows whose disposition an ingestion or a decision may have
changed; written through delta-rs, without a JVM. Whatever a killed run left out is written when the run is repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.dispositions import account as dispositions_account
from lakehouse.dispositions import claims
from lakehouse.dispositions.admission import Standing
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.dispositions.verdicts import Disposition
from lakehouse.ledger import decisions, key_log, redactions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.dispositions.account import BronzeRow
    from lakehouse.ledger.row_ids import Delivery
    from lakehouse.settings import Settings

ROW_KEYS = ("arrival_date", "ingestion_id", "line_number")
_DISPOSITIONS = pa.schema(
    [
        ("arrival_date", pa.date32()),
        ("source_file", pa.string()),
        ("ingestion_id", pa.string()),
        ("line_number", pa.int64()),
        ("record_key", pa.string()),
        ("event_date", pa.date32()),
        ("change_op", pa.string()),
        ("disposition", pa.string()),
        ("because", pa.string()),
        ("decided_by", pa.string()),
        ("decision", pa.string()),
    ]
)
#: What the quarantine says beside the row itself. ``quarantine_status`` is open, accepted, rejected, duplicate or released (the
#: cause is gone without a decision).
_WAITING = (
    ("quarantine_reason", pa.string()),
    ("quarantine_detail", pa.string()),
    ("quarantine_since", pa.timestamp("us", "UTC")),
    ("quarantine_review_by", pa.timestamp("us", "UTC")),
    ("quarantine_status", pa.string()),
    ("quarantine_decided_by", pa.string()),
    ("quarantine_decided_at", pa.timestamp("us", "UTC")),
    ("quarantine_decision", pa.string()),
)
_STATUS = {"accept": "accepted", "reject": "rejected", "duplicate": "duplicate"}


def after_ingestion(settings: Settings, contract: SourceContract, delivery: Delivery, malformed: int) -> None:
    """Enter the rows of a delivery, and what they changed about older rows; before the ledger knows of it.

    :param malformed: how many of its rows are.
    """
    ingestion_id, files = delivery.ingestion_id, {delivery.ingestion_id: delivery.path}
    keys, days = key_log.spoken_of(settings, contract.dataset, [ingestion_id])

    def concerned() -> list[BronzeRow]:
        rows = _concerned(settings, contract, keys, days, files)
        if malformed:
            own = dispositions_account.rows(
                settings, contract, arrival_days=[delivery.arrival_date], ingestion_ids=[ingestion_id]
            )
            rows += [row for row in own if row.disposition is Disposition.MALFORMED]
        return rows

    _enter(settings, contract, concerned)


def after_decision(settings: Settings, contract: SourceContract, keys: set[str], days: set[date]) -> None:
    """Enter what a decision or a redaction about some keys, living on some days, changed."""
    _enter(settings, contract, lambda: _concerned(settings, contract, keys, days))


def after_rebuild(settings: Settings, contract: SourceContract, days: set[date]) -> None:
    """Enter every row whose key has been on some event days."""
    claims = table_io.read(
        locations.key_log(settings, contract.dataset), ["record_key"], {"event_date": days}, settings.storage_options
    )
    keys = set() if claims is None else set(claims["record_key"].to_pylist())
    _enter(settings, contract, lambda: _concerned(settings, contract, keys, days))


def _concerned(
    settings: Settings, contract: SourceContract, keys: set[str], days: set[date], unrecorded: Mapping[str, str] | None = None
) -> list[BronzeRow]:
    """The rows whose disposition may be another one now, under the source's reprocess policy."""
    source, policy = contract.dataset, policy_of(contract)
    if not policy.chooses_arrivals:
        arrivals = key_log.arrival_days(settings, source, "record_key", keys)
        return dispositions_account.rows(settings, contract, arrival_days=arrivals, keys=keys, unrecorded=unrecorded)
    affected = claims.affected_event_days(settings, contract, days, pa.array(sorted(keys), pa.string()))
    arrivals = key_log.arrival_days(settings, source, "event_date", affected)
    return dispositions_account.rows(settings, contract, arrival_days=arrivals, unrecorded=unrecorded)


def _enter(settings: Settings, contract: SourceContract, concerned: Callable[[], list[BronzeRow]]) -> None:
    """Write what is true of the rows; again, where somebody said something new while it was found out."""
    while True:
        before = _inputs(settings, contract.dataset)
        _write(settings, contract, concerned())
        if _inputs(settings, contract.dataset) == before:
            return


def _inputs(settings: Settings, source: str) -> list[int]:
    """The versions of the tables that the account is made from."""
    tables = (locations.key_log(settings, source), locations.decisions(settings, source), locations.redactions(settings, source))
    found = [table_io.open_table(path, settings.storage_options) for path in tables]
    return [-1 if table is None else table.version() for table in found]


def _write(settings: Settings, contract: SourceContract, rows: list[BronzeRow]) -> None:
    source, options = contract.dataset, settings.storage_options
    said = {name: [getattr(row, name) for row in rows] for name in _DISPOSITIONS.names}
    said["disposition"] = [one.value for one in said["disposition"]]
    table = pa.Table.from_pydict(said, schema=_DISPOSITIONS)
    table_io.upsert(locations.dispositions(settings, source), table, ROW_KEYS, options=options, partition_by="arrival_date")
    waiting = _waiting(settings, contract, rows)
    table_io.upsert(locations.quarantine(settings, source), waiting, ROW_KEYS, options=options, partition_by="arrival_date")


def _waiting(settings: Settings, contract: SourceContract, rows: list[BronzeRow]) -> pa.Table:
    """The quarantine's rows for those that wait or waited, with redacted fields empty."""
    source, options = contract.dataset, settings.storage_options
    asked = ["ingestion_id", "line_number", "quarantine_reason", "quarantine_detail"]
    known = table_io.read(locations.quarantine(settings, source), asked, None, options)
    before = {tuple(row.values())[:2]: tuple(row.values())[2:] for row in ([] if known is None else known.to_pylist())}
    wanted = {
        (row.ingestion_id, row.line_number): row
        for row in rows
        if row.disposition is Disposition.QUARANTINED
        or row.standing == Standing.QUARANTINED.value
        or (row.ingestion_id, row.line_number) in before
    }
    schema = _quarantine_schema(contract)
    if not wanted:
        return schema.empty_table()
    where: dict[str, Collection[Any]] = {
        "arrival_date": {row.arrival_date for row in wanted.values()},
        "ingestion_id": {row.ingestion_id for row in wanted.values()},
        "line_number": {row.line_number for row in wanted.values()},
    }
    found = table_io.read(locations.bronze(settings, source), [name for name, _ in bronze_columns(contract)], where, options)
    decided = decisions.newest(settings, source)
    hidden = redactions.keys_by_field(settings, source)
    entries = []
    for content in [] if found is None else found.to_pylist():
        row_id = (content["ingestion_id"], content["line_number"])
        if row_id not in wanted:
            continue
        row, decision = wanted[row_id], decided.get(row_id)
        for name, keys in hidden.items():
            if row.record_key in keys:
                content |= {name: None, "raw_payload": None}
        why_then = before.get(row_id, (None, None))
        status = "open" if row.disposition is Disposition.QUARANTINED else _STATUS[decision.verdict] if decision else "released"
        entries.append(
            content
            | {
                "quarantine_reason": row.reason or why_then[0],
                "quarantine_detail": row.because if status == "open" else row.detail or why_then[1],
                "quarantine_since": content["arrival_ts"],
                "quarantine_review_by": content["arrival_ts"] + contract.lateness.review_within,
                "quarantine_status": status,
                "quarantine_decided_by": decision.by if decision else None,
                "quarantine_decided_at": decision.decided_at if decision else None,
                "quarantine_decision": decision.reason if decision else None,
            }
        )
    return pa.Table.from_pylist(entries, schema=schema)


def _quarantine_schema(contract: SourceContract) -> pa.Schema:
    return pa.schema([*arrow_schema(bronze_columns(contract)), *(pa.field(name, kind) for name, kind in _WAITING)])
