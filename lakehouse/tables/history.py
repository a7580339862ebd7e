"""What readers of a gold table have seen, day by day, from the table's own change feed and commits.

Only reading, through delta-rs and without a JVM; what a commit changed in silver is told by ``changes``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.ledger import restatements, store
from lakehouse.tables import changes, gold

if TYPE_CHECKING:
    from lakehouse.settings import Settings


@dataclass(frozen=True)
class Publication:
    """The rows of one event day as one commit left them; none where it emptied the day."""

    as_of: datetime
    version: int
    rows: list[dict[str, Any]]


def publications(settings: Settings, metric: str) -> dict[date, list[Publication]]:
    """Every state of each event day, oldest first."""
    table = store.open_table(gold.path(settings, metric), settings.storage_options)
    if table is None:
        return {}
    as_of = {commit["version"]: _as_of(commit) for commit in table.history()}
    feed = pa.table(table.load_cdf(starting_version=0, ending_version=table.version()).read_all()).to_pylist()
    states: dict[tuple[date, int], list[dict[str, Any]]] = defaultdict(list)
    for row in feed:
        key = (row["event_date"], row["_commit_version"])
        rows = states[key]
        if row["_change_type"] in changes.AFTER:
            rows.append({name: value for name, value in row.items() if not name.startswith("_")})
    days: dict[date, list[Publication]] = defaultdict(list)
    for (day, version), rows in sorted(states.items()):
        days[day].append(Publication(as_of[version], version, rows))
    return dict(days)


def causes(settings: Settings, metric: str) -> dict[tuple[date, int], dict[str, int]]:
    """What happened to the keys of an event day, by day and the gold version that followed it.

    A run killed between its commit and its ledger row is recorded by the next one, which writes no days but knows the
    causes: they count where no other run claims the day.
    """
    found: dict[tuple[date, int], dict[str, int]] = {}
    unclaimed: dict[tuple[date, int], dict[str, int]] = {}
    for entry in restatements.of(settings, metric):
        for text, what in entry.causes.items():
            day = date.fromisoformat(text)
            (found if day in entry.days else unclaimed).setdefault((day, entry.gold_version), dict(what))
    return unclaimed | found


def _as_of(commit: dict[str, Any]) -> datetime:
    """The clock of the run that committed."""
    why = store.why(commit)
    if "as_of" in why:
        return datetime.fromisoformat(why["as_of"])
    return datetime.fromtimestamp(commit["timestamp"] / 1000, timezone.utc)
