"""``ops/missing_inputs``: missing inputs that the sensors report: unfinished arrival days, and files that no run could ingest.

A held file is recorded in the ledger of deliveries and is not repeated here. An entry states that something is missing, or no
longer is; the newest entry about a subject holds. A sensor writes when its observation changes, so that readers need not list
landing or read Dagster's runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lakehouse import locations
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

    from lakehouse.lake import Lake

Kind = Literal["unfinished_day", "failed_ingestion", "stream_gap"]


@dataclass(frozen=True)
class MissingInput:
    """A sentence about what is missing from an arrival day; with ``is_missing`` False, it is no longer missing."""

    source: str
    kind: Kind
    arrival_date: date
    text: str
    is_missing: bool
    recorded_at: datetime


def log(lake: Lake) -> LogTable[MissingInput]:
    """The table."""
    return LogTable(MissingInput, lake, locations.missing_inputs(lake), partition_by="source")


def record(lake: Lake, source: str, kind: Kind, missing: Mapping[date, str]) -> bool:
    """Record everything of one kind that is missing now; nothing is written if the same was missing before.

    :param missing: everything of ``kind`` that is missing, as a sentence by arrival day.
    :returns: whether anything was written.
    """
    before = {entry.arrival_date: entry for entry in of(lake, source) if entry.kind == kind}
    now = lake.now()
    changed = [
        MissingInput(source, kind, day, text, True, now)
        for day, text in sorted(missing.items())
        if day not in before or before[day].text != text
    ]
    changed += [MissingInput(source, kind, day, before[day].text, False, now) for day in sorted(before.keys() - missing.keys())]
    return bool(changed) and log(lake).append(changed)


def of(lake: Lake, source: str) -> list[MissingInput]:
    """The missing inputs of a source, by arrival day."""
    newest: dict[tuple[str, date], MissingInput] = {}
    for entry in sorted(log(lake).read({"source": [source]}), key=lambda entry: entry.recorded_at):
        newest[entry.kind, entry.arrival_date] = entry
    return sorted((entry for entry in newest.values() if entry.is_missing), key=lambda entry: (entry.arrival_date, entry.kind))
