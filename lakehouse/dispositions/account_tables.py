"""The account of Bronze as tables for SQL: ``ops/<source>_dispositions`` and ``silver/<source>_quarantine``.

Both are copies of what ``account`` computes, updated for the rows whose disposition an ingestion, a decision or a rebuild may
have changed. What a stopped run left out is written when the run is repeated. Listing the quarantine for people belongs in
``stewardship.quarantine``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.dispositions import account, claims
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.ledger import decisions, key_log, redactions
from lakehouse.ledger.row_ids import row_id_of
from lakehouse.ledger.row_states import AdmissionStatus, Disposition, QuarantineStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import date, datetime

    from lakehouse.contracts.source import SourceContract
    from lakehouse.dispositions.account import BronzeRow
    from lakehouse.ledger.decisions import Decision
    from lakehouse.ledger.row_ids import Delivery, RowId
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
#: The columns of the quarantine that are not columns of Bronze; ``quarantine_status`` is a :class:`QuarantineStatus`.
_REVIEW = (
    ("quarantine_reason", pa.string()),
    ("quarantine_detail", pa.string()),
    ("quarantine_since", pa.timestamp("us", "UTC")),
    ("quarantine_review_by", pa.timestamp("us", "UTC")),
    ("quarantine_status", pa.string()),
    ("quarantine_decided_by", pa.string()),
    ("quarantine_decided_at", pa.timestamp("us", "UTC")),
    ("quarantine_decision", pa.string()),
)


def quarantine_schema(contract: SourceContract) -> pa.Schema:
    """The columns of the quarantine: those of Bronze, and those of the review."""
    return pa.schema([*arrow_schema(bronze_columns(contract)), *(pa.field(name, kind) for name, kind in _REVIEW)])


def is_overdue(entry: Mapping[str, Any], now: datetime) -> bool:
    """Whether the review of a quarantined row is open past its deadline.

    :param entry: ``quarantine_status`` and ``quarantine_review_by`` of the row.
    """
    deadline: datetime = entry["quarantine_review_by"]
    return bool(entry["quarantine_status"] == QuarantineStatus.OPEN.value and deadline < now)


def after_ingestion(settings: Settings, contract: SourceContract, delivery: Delivery, malformed: int) -> None:
    """Write the rows of a delivery and the older rows that they changed, before the ledger records the delivery.

    :param malformed: how many of its rows are malformed.
    """
    ingestion_id, files = delivery.ingestion_id, {delivery.ingestion_id: delivery.path}
    keys, days = key_log.keys_and_days(settings, contract.dataset, [ingestion_id])

    def affected() -> list[BronzeRow]:
        rows = _affected_rows(settings, contract, keys, days, files)
        if malformed:
            delivered = account.rows(settings, contract, arrival_days=[delivery.arrival_date], ingestion_ids=[ingestion_id])
            listed = {row.row_id for row in rows}  # a policy that replaces days lists whole arrival days
            rows += [row for row in delivered if row.disposition is Disposition.MALFORMED and row.row_id not in listed]
        return rows

    _enter(settings, contract, affected)


def after_decision(settings: Settings, contract: SourceContract, keys: set[str], days: set[date]) -> None:
    """Write the rows that a decision or a redaction about some keys changed.

    :param days: the event days on which the keys may have a row.
    """
    _enter(settings, contract, lambda: _affected_rows(settings, contract, keys, days))


def after_rebuild(settings: Settings, contract: SourceContract, days: set[date]) -> None:
    """Write every row whose key has been on some event days."""
    path = locations.key_log(settings, contract.dataset)
    log = table_io.read(path, ["record_key"], {"event_date": days}, settings.storage_options)
    keys = set() if log is None else set(log["record_key"].to_pylist())
    _enter(settings, contract, lambda: _affected_rows(settings, contract, keys, days))


def _affected_rows(
    settings: Settings, contract: SourceContract, keys: set[str], days: set[date], unrecorded: Mapping[str, str] | None = None
) -> list[BronzeRow]:
    """The rows whose disposition rows of these keys and days may change, under the source's reprocess policy."""
    source = contract.dataset
    if not policy_of(contract).chooses_arrivals:
        arrivals = key_log.arrival_days(settings, source, "record_key", keys)
        return account.rows(settings, contract, arrival_days=arrivals, keys=keys, unrecorded=unrecorded)
    affected = claims.affected_event_days(settings, contract, days, pa.array(sorted(keys), pa.string()))
    arrivals = key_log.arrival_days(settings, source, "event_date", affected)
    return account.rows(settings, contract, arrival_days=arrivals, unrecorded=unrecorded)


