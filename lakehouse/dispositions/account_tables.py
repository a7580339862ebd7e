"""The account of Bronze as tables for SQL: ``ops/<source>_dispositions`` and ``silver/<source>_quarantine``.

Both are copies of what ``account`` computes, updated for the rows whose disposition an ingestion, a decision or a rebuild may
have changed. What a stopped run left out is written when the run is repeated. Listing the quarantine for people belongs in
``stewardship.quarantine``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import row_writer, table_io
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.dispositions import account, claims
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.dispositions.row_groups import positions
from lakehouse.ledger import decisions, key_log, redactions
from lakehouse.ledger.row_states import AdmissionStatus, Disposition, QuarantineStatus, StewardVerdict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import date, datetime

    from lakehouse.contracts.source import SourceContract
    from lakehouse.ledger.row_ids import Delivery
    from lakehouse.settings import Settings

ROW_KEYS = ("arrival_date", "ingestion_id", "line_number")
_DISPOSITIONS = pa.schema([field for field in account.SCHEMA if field.name not in {"lives", "admission", "reason", "detail"}])
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

_REASONS = pa.schema(
    [
        ("ingestion_id", pa.string()),
        ("line_number", pa.int64()),
        ("quarantine_reason", pa.string()),
        ("quarantine_detail", pa.string()),
    ]
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


def after_ingestions(settings: Settings, contract: SourceContract, deliveries: Collection[Delivery], malformed: int) -> None:
    """Write the rows of deliveries and the older rows that they changed, before the ledger records the deliveries.

    :param malformed: how many of their rows are malformed.
    """
    files = {delivery.ingestion_id: delivery.path for delivery in deliveries}
    arrivals = {delivery.arrival_date for delivery in deliveries}
    keys, days = key_log.keys_and_days(settings, contract.dataset, files, arrivals)

    def affected() -> pa.Table:
        rows = _affected_rows(settings, contract, keys, days, files)
        if not malformed:
            return rows
        delivered = account.table(settings, contract, arrival_days=arrivals, ingestion_ids=files)
        unread = delivered.filter(pc.equal(delivered["disposition"], Disposition.MALFORMED.value))
        # A policy that replaces days lists whole arrival days: the rows are among them already.
        return pa.concat_tables([rows, unread.filter(pc.is_null(positions(unread, rows)))])

    _enter(settings, contract, affected)


def after_decision(settings: Settings, contract: SourceContract, keys: set[str], days: set[date]) -> None:
    """Write the rows that a decision or a redaction about some keys changed.

    :param days: the event days on which the keys may have a row.
    """
    _enter(settings, contract, lambda: _affected_rows(settings, contract, pa.array(sorted(keys), pa.string()), days))


def after_rebuild(settings: Settings, contract: SourceContract, days: set[date]) -> None:
    """Write every row whose key has been on some event days."""
    path = locations.key_log(settings, contract.dataset)
    log = table_io.read(path, ["record_key"], {"event_date": days}, settings.storage_options)
    keys = pa.array([], pa.string()) if log is None else pc.unique(log["record_key"])
    _enter(settings, contract, lambda: _affected_rows(settings, contract, keys, days))


def _affected_rows(
    settings: Settings, contract: SourceContract, keys: pa.Array, days: set[date], unrecorded: Mapping[str, str] | None = None
) -> pa.Table:
    """The rows whose disposition rows of these keys and days may change, under the source's reprocess policy."""
    source = contract.dataset
    if not policy_of(contract).chooses_arrivals:
        arrivals = key_log.arrival_days_of(settings, source, keys)
        return account.table(settings, contract, arrival_days=arrivals, keys=keys, unrecorded=unrecorded)
    affected = claims.affected_event_days(settings, contract, days, keys)
    arrivals = key_log.arrival_days_with_rows_on(settings, source, affected)
    return account.table(settings, contract, arrival_days=arrivals, unrecorded=unrecorded)


def _enter(settings: Settings, contract: SourceContract, affected: Callable[[], pa.Table]) -> None:
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


def _write(settings: Settings, contract: SourceContract, rows: pa.Table) -> None:
    source, options = contract.dataset, settings.storage_options
    changed = _append_new_ingestions(locations.dispositions(settings, source), rows.select(_DISPOSITIONS.names), options)
    row_writer.upsert(locations.dispositions(settings, source), changed, ROW_KEYS, options=options, partition_by="arrival_date")
    quarantined = _quarantine_entries(settings, contract, rows)
    row_writer.upsert(locations.quarantine(settings, source), quarantined, ROW_KEYS, options=options, partition_by="arrival_date")


