"""``ops/corrections``: each manual correction, from its proposal to the file that entered it, and the record that enters it.

The record is a line in the format of the source's contract. It is parsed by ``bronze.row_parser`` before anything is recorded, so
no correction is malformed. The required approvals belong to ``correction_flow``.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.bronze.file_formats import Record
from lakehouse.bronze.row_parser import RowParser
from lakehouse.delta.columns import silver_columns
from lakehouse.dispositions import living_rows
from lakehouse.errors import LakehouseError
from lakehouse.ledger import key_log, redactions
from lakehouse.ledger.ids import DeliveredFile
from lakehouse.ledger.log_table import LogTable
from lakehouse.silver import audit_log

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


class CorrectionError(LakehouseError):
    """A correction that cannot be proposed, approved or entered; nothing has changed. The message names the remedy."""


class Operation(str, Enum):
    """The operation of a correction on the record of a key."""

    CORRECT = "correct"
    WITHDRAW = "withdraw"
    ENTER = "enter"


class CorrectionEventKind(str, Enum):
    """The kinds of events of a correction."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    REJECTED = "rejected"
    ENTERED = "entered"


@dataclass(frozen=True)
class CorrectionEvent:
    """An event of a correction.

    ``operation``, ``values`` (by field), ``before`` (by field, the row at the time of the proposal) and ``needed`` (the number of
    people who must agree) repeat the proposal; ``file`` is the name in the landing folder, once entered.
    """

    source: str
    correction_id: str
    kind: CorrectionEventKind
    record_key: str
    operation: Operation
    needed: int
    by: str
    reason: str
    recorded_at: datetime
    values: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] = field(default_factory=dict)
    file: str | None = None


@dataclass(frozen=True)
class Correction:
    """A correction with its events, oldest first.

    ``hidden`` are the redacted fields of the key: people see :attr:`shown`.
    """

    events: Sequence[CorrectionEvent]
    hidden: Collection[str] = ()

    @property
    def proposal(self) -> CorrectionEvent:
        """The first event, which proposed the correction."""
        return self.events[0]

    @property
    def correction_id(self) -> str:
        """The id of the correction."""
        return self.proposal.correction_id

    @property
    def shown(self) -> list[CorrectionEvent]:
        """The events with redacted values masked."""
        return [
            replace(
                event,
                values=audit_log.masked_values(event.values, self.hidden),
                before=audit_log.masked_values(event.before, self.hidden),
            )
            for event in self.events
        ]

    @property
    def described(self) -> str:
        """What it does, with the values before and after, redacted ones masked: ``correct a: amount 10 -> 12``."""
        proposal = self.shown[0]
        values = ", ".join(f"{name} {proposal.before.get(name)} -> {value}" for name, value in proposal.values.items())
        return f"{proposal.operation.value} {proposal.record_key}{': ' if values else ''}{values}"

    @property
    def agreed(self) -> list[str]:
        """The people who proposed or approved the correction."""
        kinds = (CorrectionEventKind.PROPOSED, CorrectionEventKind.APPROVED)
        return [event.by for event in self.events if event.kind in kinds]

    @property
    def is_approved(self) -> bool:
        """Whether enough people agree."""
        return len(set(self.agreed)) >= self.proposal.needed

    @property
    def end(self) -> CorrectionEvent | None:
        """The event that settled the correction; None while it is open."""
        ends = (CorrectionEventKind.REJECTED, CorrectionEventKind.ENTERED)
        return next((event for event in self.events if event.kind in ends), None)


def log(lake: Lake) -> LogTable[CorrectionEvent]:
    """The table."""
    return LogTable(CorrectionEvent, lake, locations.corrections(lake), partition_by="source")


def record(lake: Lake, event: CorrectionEvent) -> bool:
    """Append an event once per person and kind; returns whether it was new."""
    return log(lake).append([event], app_id=f"correction:{event.correction_id}:{event.kind.value}:{event.by}")


def of_source(lake: Lake, source: str) -> list[Correction]:
    """All corrections of a source, oldest first."""
    ranks = list(CorrectionEventKind)
    events = sorted(log(lake).read({"source": [source]}), key=lambda event: (event.recorded_at, ranks.index(event.kind)))
    by_id: dict[str, list[CorrectionEvent]] = {}
    for event in events:
        by_id.setdefault(event.correction_id, []).append(event)
    hidden = audit_log.redacted_fields(redactions.all_of(lake, source))
    return [Correction(known, hidden.get(known[0].record_key, ())) for known in by_id.values()]


