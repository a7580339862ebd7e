"""``ops/pauses``: the sources, metrics and models for which Dagster starts nothing new, until a person resumes them; who and why.

A pause holds for the sensors and schedules that look at each contract (``orchestration.automation.looks``). Commands, and runs
that people start, work as usual. Files that arrive meanwhile wait in landing, and messages in their topic. Nothing is lost, and
what waits is taken after the pause. Silver follows what Bronze took before; checks of freshness, alerts and maintenance go on.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.errors import LakehouseError
from lakehouse.ledger.log_table import LogTable
from lakehouse.text import suggestion

if TYPE_CHECKING:
    from datetime import datetime

    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake


class PauseEventKind(str, Enum):
    """What happened."""

    PAUSED = "paused"
    RESUMED = "resumed"


@dataclass(frozen=True)
class PauseEvent:
    """A pause, or its end.

    :param contract: ``source/sales``, ``metric/revenue`` or ``model/fraud``.
    """

    contract: str
    event: PauseEventKind
    by: str
    reason: str
    recorded_at: datetime

    def as_json(self) -> dict[str, str]:
        """The fields, with texts for times."""
        return {**asdict(self), "event": self.event.value, "recorded_at": self.recorded_at.isoformat()}

    def __str__(self) -> str:
        return f"{self.event.value} by {self.by} on {self.recorded_at:%Y-%m-%d %H:%M}: {self.reason}"


class PauseError(LakehouseError):
    """A contract cannot be paused or resumed. The message names the contracts that can."""


def log(lake: Lake) -> LogTable[PauseEvent]:
    """The table."""
    return LogTable(PauseEvent, lake, locations.pauses(lake), journaled=True)


def paused(lake: Lake) -> dict[str, PauseEvent]:
    """The pauses that hold, by contract."""
    newest = {entry.contract: entry for entry in sorted(log(lake).read(), key=lambda entry: entry.recorded_at)}
    return {contract: newest[contract] for contract in sorted(newest) if newest[contract].event is PauseEventKind.PAUSED}


def pause(lake: Lake, contract: str, by: str, reason: str) -> PauseEvent:
    """Start nothing new for a contract from the next ticks on.

    :raises PauseError: if it is paused.
    """
    if contract in (known := paused(lake)):
        msg = f"{contract} is {known[contract]}"
        raise PauseError(msg)
    return _record(lake, PauseEvent(contract, PauseEventKind.PAUSED, by, reason, lake.now()))


def resume(lake: Lake, contract: str, by: str, reason: str) -> PauseEvent:
    """End a pause: the next ticks take what waits.

    :raises PauseError: if it is not paused.
    """
    if contract not in (known := paused(lake)):
        msg = f"{contract} is not paused; paused: {', '.join(known) or 'nothing'}"
        raise PauseError(msg)
    return _record(lake, PauseEvent(contract, PauseEventKind.RESUMED, by, reason, lake.now()))


def contract_named(catalog: Catalog, name: str) -> str:
    """The contract that a person means: ``sales``, or ``metric/sales`` if a source has the same name.

    :raises PauseError: if there is none, or more than one.
    """
    contracts = [f"source/{source}" for source in catalog.sources]
    contracts += [f"metric/{metric}" for metric in catalog.metrics] + [f"model/{model}" for model in catalog.models]
    meant = [contract for contract in contracts if name in {contract, contract.partition("/")[2]}]
    if len(meant) == 1:
        return meant[0]
    if meant:
        msg = f"{name} is the name of several contracts: write {' or '.join(meant)}"
    else:
        names = [contract.partition("/")[2] for contract in contracts]
        msg = f"there is no source, metric or model {name!r}{suggestion(name, names)}"
    raise PauseError(msg)


def _record(lake: Lake, entry: PauseEvent) -> PauseEvent:
    log(lake).append([entry], app_id=f"{entry.contract}:{entry.event.value}:{entry.recorded_at.isoformat()}")
    return entry
