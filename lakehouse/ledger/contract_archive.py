"""``ops/contracts``: the full contracts under which numbers were published, so that the numbers can be reproduced (rule R10).

A contract is identified by the hash that revisions and commits contain. The kind ``ingested`` has the contract of a source under
which its rows were last read (``contracts_in_use``). A metric's row also names the contract of its source, and is written again
when the source's contract changes: the time of a revision determines which pair was in force.
``gold.reproduction.contract_history`` selects the contract of a revision.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lakehouse import locations
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from datetime import datetime

    from lakehouse.lake import Lake

Kind = Literal["source", "metric", "ingested"]


@dataclass(frozen=True)
class ArchivedContract:
    """The text of a contract (JSON) under the hash ``version``; ``number`` counts the contracts of a name, from 1.

    ``source_version`` is the hash of the source's contract that was in force with a metric's.
    """

    kind: Kind
    name: str
    version: str
    source_version: str | None
    contract: str
    number: int
    recorded_at: datetime


def log(lake: Lake) -> LogTable[ArchivedContract]:
    """The table."""
    return LogTable(ArchivedContract, lake, locations.contract_archive(lake), journaled=True)


def record(
    lake: Lake, kind: Kind, name: str, version: str, contract: str, now: datetime, source_version: str | None = None
) -> bool:
    """Store a contract (as JSON), unless it is already the newest stored contract of its name.

    :returns: whether it was written.
    """
    archived = _archived(lake, kind, name)
    newest = archived[-1] if archived else None
    if newest is not None and (newest.version, newest.source_version) == (version, source_version):
        return False
    number = len(archived) + 1
    entry = ArchivedContract(kind, name, version, source_version, contract, number, now)
    return log(lake).append([entry], app_id=f"contracts:{kind}:{name}:{number}:{version}:{source_version}")


def find(lake: Lake, kind: Kind, name: str, version: str) -> dict[str, Any] | None:
    """The contract with the hash ``version``; None if it was never stored."""
    return next((json.loads(entry.contract) for entry in _archived(lake, kind, name) if entry.version == version), None)


def newest(lake: Lake, kind: Kind, name: str) -> dict[str, Any] | None:
    """The contract of ``name`` that was stored last; None if there is none."""
    archived = _archived(lake, kind, name)
    return readable(json.loads(archived[-1].contract)) if archived else None


def readable(stored: dict[str, Any]) -> dict[str, Any]:
    """A stored contract as this release reads it: without a key that earlier releases accepted and that never had an effect, and
    with the rule for late events that held before there was a key for it.
    """
    if stored.get("late_events"):
        return {**stored, "late_events": {"at_close": "exclude", **stored["late_events"]}}
    if "clocks" not in stored:
        return stored
    return {**stored, "clocks": {key: value for key, value in stored["clocks"].items() if key != "event_time"}}


def source_version(lake: Lake, metric: str, version: str, when: datetime) -> str | None:
    """The hash of the source's contract that was in force with a metric's contract at ``when``; None if it is not recorded."""
    archived = [entry for entry in _archived(lake, "metric", metric) if entry.version == version]
    before = [entry for entry in archived if entry.recorded_at <= when]
    return next((entry.source_version for entry in reversed(before or archived[:1])), None)


def _archived(lake: Lake, kind: Kind, name: str) -> list[ArchivedContract]:
    return sorted(log(lake).read({"kind": [kind], "name": [name]}), key=lambda entry: entry.number)