def find(lake: Lake, source: str, correction_id: str) -> Correction:
    """The correction with an id, or the only correction whose id begins with it.

    :raises CorrectionError: if no correction matches, or more than one.
    """
    known = of_source(lake, source)
    matches = [one for one in known if one.correction_id.startswith(correction_id)]
    if len(matches) != 1:
        open_ids = ", ".join(one.correction_id for one in known if one.end is None) or "none"
        count = "more than one correction begins with" if matches else "there is no correction"
        msg = f"{source}: {count} {correction_id}; open are {open_ids}"
        raise CorrectionError(msg)
    return matches[0]


_SEQUENCE = "source_sequence"
_OP = "change_op"
#: What an event's ``before`` has besides the row: how the record has to be written so that it counts, see :func:`before`.
_PLACE = (_SEQUENCE, _OP)
_RETIRED = "retire"
_ENDS_AT = "ends_at"


def row_of(lake: Lake, contract: SourceContract, key: str) -> dict[str, Any] | None:
    """Silver's row of a key, by column, with redacted fields empty; None without a row."""
    days = key_log.days_by_key(lake, contract.dataset, [key])[key]
    where = {"event_date": sorted(days), "record_key": [key]}
    columns = [name for name, _ in silver_columns(contract)]
    table = locations.silver(lake, contract.dataset).read(columns, where) if days else None
    hidden = redactions.keys_by_field(lake, contract.dataset)  # silver follows a redaction later
    rows = [] if table is None else redactions.applied(table, hidden).to_pylist()
    return rows[0] if rows else None


def fields_of(contract: SourceContract, row: Mapping[str, Any]) -> dict[str, str | None]:
    """A silver row as the texts of a file, by field, including the event time."""
    event = row["event_ts"] or row["event_date"]
    texts = {spec.name: _text(row.get(spec.name)) for spec in contract.model.fields}
    own_end = {_ENDS_AT: _text(row.get(_ENDS_AT))} if contract.dimension.valid_to else {}
    return texts | {_event_field(contract): _text(event)} | own_end


def before(lake: Lake, contract: SourceContract, key: str, row: Mapping[str, Any] | None) -> dict[str, str | None]:
    """What a correction of a key follows: the texts of its row, and what makes the record count.

    If the source numbers its changes, the record gets the number after the greatest one of the key, which a delete may have
    (``source_sequence``). If not, an insert of a key that was corrected under another one never counts, and only a correction
    does (``change_op`` is ``retire``).

    :param row: of silver; None without one.
    """
    texts = fields_of(contract, row) if row else {}
    newest = living_rows.winning_claim(lake, contract, key)
    if newest and contract.order.sequence:
        texts[_SEQUENCE] = f"{newest[_SEQUENCE] + 1}"
    elif newest and newest["kind"] == _RETIRED:
        texts[_OP] = _RETIRED
    return texts


def row_before(event: CorrectionEvent) -> dict[str, Any]:
    """The row that a correction follows, by field."""
    return {name: value for name, value in event.before.items() if name not in _PLACE}


def hidden_of(lake: Lake, contract: SourceContract, key: str) -> set[str]:
    """The redacted fields of a key, which no correction can set. The event time is none: silver keeps it as ``event_ts``."""
    fields = audit_log.redacted_fields(redactions.all_of(lake, contract.dataset)).get(key, set())
    return fields - {_event_field(contract)}


def values_of(
    contract: SourceContract, event: CorrectionEvent, settled_at: datetime, hidden: Collection[str] = ()
) -> dict[str, str | None]:
    """The record of a correction, by column of the file.

    :param settled_at: the time of approval, which is the record's arrival time.
    :param hidden: the fields that stay empty, see :func:`hidden_of`.
    """
    changes, fields = contract.changes, {**event.before, **event.values, **dict.fromkeys(hidden)}
    revives = _revives(event)
    words = {
        Operation.CORRECT: changes.correct_words,
        Operation.WITHDRAW: changes.retract_words if contract.is_dimension else changes.delete_words,
        Operation.ENTER: changes.correct_words if revives else changes.insert_words,
    }
    by_column: dict[str | None, str | None] = {spec.in_file: fields.get(spec.name) for spec in contract.model.fields}
    by_column |= {
        contract.event_column: fields.get(_event_field(contract)),
        contract.clocks.arrival: _text(settled_at),
        contract.dimension.valid_to: fields.get(_ENDS_AT),
        changes.op: words[event.operation][0],
        changes.is_correction: "1" if revives or event.operation is Operation.CORRECT else "0",
        changes.corrected_by: event.by,
        changes.correction_reason: event.reason,
        changes.corrected_field: ", ".join(sorted(event.values)) or None,
        DeliveredFile.CORRECTION: event.correction_id,
    }
    by_column |= {item.column: fields.get(_SEQUENCE) or "0" for item in contract.order.sequence}  # one, or none
    columns = [*contract.columns_read, DeliveredFile.CORRECTION]
    return {column: by_column.get(column) for column in columns}


