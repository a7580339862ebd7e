"""The account of Bronze as tables for SQL: ``ops/<source>_dispositions`` and ``silver/<source>_quarantine``.

Both are copies of the results of ``account``, updated for the rows whose disposition an ingestion, a decision or a rebuild may
have changed. Rows that a stopped run left out are written when the run is repeated. A table that has lost commits is derived
again before it is read. Listing the quarantine for people belongs in ``stewardship.quarantine``.
"""

from __future__ import annotations

import uuid
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import ColumnProperties

from lakehouse import locations, pieces
from lakehouse.delta import commit_log, data_files, layout, row_writer
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.dispositions import account, claims, readings
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.dispositions.winners import positions
from lakehouse.errors import LakehouseError
from lakehouse.lake import is_any_beyond, newest_versions, table_io
from lakehouse.ledger import applied_inputs, decisions, ingestions, key_log, redactions
from lakehouse.ledger.row_states import AdmissionStatus, Disposition, QuarantineReason, QuarantineStatus, StewardVerdict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import date, datetime

    from deltalake import DeltaTable

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake, Table
    from lakehouse.lake.table_io import Where
    from lakehouse.ledger.ids import DeliveredFile

#: The approximate maximum of rows that one commit merges.
_MERGED_ROWS = 2**20
#: Rows are appended in large pieces sorted by event day, with small row groups: reading the rows of a day reads few others.
_SORTED_ROWS = 2**19
_LAYOUT = data_files.compressed(
    2**13, {"line_number": ColumnProperties(dictionary_enabled=False, encoding="DELTA_BINARY_PACKED")}
)
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


#: The detail of a row whose delivery was held, if the entry that named the day is lost.
_WAS_HELD = "its delivery would have shrunk a day or the table"


class LostAccountError(LakehouseError):
    """A table of the account has lost commits and cannot be written. The message names the table and what to do."""


def quarantine_schema(contract: SourceContract) -> pa.Schema:
    """The columns of the quarantine: those of Bronze, and those of the review."""
    return pa.schema([*arrow_schema(bronze_columns(contract)), *(pa.field(name, kind) for name, kind in _REVIEW)])


def is_overdue(entry: Mapping[str, Any], now: datetime) -> bool:
    """Whether the review of a quarantined row is open past its deadline.

    :param entry: ``quarantine_status`` and ``quarantine_review_by`` of the row.
    """
    deadline: datetime = entry["quarantine_review_by"]
    return bool(entry["quarantine_status"] == QuarantineStatus.OPEN.value and deadline < now)


def both(lake: Lake, source: str) -> list[Table]:
    """Both tables."""
    return [locations.dispositions(lake, source), locations.quarantine(lake, source)]


def version(lake: Lake, source: str) -> int:
    """The version of the account: an answer that was computed from it holds until the version changes."""
    return locations.dispositions(lake, source).version()


def quarantine_version(lake: Lake, source: str) -> int:
    """The same of the quarantine."""
    return locations.quarantine(lake, source).version()


def quarantined(lake: Lake, contract: SourceContract, columns: Sequence[str] | None, where: Where | None) -> pa.Table | None:
    """Rows of the quarantine, see :meth:`lakehouse.lake.Table.read`, after :func:`restore`."""
    restore(lake, contract)
    return locations.quarantine(lake, contract.dataset).read(columns, where)


def restore(lake: Lake, contract: SourceContract, *, anyway: bool = False) -> bool:
    """Derive both tables again if one of them has lost commits that silver's record of its inputs names.

    Without a loss, two log entries are compared with the record. Rows that an older copy contains keep the reason of their wait.

    :param anyway: whether they are derived again without such a loss, too.
    :returns: whether they were derived.
    :raises LostRowsError: when Bronze or the key log lacks rows of files that were ingested.
    :raises LostAccountError: if the tables cannot be written.
    """
    lake, source = lake.cached(), contract.dataset
    lost = [(table, lost) for table in both(lake, source) if (lost := applied_inputs.lost_versions(lake, source, table))]
    if not lost and not anyway:
        return False
    ingestions.require_no_lost_rows(lake, source)
    try:
        _derive(lake, contract)
        for table, versions in lost:
            commit_log.close_gap(table, versions.followed, versions.kept)
    except OSError as problem:
        names = " and ".join(table.name for table, _ in lost)
        msg = (
            f"{names} has lost commits, and cannot be written ({problem}): run 'lakehouse admin repair' with the right to write "
            "the lake, or restore a newer copy of the table"
        )
        raise LostAccountError(msg) from None
    return True