def _enter(settings: Settings, contract: SourceContract, affected: Callable[[], list[BronzeRow]]) -> None:
    """Write the state of the affected rows, again if an input changed while it was computed."""
    while True:
        before = _input_versions(settings, contract.dataset)
        _write(settings, contract, affected())
        if _input_versions(settings, contract.dataset) == before:
            return


def _input_versions(settings: Settings, source: str) -> list[int]:
    """The versions of the tables that the account is computed from."""
    paths = (locations.key_log(settings, source), locations.decisions(settings, source), locations.redactions(settings, source))
    return [table_io.version(path, settings.storage_options) for path in paths]


def _write(settings: Settings, contract: SourceContract, rows: list[BronzeRow]) -> None:
    source, options = contract.dataset, settings.storage_options
    columns = {name: [getattr(row, name) for row in rows] for name in _DISPOSITIONS.names}
    columns["disposition"] = [row.disposition.value for row in rows]
    table = pa.Table.from_pydict(columns, schema=_DISPOSITIONS)
    table_io.upsert(locations.dispositions(settings, source), table, ROW_KEYS, options=options, partition_by="arrival_date")
    quarantined = _quarantine_entries(settings, contract, rows)
    table_io.upsert(locations.quarantine(settings, source), quarantined, ROW_KEYS, options=options, partition_by="arrival_date")


def _quarantine_entries(settings: Settings, contract: SourceContract, rows: list[BronzeRow]) -> pa.Table:
    """The quarantine's entries for those of the rows that are or were in it, with redacted fields set to NULL."""
    source, options = contract.dataset, settings.storage_options
    schema = quarantine_schema(contract)
    existing = _existing_reasons(settings, source)
    quarantined = {
        row.row_id: row
        for row in rows
        if row.disposition is Disposition.QUARANTINED or row.admission is AdmissionStatus.QUARANTINED or row.row_id in existing
    }
    if not quarantined:
        return schema.empty_table()
    where: dict[str, Collection[Any]] = {
        name: {getattr(row, name) for row in quarantined.values()} for name in ("arrival_date", "ingestion_id", "line_number")
    }
    content = table_io.read(locations.bronze(settings, source), [name for name, _ in bronze_columns(contract)], where, options)
    decided = decisions.newest(settings, source)
    redacted = redactions.keys_by_field(settings, source)
    entries = []
    for columns in [] if content is None else content.to_pylist():
        row_id = row_id_of(columns)
        if row_id not in quarantined:
            continue
        row = quarantined[row_id]
        for name, keys in redacted.items():
            if row.record_key in keys:
                columns |= {name: None, "raw_payload": None}
        review = _review(row, decided.get(row_id), existing.get(row_id, (None, None)))
        since = columns["arrival_ts"]
        deadline = {"quarantine_since": since, "quarantine_review_by": since + contract.lateness.review_within}
        entries.append(columns | review | deadline)
    return pa.Table.from_pylist(entries, schema=schema)


def _existing_reasons(settings: Settings, source: str) -> dict[RowId, tuple[str | None, str | None]]:
    """Reason and detail of each row that is already in the quarantine's table."""
    columns = ["ingestion_id", "line_number", "quarantine_reason", "quarantine_detail"]
    table = table_io.read(locations.quarantine(settings, source), columns, None, settings.storage_options)
    entries = [] if table is None else table.to_pylist()
    return {row_id_of(entry): (entry["quarantine_reason"], entry["quarantine_detail"]) for entry in entries}


def _review(row: BronzeRow, decision: Decision | None, existing: tuple[str | None, str | None]) -> dict[str, Any]:
    """Why a row is or was quarantined, and the state of its review.

    :param existing: reason and detail in the table; they are kept if the row no longer has a reason.
    """
    is_open = row.disposition is Disposition.QUARANTINED
    closed = decision.verdict.status if decision else QuarantineStatus.RELEASED
    reason, detail = existing
    return {
        "quarantine_reason": row.reason or reason,
        "quarantine_detail": row.because if is_open else row.detail or detail,
        "quarantine_status": (QuarantineStatus.OPEN if is_open else closed).value,
        "quarantine_decided_by": decision.by if decision else None,
        "quarantine_decided_at": decision.decided_at if decision else None,
        "quarantine_decision": decision.reason if decision else None,
    }
