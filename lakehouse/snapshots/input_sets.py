"""``ops/inputs``: the ingestions, decisions and redactions that revisions were computed from (rule R10).

A set is named by a digest of its members and stored as its additions to an older set, so that a revision only needs its name.
Sets only grow, because Bronze, decisions and redactions are append-only.

The inputs of a source that were known at a time: files, decisions and rebuild requests.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.errors import LakehouseError
from lakehouse.ledger import decisions, ingestions, late_decisions, rebuild_requests
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

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
