"""Proposes, approves and rejects corrections, and enters those with enough approvals as an ordinary file.

Belongs here: the required approvals, and the order of the steps. An approved correction is delivered to the landing folder under
a name derived from its id, so that a stopped command is completed by the next one.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import date
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.contracts.series import days_reached
from lakehouse.gold.numbers import served_version
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.ledger import applied_inputs, ingestions
from lakehouse.operations.changes import correction_record
from lakehouse.operations.changes.correction_record import CorrectionError, Operation
from lakehouse.project.delivery import deliver

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

#: What is equal in two proposals of one command.
_WORDS = ("record_key", "operation", "values", "by", "reason")


@dataclass(frozen=True)
class RecordChange:
    """What a correction does with the record of a key.

    :param values: texts by field, as in a file.
    """

    key: str
    operation: Operation
    values: Mapping[str, str]


def propose(
    lake: Lake, catalog: Catalog, source: str, change: RecordChange, by: str, reason: str
) -> correction_record.Correction:
    """Propose a correction; it is entered immediately if no further approval is needed.

    :raises CorrectionError: if the key does not exist (or, to enter a record, does exist), a field is unknown, the record would
        be malformed, or the source accepts no corrections.
    """
    contract, key, operation, values = catalog.sources[source], change.key, change.operation, change.values
    _check_source(contract, operation)
    known = correction_record.field_names(contract)
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise CorrectionError(f"{source} has no field {unknown[0]}: it has {', '.join(known)}")
    row = correction_record.row_of(lake, contract, key)
    _check_row(source, key, operation, row)
    hidden = correction_record.hidden_of(lake, contract, key)
    _check_shown(key, values, hidden, "leave it out of --set")
    if operation is Operation.CORRECT and not values:
        raise CorrectionError(f"nothing to correct of {key}: name a field with --set FIELD=VALUE")
    event = correction_record.CorrectionEvent(
        source=source,
        correction_id=uuid.uuid4().hex[:12],
        kind=correction_record.CorrectionEventKind.PROPOSED,
        record_key=key,
        operation=operation,
        needed=1,
        by=by,
        reason=reason,
        recorded_at=lake.now(),
        values=dict(values),
        before=correction_record.before(lake, contract, key, row),
    )
    typed = correction_record.check(contract, event, hidden)
    days = {day for day in (row["event_date"] if row else None, typed["event_date"]) if day is not None}
    if begun := _begun(lake, event, row):
        return begun if begun.end else _enter(lake, contract, begun)
    event = correction_record.CorrectionEvent(**{**vars(event), "needed": approvals_needed(lake, catalog, source, days)})
    correction_record.record(lake, event)
    return _enter(lake, contract, correction_record.Correction([event], hidden))


def _begun(
    lake: Lake, event: correction_record.CorrectionEvent, row: Mapping[str, Any] | None
) -> correction_record.Correction | None:
    """The correction that the same command proposed before it was stopped; None without one.

    It was stopped before silver had applied the file, or the row is still the one of that file. Later the same words are a
    correction of their own: the sender may have taken the first one back.

    :param row: of silver.
    """
    applied = applied_inputs.every_input(lake, event.source)
    entries = (entry for entry in ingestions.all_of(lake, event.source) if entry.ingestion_id in applied)
    settled = {PurePosixPath(entry.source_file).name for entry in entries}
    row_file = PurePosixPath(row["source_file"]).name if row else None
    for correction in correction_record.of_source(lake, event.source):
        if any(getattr(correction.proposal, name) != getattr(event, name) for name in _WORDS):
            continue
        file = correction.end.file if correction.end else None
        if file is not None and file == row_file:
            return correction
        if correction.end is None and correction.proposal.before == event.before:
            return correction
        # Its own record may be among those that a further one follows.
        is_pending = file is not None and file not in settled
        if is_pending and correction_record.row_before(correction.proposal) == correction_record.row_before(event):
            return correction
    return None


def approve(lake: Lake, catalog: Catalog, source: str, correction_id: str, by: str, reason: str) -> correction_record.Correction:
    """Approve a correction; it is entered as soon as it has enough approvals. Idempotent.

    :raises CorrectionError: if the correction is settled, the person has proposed it, or the row has changed since.
    """
    contract = catalog.sources[source]
    correction = correction_record.find(lake, source, correction_id)
    _check_open(correction)
    if correction.is_approved:  # by a command that was stopped before it entered the record
        return _enter(lake, contract, correction)
    if by in correction.agreed:
        count = correction.proposal.needed
        msg = f"{by} agreed to {correction.correction_id} already: {count} different people have to"
        raise CorrectionError(msg)
    key = correction.proposal.record_key
    hidden = correction_record.hidden_of(lake, contract, key)
    _check_shown(key, correction.proposal.values, hidden, f"reject {correction.correction_id}, and propose it without the value")
    now = correction_record.before(lake, contract, key, correction_record.row_of(lake, contract, key))
    changed = [name for name in {**now, **correction.proposal.before} if now.get(name) != correction.proposal.before.get(name)]
    if changed:
        msg = (
            f"the row of {correction.proposal.record_key} has changed since the proposal ({', '.join(sorted(changed))}): reject "
            f"{correction.correction_id}, and propose it against the present row"
        )
        raise CorrectionError(msg)
    correction_record.record(lake, _event(lake, correction, correction_record.CorrectionEventKind.APPROVED, by, reason))
    return _enter(lake, contract, correction_record.find(lake, source, correction.correction_id))


def reject(lake: Lake, source: str, correction_id: str, by: str, reason: str) -> correction_record.Correction:
    """Reject a correction: nothing is entered.

    :raises CorrectionError: if the correction is settled or approved.
    """
    correction = correction_record.find(lake, source, correction_id)
    _check_open(correction)
    if correction.is_approved:
        raise CorrectionError(f"{correction.correction_id} is approved and is being entered: correct the key again instead")
    correction_record.record(lake, _event(lake, correction, correction_record.CorrectionEventKind.REJECTED, by, reason))
    return correction_record.find(lake, source, correction.correction_id)


def approvals_needed(lake: Lake, catalog: Catalog, source: str, days: Collection[date]) -> int:
    """The number of people who must agree to a change of event days: more than one only if a final number would change.

    Of a metric that follows the source through a join, the numbers of all days since then may.
    """
    needed, readers = [1], catalog.metrics_from(source)
    for metric in catalog.metrics_following(source):
        if metric.publication.approvals <= max(needed):
            continue
        daily = served_version.daily(lake, catalog, metric)
        found = locations.gold(lake, daily).read([daily.by], {"is_latest": [True], "state": [State.FINAL.value]})
        final, reached = set() if found is None else set(found[daily.by].to_pylist()), days_reached(metric, days)
        if final & reached or (metric not in readers and max(final, default=date.min) >= min(days, default=date.max)):
            needed.append(metric.publication.approvals)
    return max(needed)


def _enter(lake: Lake, contract: SourceContract, correction: correction_record.Correction) -> correction_record.Correction:
    """Deliver an approved correction; its file is the same each time."""
    if not correction.is_approved:
        return correction
    last = correction.events[-1]
    proposal = correction.proposal
    hidden = correction_record.hidden_of(lake, contract, proposal.record_key)
    values = correction_record.values_of(contract, proposal, last.recorded_at, hidden)
    with TemporaryDirectory() as folder:
        file = Path(folder, ingestions.hand_file_name(proposal.correction_id, correction_record.ending(contract)))
        file.write_bytes(correction_record.content_of(contract, values))
        [target] = deliver(lake, contract, [file], last.recorded_at.date())
    entered = _event(lake, correction, correction_record.CorrectionEventKind.ENTERED, last.by, last.reason, target.name)
    correction_record.record(lake, entered)
    return correction_record.Correction([*correction.events, entered], correction.hidden)


def _event(
    lake: Lake,
    correction: correction_record.Correction,
    kind: correction_record.CorrectionEventKind,
    by: str,
    reason: str,
    file: str | None = None,
) -> correction_record.CorrectionEvent:
    about: dict[str, Any] = {**vars(correction.proposal), "kind": kind, "by": by, "reason": reason, "file": file}
    return correction_record.CorrectionEvent(**about | {"recorded_at": lake.now()})


def _check_open(correction: correction_record.Correction) -> None:
    if correction.end is not None:
        end = correction.end
        raise CorrectionError(f"{correction.correction_id} is {end.kind.value} already, by {end.by}: {end.reason}")


def _check_source(contract: SourceContract, operation: Operation) -> None:
    if contract.materialization.reprocess_policy != "merge":
        policy = contract.materialization.reprocess_policy
        msg = f"{contract.dataset} is kept under {policy}: send a corrected delivery; single records are corrected under merge"
        raise CorrectionError(msg)
    if contract.synthetic_key is not None:
        raise CorrectionError(f"{contract.dataset} knows its records by a hash of their content: a changed one is another record")
    if contract.source.complete_when and contract.source.complete_when.manifest:
        raise CorrectionError(f"{contract.dataset} takes files that a manifest lists: send the correction with one")
    if not contract.source.is_plain:
        how = "in the words of its sender (source.formats, joined, columns, skip_lines, comment)"
        raise CorrectionError(f"records of {contract.dataset} are written {how}: have the sender send the correction")
    if contract.by_sequence and not contract.order.is_one_integer:
        remedy = "correct the record at its source"
        msg = f"{contract.dataset} orders its changes not by one integer, so that no correction can follow them: {remedy}"
        raise CorrectionError(msg)
    if operation is Operation.WITHDRAW and not contract.changes.op:
        raise CorrectionError(f"the records of {contract.dataset} cannot be withdrawn: its contract has no changes.op")


def _check_shown(key: str, values: Collection[str], hidden: Collection[str], remedy: str) -> None:
    """:raises CorrectionError: if a redacted field is set."""
    if names := ", ".join(sorted(set(values) & set(hidden))):
        msg = f"{names} of {key} is redacted, and stays masked whatever a correction sets ('lakehouse change list' shows by whom)"
        raise CorrectionError(f"{msg}: {remedy}")


def _check_row(source: str, key: str, operation: Operation, row: Mapping[str, Any] | None) -> None:
    if operation is Operation.ENTER and row is not None:
        raise CorrectionError(f"silver/{source} has a row of {key} on {row['event_date']}: correct it with --set")
    if operation is not Operation.ENTER and row is None:
        msg = f"silver/{source} has no row of {key}: 'lakehouse trace {source} {key}' shows its records; --new enters one"
        raise CorrectionError(msg)
