"""``ops/applications``: which ingestions, decisions, redactions and operations silver has applied, to which event days.

Losing this table loses nothing: what is applied again changes nothing, because silver is a function of Bronze.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.ledger import decisions, ingestions, rebuild_requests, redactions
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date, datetime

    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.settings import Settings


@dataclass(frozen=True)
class AppliedInputs:
    """One commit to silver: the event days whose content it brought up to date, and the inputs that it contains for them.

    ``ingestion_ids`` are the ids of ingestions, decisions, redactions and rebuild requests; ``method`` is how silver was
    written (merged, or rebuilt by day).
    """

    source: str
    run_id: str
    days: list[date]
    ingestion_ids: list[str]
    method: str
    silver_version: int
    recorded_at: datetime


def log(settings: Settings) -> LogTable[AppliedInputs]:
    """The table."""
    return LogTable(AppliedInputs, settings, locations.applied_inputs(settings), partition_by="source")


def record(
    settings: Settings,
    source: str,
    *,
    run_id: str,
    days: Iterable[date],
    ingestion_ids: Iterable[str],
    method: str,
    silver_version: int,
    now: datetime,
) -> None:
    """State that silver's ``days`` now contain what these ingestions, decisions and redactions say about them."""
    entry = AppliedInputs(source, run_id, sorted(days), sorted(ingestion_ids), method, silver_version, now)
    log(settings).append([entry])


def pending(settings: Settings, source: str) -> dict[date, set[str]]:
    """The event days that wait for silver, each with the ids of what it waits for: see :func:`is_by_hand`."""
    waiting: dict[date, set[str]] = defaultdict(set)
    for day, entries in pending_entries(settings, source).items():
        waiting[day] |= {entry.ingestion_id for entry in entries}
    for day, ids in pending_by_hand(settings, source).items():
        waiting[day] |= ids
    return dict(waiting)


def is_by_hand(one: str) -> bool:
    """Whether an id is that of a decision, a redaction or an operation, and not of an ingestion."""
    return one.startswith((decisions.PREFIX, redactions.PREFIX, rebuild_requests.PREFIX))


def pending_by_hand(settings: Settings, source: str) -> dict[date, set[str]]:
    """The event days that wait for silver because a person decided, redacted or wants them made again."""
    touched = (
        decisions.touched(settings, source) | redactions.touched(settings, source) | rebuild_requests.touched(settings, source)
    )
    done = _applied(settings, source) if touched else {}
    waiting: dict[date, set[str]] = defaultdict(set)
    for one, days in touched.items():
        for day in days.difference(*done.get(one, ())):
            waiting[day].add(one)
    return dict(waiting)


def pending_entries(settings: Settings, source: str) -> dict[date, list[Ingestion]]:
    """The event days that wait for silver, each with the ingestions that wait for it."""
    known = ingestions.ingested(ingestions.all_of(settings, source))
    done = _applied(settings, source)
    waiting: dict[date, list[Ingestion]] = defaultdict(list)
    for ingestion_id, entry in known.items():
        for day in set(entry.touched_days).difference(*done.get(ingestion_id, ())):
            waiting[day].append(entry)
    return dict(waiting)


def has_any(settings: Settings, source: str) -> bool:
    """Whether anything is known to be applied."""
    return bool(_applied(settings, source))


def _applied(settings: Settings, source: str) -> dict[str, list[frozenset[date]]]:
    """Per id the event days of silver that contain what it says, application by application."""
    applied = log(settings).select(["days", "ingestion_ids"], {"source": [source]})
    done: dict[str, list[frozenset[date]]] = defaultdict(list)
    for row in applied.to_pylist():
        days = frozenset(row["days"])  # one for all: a run about many files is about many days
        for one in row["ingestion_ids"]:
            done[one].append(days)
    return dict(done)