def _derive(lake: Lake, contract: SourceContract) -> None:
    """Write all rows of both tables, and again if the tables from which they are computed have changed meanwhile."""
    source = contract.dataset
    stored = locations.quarantine(lake, source)
    layout.table_of_arrivals(lake, stored, quarantine_schema(contract))
    before = None
    while before != (before := newest_versions(_inputs(lake, source))):
        existing = _once_reviewed(lake, source)
        for rows in pieces.together(_derive_dispositions(lake, contract, existing), _MERGED_ROWS):
            entries = _quarantine_entries(lake, contract, rows, existing)
            row_writer.upsert(stored, entries, ROW_KEYS, partition_by=layout.ARRIVALS)


@row_writer.retried_on_conflict
def _derive_dispositions(lake: Lake, contract: SourceContract, existing: pa.Table) -> list[pa.Table]:
    """Replace the dispositions of all rows; returns the rows that are or were reviewed."""
    source = contract.dataset
    table = layout.table_of_arrivals(lake, locations.dispositions(lake, source), _DISPOSITIONS)
    days = {entry.arrival_date for entry in ingestions.all_of(lake, source)}
    days |= set(table_io.distinct_of_version(table, ["arrival_date"])["arrival_date"].to_pylist())
    reviewed: list[pa.Table] = []

    def dispositions() -> Iterator[pa.Table]:
        for rows in pieces.counted("rows entered into the account", _every_row(lake, contract)):
            reviewed.append(rows.filter(_are_reviewed(rows, existing)))
            yield _by_event_day(rows.select(_DISPOSITIONS.names))

    if days:
        row_writer.replace(table, dispositions(), "arrival_date", days, f"derived:{uuid.uuid4().hex}", _LAYOUT)
    return reviewed


def _every_row(lake: Lake, contract: SourceContract) -> Iterator[pa.Table]:
    if policy_of(contract).chooses_deliveries:
        yield account.table(lake, contract)
        return
    yield from account.pieces(lake, contract, {})
    yield from account.malformed(lake, contract, {})


def _once_reviewed(lake: Lake, source: str) -> pa.Table:
    """Reason and detail of each row that is in the quarantine's table, or whose held delivery was decided about."""
    existing = _existing_reasons(lake, source)
    decided = decisions.in_force(lake, source)
    held = decided.filter(decided["about_file"])
    held = held.filter(pc.is_null(positions(held, existing))).select(["ingestion_id", "line_number"])
    reasons = {"quarantine_reason": QuarantineReason.SHRUNKEN_PARTITION.value, "quarantine_detail": _WAS_HELD}
    for name, text in reasons.items():
        held = held.append_column(name, pa.repeat(text, len(held)))
    return pa.concat_tables([existing, held.cast(_REASONS)])


def after_ingestions(
    lake: Lake,
    contract: SourceContract,
    files: Collection[DeliveredFile],
    malformed: int,
    redelivered: Mapping[DeliveredFile, date],
) -> None:
    """Write the rows of delivered files and the older rows that they changed, before the ledger records the files.

    :param malformed: the number of their malformed rows.
    :param redelivered: further files, of known content, that count again in another delivery; each with the arrival day under
        which Bronze has its rows.
    """
    lake = lake.cached()
    where: Where = {"ingestion_id": [file.ingestion_id for file in files], "arrival_date": {file.arrival_date for file in files}}
    unrecorded = [*files, *redelivered]
    ids, arrivals = {file.ingestion_id for file in unrecorded}, {*where["arrival_date"], *redelivered.values()}

    def affected() -> Iterator[pa.Table]:
        listed = None
        if policy_of(contract).chooses_deliveries:
            keys, days = key_log.keys_and_days(lake, contract.dataset, ids, arrivals)
            listed = _of_arrivals(lake, contract, keys, days, unrecorded)
            yield listed
        else:
            yield from account.pieces(lake, contract, {"ingestion_id": ids, "arrival_date": arrivals}, unrecorded)
        for unread in account.malformed(lake, contract, where) if malformed else ():
            # A policy that replaces days lists whole arrival days: the rows may be among them already.
            yield unread if listed is None else unread.filter(pc.is_null(positions(unread, listed)))

    _enter(lake, contract, affected, where if files else None)


