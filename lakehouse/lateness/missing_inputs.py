"""``ops/missing_inputs``: what the sensors know to be missing: unfinished arrival days, and files that no run could ingest.

A held file is recorded in the ledger of deliveries and is not repeated here. An entry says that something is missing, or no
longer is; the newest one about a subject holds. A sensor writes when what it sees has changed, so that readers need not look at
landing or at Dagster's runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lakehouse import locations
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

    from lakehouse.settings import Settings

Kind = Literal["unfinished_day", "failed_ingestion", "stream_gap"]


@dataclass(frozen=True)
class MissingInput:
    """What is missing of an arrival day, as a sentence; with ``is_missing`` False, that it no longer is."""

    source: str
    kind: Kind
    arrival_date: date
    text: str
    is_missing: bool
    recorded_at: datetime


def log(settings: Settings) -> LogTable[MissingInput]:
    """The table."""
    return LogTable(MissingInput, settings, locations.missing_inputs(settings), partition_by="source")


def record(settings: Settings, source: str, kind: Kind, missing: Mapping[date, str]) -> bool:
    """Record what of one kind is missing now; nothing is written if the same was missing before.

    :param missing: by arrival day, what is missing of it; all that is missing of the kind.
    :returns: whether anything was written.
    """
    before = {entry.arrival_date: entry for entry in of(settings, source) if entry.kind == kind}
    now = settings.clock()
    changed = [
        MissingInput(source, kind, day, text, True, now)
        for day, text in sorted(missing.items())
        if day not in before or before[day].text != text
    ]
    changed += [MissingInput(source, kind, day, before[day].text, False, now) for day in sorted(before.keys() - missing.keys())]
    return bool(changed) and log(settings).append(changed)


def of(settings: Settings, source: str) -> list[MissingInput]:
    """What is missing of a source, by arrival day."""
    newest: dict[tuple[str, date], MissingInput] = {}
    for entry in sorted(log(settings).read({"source": [source]}), key=lambda entry: entry.recorded_at):
        newest[entry.kind, entry.arrival_date] = entry
    return sorted((entry for entry in newest.values() if entry.is_missing), key=lambda entry: (entry.arrival_date, entry.kind))