@row_writer.retried_on_conflict
def _append_new_ingestions(path: str, rows: pa.Table, options: Mapping[str, str]) -> pa.Table:
    """Append the rows of ingestions of which the table has none, and give the others: a MERGE reads whole arrival days."""
    table = row_writer.open_or_create(path, _DISPOSITIONS, options, ["arrival_date"])
    where = {name: pc.unique(rows[name]) for name in ("arrival_date", "ingestion_id")}
    present = pc.unique(table_io.read_version(table, ["ingestion_id"], where)["ingestion_id"])
    is_new = pc.invert(pc.is_in(rows["ingestion_id"], present))
    app_ids = [f"dispositions:{ingestion_id}" for ingestion_id in pc.unique(rows["ingestion_id"].filter(is_new)).to_pylist()]
    row_writer.append_new(path, table, rows.filter(is_new), app_ids, options)
    return rows.filter(pc.invert(is_new))


def _quarantine_entries(settings: Settings, contract: SourceContract, rows: pa.Table) -> pa.Table:
    """The quarantine's entries for those of the rows that are or were in it, with redacted fields set to NULL.

    :param rows: columns ``account.SCHEMA``.
    """
    source, options = contract.dataset, settings.storage_options
    schema = quarantine_schema(contract)
    existing = _existing_reasons(settings, source)
    waits = pc.equal(rows["disposition"], Disposition.QUARANTINED.value)
    barred = pc.fill_null(pc.equal(rows["admission"], AdmissionStatus.QUARANTINED.value), False)
    rows = rows.filter(pc.or_(pc.or_(waits, barred), pc.is_valid(positions(rows, existing))))
    if not len(rows):
        return schema.empty_table()
    where = {name: pc.unique(rows[name]) for name in ROW_KEYS}
    content = table_io.read(locations.bronze(settings, source), [name for name, _ in bronze_columns(contract)], where, options)
    if content is None:
        return schema.empty_table()
    place = positions(content, rows)
    content, rows = content.filter(pc.is_valid(place)), rows.take(place.drop_null())
    columns = dict(zip(content.column_names, content.columns))
    for name, keys in redactions.keys_by_field(settings, source).items():
        is_redacted = pc.is_in(rows["record_key"], value_set=pa.array(sorted(keys), pa.string()))
        for redacted in (name, "raw_payload"):
            columns[redacted] = pc.if_else(is_redacted, pa.scalar(None, columns[redacted].type), columns[redacted])
    decided = decisions.in_force(settings, source)
    columns |= _reviews(rows, decided.take(positions(rows, decided)), existing.take(positions(rows, existing)))
    since = content["arrival_ts"].cast(pa.timestamp("us", "UTC"))
    columns["quarantine_since"] = since
    columns["quarantine_review_by"] = pc.add(since, pa.scalar(contract.lateness.review_within, pa.duration("us")))
    return pa.table(columns).select(schema.names).cast(schema)


def _existing_reasons(settings: Settings, source: str) -> pa.Table:
    """Reason and detail of each row that is already in the quarantine's table, with the row's id."""
    entries = table_io.read(locations.quarantine(settings, source), _REASONS.names, None, settings.storage_options)
    return _REASONS.empty_table() if entries is None else entries.cast(_REASONS)


def _reviews(rows: pa.Table, decided: pa.Table, existing: pa.Table) -> dict[str, pa.ChunkedArray]:
    """Why each row is or was quarantined, and the state of its review, by column.

    :param decided: the decision in force about each row; all NULL without one.
    :param existing: reason and detail of each row in the table; they are kept if the row no longer has a reason.
    """
    is_open = pc.equal(rows["disposition"], Disposition.QUARANTINED.value)
    statuses = pa.array([verdict.status.value for verdict in StewardVerdict])
    decided_as = statuses.take(pc.index_in(decided["verdict"], value_set=pa.array([verdict.value for verdict in StewardVerdict])))
    closed = pc.fill_null(decided_as, QuarantineStatus.RELEASED.value)
    return {
        "quarantine_reason": pc.coalesce(rows["reason"], existing["quarantine_reason"]),
        "quarantine_detail": pc.if_else(is_open, rows["because"], pc.coalesce(rows["detail"], existing["quarantine_detail"])),
        "quarantine_status": pc.if_else(is_open, QuarantineStatus.OPEN.value, closed),
        "quarantine_decided_by": decided["by"],
        "quarantine_decided_at": decided["decided_at"],
        "quarantine_decision": decided["reason"],
    }