def after_decision(lake: Lake, contract: SourceContract, keys: set[str], days: set[date]) -> None:
    """Write the rows that a decision or a redaction about ``keys`` changed.

    :param days: the event days on which the keys may have a row.
    """
    lake = lake.cached()
    about = pa.array(sorted(keys), pa.string())

    def affected() -> Iterator[pa.Table]:
        if policy_of(contract).chooses_deliveries:
            yield _of_arrivals(lake, contract, about, days)
        else:
            arrivals = key_log.arrival_days_of(lake, contract.dataset, about)
            yield account.table(lake, contract, arrival_days=arrivals, keys=about)

    _enter(lake, contract, affected)


def after_rebuild(lake: Lake, contract: SourceContract, days: set[date], rows: pa.Table | None = None) -> None:
    """Write every row whose key has been on one of ``days``.

    :param rows: further rows that have been read again (their ids and arrival days), now well formed or malformed.
    """
    lake = lake.cached()

    def affected() -> Iterator[pa.Table]:
        listed = _about_days(lake, contract, days)
        if rows is None:
            yield from listed
            return
        more, rest = {name: pc.unique(rows[name]) for name in ("arrival_date", "ingestion_id")}, rows
        for piece in listed:
            rest = rest.filter(pc.is_null(positions(rest, piece)))
            yield piece
        others = (account.pieces(lake, contract, more), account.malformed(lake, contract, more)) if len(rest) else ()
        for piece in chain.from_iterable(others):
            yield piece.filter(pc.is_valid(positions(piece, rest)))

    _enter(lake, contract, affected)


def _about_days(lake: Lake, contract: SourceContract, days: set[date]) -> Iterator[pa.Table]:
    if not policy_of(contract).chooses_deliveries:
        yield from account.pieces(lake, contract, {"event_date": days})
        return
    stored = locations.key_log(lake, contract.dataset)
    keys = stored.distinct(["record_key"], {"event_date": days})
    about = pa.array([], pa.string()) if keys is None else pc.unique(keys["record_key"])
    yield _of_arrivals(lake, contract, about, days)


def _of_arrivals(
    lake: Lake, contract: SourceContract, keys: pa.Array, days: set[date], unrecorded: Collection[DeliveredFile] = ()
) -> pa.Table:
    """The rows of all arrival days with a row on one of the event days that rows of these keys and days may change.

    Under a policy that chooses deliveries, these are the rows that may change.
    """
    affected = claims.affected_event_days(lake, contract, days, keys)
    arrivals = key_log.arrival_days_with_rows_on(lake, contract.dataset, affected)
    return account.table(lake, contract, arrival_days=arrivals, unrecorded=unrecorded)


def _enter(
    lake: Lake, contract: SourceContract, affected: Callable[[], Iterable[pa.Table]], delivered: Where | None = None
) -> None:
    """Write rows into both tables, and again if the tables from which they are computed have changed meanwhile.

    :param affected: computes the rows in pieces.
    :param delivered: the ingestions whose rows are all among them; they are appended if the tables have none of these rows yet.
    """
    while True:
        inputs = _inputs(lake, contract.dataset)
        before = newest_versions(inputs)
        _write(lake, contract, affected, delivered)
        if not is_any_beyond(zip(inputs, before)):
            return


def _inputs(lake: Lake, source: str) -> list[Table]:
    """The tables that the account is computed from."""
    return [locations.key_log(lake, source), locations.decisions(lake, source), locations.redactions(lake, source)]


def _write(lake: Lake, contract: SourceContract, affected: Callable[[], Iterable[pa.Table]], delivered: Where | None) -> None:
    source = contract.dataset
    stored, held = locations.dispositions(lake, source), locations.quarantine(lake, source)
    existing = _existing_reasons(lake, source)

    @row_writer.retried_on_conflict
    def append() -> tuple[list[pa.Table], set[str], list[pa.Table]]:
        """Append the rows of ingestions of which the table has none.

        :returns: the other rows, the ingestions among them that another run is about to append, and the rows to be reviewed.
        """
        table = layout.table_of_arrivals(lake, stored, _DISPOSITIONS)
        new, others, reviewed = _new_ingestions(table, delivered or {}), [], []

        def new_rows() -> Iterator[pa.Table]:
            for rows in pieces.counted("rows entered into the account", affected()):
                is_new = pc.is_in(rows["ingestion_id"], pa.array(new, pa.string()))
                others.append(rows.filter(pc.invert(is_new)).select(_DISPOSITIONS.names))
                reviewed.append(rows.filter(_are_reviewed(rows, existing)))
                yield rows.filter(is_new).select(_DISPOSITIONS.names)

        sorted_rows = pieces.mapped(_by_event_day, pieces.together(new_rows(), _SORTED_ROWS))
        row_writer.append_new(stored, table, sorted_rows, _app_ids(new), _LAYOUT)
        return others, _not_entered(table, others), reviewed

    others, in_work, reviewed = append()
    for changed in pieces.together(others, _MERGED_ROWS):
        row_writer.upsert(stored, changed, ROW_KEYS, partition_by=layout.ARRIVALS, app_ids=_app_ids(sorted(in_work)))
    for rows in pieces.together(reviewed, _MERGED_ROWS):
        if len(entries := _quarantine_entries(lake, contract, rows, existing)):
            layout.table_of_arrivals(lake, held, quarantine_schema(contract))
            row_writer.upsert(held, entries, ROW_KEYS, partition_by=layout.ARRIVALS)
            layout.keep_at_times(lake, held)
    layout.keep_at_times(lake, stored)