def _revives(event: CorrectionEvent) -> bool:
    """Whether a correction enters a record of a key that was corrected under another one."""
    return event.operation is Operation.ENTER and event.before.get(_OP) == _RETIRED


def check(contract: SourceContract, event: CorrectionEvent, hidden: Collection[str] = ()) -> dict[str, Any]:
    """Parse the record of a proposal like ingestion.

    :param hidden: the fields that stay empty, also where they are required, see :func:`hidden_of`.
    :returns: the typed row.
    :raises CorrectionError: if the record would be malformed, or has another key.
    """
    if _revives(event) and not (contract.changes.op or contract.changes.is_correction):
        msg = (
            f"{event.record_key} was corrected under another key, after which no insert of it counts; 'lakehouse trace "
            f"{event.source} {event.record_key}' shows under which: correct that one, or name 'changes.op' or "
            f"'changes.is_correction' in the contract of {event.source}, which mark a correction"
        )
        raise CorrectionError(msg)
    emptied = sorted(name for name, value in event.values.items() if value is None)
    if emptied and contract.has_partial_corrections and not contract.changes.corrected_field:
        msg = (
            f"a correction of {event.source} cannot empty {', '.join(emptied)}: its corrections are partial, so that an empty "
            "field keeps its value; name a column under 'changes.corrected_field', which says what is emptied"
        )
        raise CorrectionError(msg)
    values = values_of(contract, event, event.recorded_at, hidden)
    empty = contract.source.word_for_null
    delivery = DeliveredFile("correction", "correction", event.recorded_at.date(), event.recorded_at)
    record = Record(1, "", {column: empty if value is None else value for column, value in values.items()})
    row = RowParser(contract, delivery, hidden).row(record)
    if "malformed_reason" in row:
        msg = f"the correction of {event.record_key} is not a valid record of {event.source}: {row['malformed_reason']}"
        raise CorrectionError(msg)
    if row["record_key"] != event.record_key:
        keys = f"the record has the key {row['record_key']}, not {event.record_key}"
        msg = f"{keys}: withdraw the one, and enter the other with --new"
        raise CorrectionError(msg)
    return row


def content_of(contract: SourceContract, values: Mapping[str, str | None]) -> bytes:
    """The content of a file with the single record."""
    source, columns = contract.source, list(values)
    if source.format == "json":
        return f"{json.dumps(values, ensure_ascii=False)}\n".encode()  # a file without a column of the contract is held
    if source.format == "parquet":
        return _parquet(values)
    empty = source.word_for_null
    text = io.StringIO()
    writer = csv.writer(text, delimiter=source.delimiter, quotechar=source.quote, lineterminator="\n")
    writer.writerows([columns, [empty if values[column] is None else values[column] for column in columns]])
    return text.getvalue().encode()


def ending(contract: SourceContract) -> str:
    """The extension of the file's name."""
    return f".{contract.source.format}"


def field_names(contract: SourceContract) -> Sequence[str]:
    """The fields that a correction may set: all except the key, and the event time."""
    names = [spec.name for spec in contract.model.fields]
    return list(dict.fromkeys([*names, _event_field(contract)]))


def _event_field(contract: SourceContract) -> str:
    """The field with the event time, or its column if there is no such field."""
    column = contract.event_column or ""
    return next((spec.name for spec in contract.model.fields if spec.in_file == column), column)


def _parquet(values: Mapping[str, str | None]) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 (few sources need it)
    import pyarrow.parquet as pq  # noqa: PLC0415

    stream = io.BytesIO()
    pq.write_table(pa.table({name: pa.array([value], pa.string()) for name, value in values.items()}), stream)
    return stream.getvalue()


def _text(value: Any) -> str | None:
    """A silver value as the text that converts back to it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    return f"{value:f}" if isinstance(value, Decimal) else f"{value}"
