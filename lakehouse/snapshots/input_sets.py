"""Sets of inputs of a source: those that revisions were computed from (rule R10), those known at a time, and those with a name.

``ops/inputs`` has the ingestions, decisions and redactions that revisions were computed from. A set is named by a digest of its
members and stored as its additions to an older set, so that a revision only needs its name. Sets only grow, because Bronze,
decisions and redactions are append-only.

``ops/snapshots`` has the sets that a person has named, such as ``partner_feed_v1.3_correction``. A snapshot is frozen: later
files, decisions and requests never belong to it, and its name is never reused. Its rows are computed from Bronze (``rows``), so
that it costs one log entry, whatever its size, and needs no older version of a table.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.delta import provenance
from lakehouse.errors import LakehouseError
from lakehouse.ledger import decisions, ingestions, late_decisions, rebuild_requests
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import date, datetime

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


class UnknownInputsError(LakehouseError):
    """A name of inputs that is not recorded. The message says what to do."""


@dataclass(frozen=True)
class InputSet:
    """A set of ids named ``inputs``: the ids of the set ``adds_to`` (if any), and those in ``added``."""

    source: str
    inputs: str
    adds_to: str | None
    added: list[str]
    recorded_at: datetime


def log(lake: Lake) -> LogTable[InputSet]:
    """The table."""
    return LogTable(InputSet, lake, locations.input_sets(lake), partition_by="source")


def name_of(ids: Collection[str]) -> str:
    """The name of a set."""
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()[:16]


def record(lake: Lake, source: str, ids: Collection[str], now: datetime) -> str:
    """Store a set, once.

    :returns: its name.
    """
    name = name_of(ids)
    sets = _recorded(lake, source)
    if name in sets:
        return name
    wanted = set(ids)
    newest = max((entry.recorded_at for entry in sets.values()), default=None)
    latest = [other for other, entry in sets.items() if entry.recorded_at == newest]
    # Of numbers that count more rows than others, the set holds one more id: the next set adds to the one that it adds to.
    bases = {other: _resolved(sets, other) for one in latest for other in (one, sets[one].adds_to) if other is not None}
    base = max((other for other, held in bases.items() if held <= wanted), key=lambda other: len(bases[other]), default=None)
    added = sorted(wanted - (bases[base] if base is not None else set()))
    log(lake).append([InputSet(source, name, base, added, now)], app_id=f"inputs:{source}:{name}")
    return name


def ids_of(lake: Lake, source: str, name: str) -> set[str]:
    """The ids in the set ``name``.

    :raises UnknownInputsError: if it was never recorded.
    """
    sets = _recorded(lake, source)
    if name not in sets:
        msg = (
            f"the inputs {name} of {source} are not recorded: their row in "
            f"{locations.input_sets(lake)} is missing, and only the "
            "newest state can be computed again (materialize the period)"
        )
        raise UnknownInputsError(msg)
    return _resolved(sets, name)


def _recorded(lake: Lake, source: str) -> dict[str, InputSet]:
    return {entry.inputs: entry for entry in log(lake).read({"source": [source]})}


def _resolved(sets: dict[str, InputSet], name: str) -> set[str]:
    ids: set[str] = set()
    step: str | None = name
    while step is not None:
        ids.update(sets[step].added)
        step = sets[step].adds_to
    return ids


def known_at(lake: Lake, source: str, when: datetime) -> set[str]:
    """The ids of all files, and of everything that had been decided and requested by ``when``.

    Files are always included; their rows are filtered by arrival time (``until`` of ``silver.merge.state``), because a file may
    have been ingested later than its rows arrived.
    """
    ids = set(ingestions.inputs(ingestions.all_of(lake, source)))
    ids |= {one.decision_id for one in decisions.all_of(lake, source) if one.decided_at <= when}
    ids |= late_decisions.ids(lake, source, when)
    return ids | {one.operation_id for one in rebuild_requests.all_of(lake, source) if one.recorded_at <= when}


#: The form of a name.
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"


class SnapshotError(LakehouseError):
    """A snapshot that is unknown, or cannot be created. The message says what to do."""


class SnapshotEvent(str, Enum):
    """The events of a name."""

    CREATED = "created"
    DROPPED = "dropped"


@dataclass(frozen=True)
class NamedSnapshot:
    """A named set of inputs, or the record that it was dropped.

    ``inputs`` names the set of ids (see ``input_sets``); with ``until``, only rows that had arrived by this time belong to it;
    ``described`` is the request in words.
    """

    source: str
    name: str
    event: SnapshotEvent
    inputs: str
    until: datetime | None
    described: str
    contract_version: str
    by: str
    reason: str
    recorded_at: datetime


def snapshot_log(lake: Lake) -> LogTable[NamedSnapshot]:
    """The table."""
    return LogTable(NamedSnapshot, lake, locations.snapshots(lake), partition_by="source", journaled=True)


@dataclass(frozen=True)
class ChosenInputs:
    """The inputs of a source to name.

    :param ids: see :func:`every_input`, :func:`inputs_through`, :func:`inputs_of_files` and :func:`known_at`.
    :param described: the choice in words.
    :param until: only rows that had arrived by this time.
    """

    ids: Collection[str]
    described: str
    until: datetime | None = None


def create_snapshot(
    lake: Lake, contract: SourceContract, name: str, inputs: ChosenInputs, *, by: str, reason: str
) -> NamedSnapshot:
    """Name a set of inputs. Repeating the same request changes nothing.

    :raises SnapshotError: for a name that is no file name, that is taken, or for no input at all.
    """
    if not re.fullmatch(NAME, name):
        msg = f"{name!r} is no name of a snapshot: write letters, digits, '.', '_' and '-', such as feed_v1.3_2024-11-10"
        raise SnapshotError(msg)
    source = contract.dataset
    if not inputs.ids & ingestions.inputs(ingestions.all_of(lake, source)).keys():
        msg = f"no file of {source} is in it ({inputs.described}): nothing is named"
        raise SnapshotError(msg)
    entry = NamedSnapshot(
        source=source,
        name=name,
        event=SnapshotEvent.CREATED,
        inputs=record(lake, source, inputs.ids, lake.now()),
        until=inputs.until,
        described=inputs.described,
        contract_version=provenance.of_contract(contract),
        by=by,
        reason=reason,
        recorded_at=lake.now(),
    )
    snapshot_log(lake).append([entry], app_id=f"snapshot:{source}:{name}")
    recorded = _entries(lake, source, name)
    first = recorded[0]
    if (first.inputs, first.until) != (entry.inputs, entry.until) or len(recorded) > 1:
        state = "was dropped" if len(recorded) > 1 else f"holds other inputs ({first.described}, by {first.by})"
        msg = f"the name {name} of {source} is taken: it {state}; a name is never given again, choose another"
        raise SnapshotError(msg)
    return first


def drop_snapshot(lake: Lake, source: str, name: str, *, by: str, reason: str) -> NamedSnapshot:
    """Take a name out of use; the author and the reason stay recorded, and no row of any table changes.

    :raises SnapshotError: for an unknown name.
    """
    known = find_snapshot(lake, source, name)
    entry = NamedSnapshot(
        **{**vars(known), "event": SnapshotEvent.DROPPED, "by": by, "reason": reason, "recorded_at": lake.now()}
    )
    snapshot_log(lake).append([entry], app_id=f"snapshot:{source}:{name}:dropped")
    return entry


def find_snapshot(lake: Lake, source: str, name: str) -> NamedSnapshot:
    """The snapshot ``name``.

    :raises SnapshotError: for an unknown or dropped name; the message lists the known ones.
    """
    known = {snapshot.name: snapshot for snapshot in snapshots_of(lake, source)}
    if name in known:
        return known[name]
    dropped = [entry for entry in _entries(lake, source, name) if entry.event is SnapshotEvent.DROPPED]
    state = f"was dropped by {dropped[0].by}: {dropped[0].reason}" if dropped else "does not exist"
    msg = f"the snapshot {name} of {source} {state}; known are {', '.join(sorted(known)) or 'none'}"
    raise SnapshotError(msg)


def snapshots_of(lake: Lake, source: str) -> list[NamedSnapshot]:
    """The snapshots of a source that are in use, oldest first."""
    entries = snapshot_log(lake).read({"source": [source]})
    dropped = {entry.name for entry in entries if entry.event is SnapshotEvent.DROPPED}
    return sorted((entry for entry in entries if entry.name not in dropped), key=lambda entry: (entry.recorded_at, entry.name))


def every_input(lake: Lake, source: str) -> set[str]:
    """The ids of all inputs that are recorded."""
    return ingestions.inputs(ingestions.all_of(lake, source)).keys() | _by_people(lake, source)


def inputs_through(lake: Lake, source: str, last: date) -> set[str]:
    """The files of arrival days through ``last``, and every decision and request."""
    delivered = ingestions.inputs(ingestions.all_of(lake, source))
    return {one for one, entry in delivered.items() if entry.arrival_date <= last} | _by_people(lake, source)


def inputs_of_files(lake: Lake, source: str, files: Sequence[str]) -> set[str]:
    """The ``files``, by the names under which they were delivered, and every decision and request.

    :raises SnapshotError: for a name under which no file was ingested.
    """
    delivered = ingestions.inputs(ingestions.all_of(lake, source))
    missing = sorted(set(files) - {entry.source_file for entry in delivered.values()})
    if missing:
        msg = f"no file {missing[0]} of {source} was ingested: 'lakehouse source account {source}' lists the arrival days"
        raise SnapshotError(msg)
    return {one for one, entry in delivered.items() if entry.source_file in set(files)} | _by_people(lake, source)


def _by_people(lake: Lake, source: str) -> set[str]:
    return decisions.touched(lake, source).keys() | rebuild_requests.touched(lake, source).keys()


def _entries(lake: Lake, source: str, name: str) -> list[NamedSnapshot]:
    found = snapshot_log(lake).read({"source": [source], "name": [name]})
    return sorted(found, key=lambda entry: entry.event is SnapshotEvent.DROPPED)