def _by_event_day(rows: pa.Table) -> pa.Table:
    return rows.sort_by("event_date")


def _new_ingestions(table: DeltaTable, delivered: Where) -> list[str]:
    """The delivered ingestions of which the table has no row: appending is cheaper than a MERGE, which reads whole
    arrival days.
    """
    if not delivered:
        return []
    present = table_io.distinct_of_version(table, ["ingestion_id"], delivered)
    return sorted(set(delivered["ingestion_id"]) - set(present["ingestion_id"].to_pylist()))


def _not_entered(table: DeltaTable, rows: Iterable[pa.Table]) -> set[str]:
    """The ingestions of rows of which the table had none when it was opened: the run that delivers them has not ended."""
    missing: set[str] = set()
    for piece in filter(len, rows):
        where = {name: pc.unique(piece[name]) for name in ("ingestion_id", "arrival_date")}
        present = table_io.distinct_of_version(table, ["ingestion_id"], where)
        missing |= set(where["ingestion_id"].to_pylist()) - set(present["ingestion_id"].to_pylist())
    return missing


def _app_ids(ingestions: Iterable[str]) -> list[str]:
    return [f"dispositions:{ingestion_id}" for ingestion_id in ingestions]


def _are_reviewed(rows: pa.Table, existing: pa.Table) -> pa.ChunkedArray:
    """Whether rows are or were in the quarantine.

    :param rows: columns ``account.SCHEMA``; ``existing`` has the rows of the quarantine's table.
    """
    waits = pc.equal(rows["disposition"], Disposition.QUARANTINED.value)
    barred = pc.fill_null(pc.equal(rows["admission"], AdmissionStatus.QUARANTINED.value), False)
    return pc.or_(pc.or_(waits, barred), pc.is_valid(positions(rows, existing)))


def _quarantine_entries(lake: Lake, contract: SourceContract, rows: pa.Table, existing: pa.Table) -> pa.Table:
    """The quarantine's entries for rows that :func:`_are_reviewed`, with redacted fields set to NULL."""
    source, schema = contract.dataset, quarantine_schema(contract)
    where = {name: pc.unique(rows[name]) for name in ROW_KEYS}
    content = readings.read(lake, source, [name for name, _ in bronze_columns(contract)], where)
    if content is None:
        return schema.empty_table()
    place = positions(content, rows)
    content, rows = content.filter(pc.is_valid(place)), rows.take(place.drop_null())
    shown = redactions.applied(content, redactions.keys_by_field(lake, source))
    columns = dict(zip(shown.column_names, shown.columns))
    decided = decisions.in_force(lake, source, rows=rows)
    columns |= _reviews(rows, decided.take(positions(rows, decided)), existing.take(positions(rows, existing)))
    since = content["arrival_ts"].cast(pa.timestamp("us", "UTC"))
    columns["quarantine_since"] = since
    columns["quarantine_review_by"] = pc.add(since, pa.scalar(contract.lateness.review_within, pa.duration("us")))
    return pa.table(columns).select(schema.names).cast(schema)


def _existing_reasons(lake: Lake, source: str) -> pa.Table:
    """Reason and detail of each row that is already in the quarantine's table, with the row's id."""
    entries = locations.quarantine(lake, source).read(_REASONS.names, None)
    return _REASONS.empty_table() if entries is None else entries.cast(_REASONS)


def _reviews(rows: pa.Table, decided: pa.Table, existing: pa.Table) -> dict[str, pa.ChunkedArray]:
    """The reason why each row is or was quarantined, and the state of its review, by column.

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
