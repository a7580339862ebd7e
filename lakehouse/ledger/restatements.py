"""``ops/restatements``: the silver version up to which each run updated a metric, and the days that changed.

The restatement sensor finds new changes with it, and it records why a day was restated. Without it a metric is computed again for
all days, and days with equal results are not written.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    from lakehouse.lake import Lake


@dataclass(frozen=True)
class Restatement:
    """One run of a metric.

    ``followed_version`` is the version of the upstream table (Silver for days, the daily table for longer periods) through which
    all changes are in the numbers, -1 if only selected periods were requested; it is stored as ``silver_version``. ``causes``
    counts, per Silver day, the keys inserted, corrected, moved and deleted. ``followed_table`` names the silver table that a
    metric's days follow if it is not the main table of the only source, and each table that a derived metric follows.
    ``followed_further`` has the version of each further table that a metric's days follow, -1 for a table that does not exist: by
    name, the silver table of each further source and the intervals of each dimension. ``gold_commit``, ``followed_commit`` and
    ``further_commits`` are the ids of the commits of these versions, see ``delta.lost_commits``; they are empty in entries of
    earlier releases.
    """

    metric: str
    run_id: str
    as_of: datetime
    followed_version: int = field(metadata={"column": "silver_version"})
    gold_version: int
    days: list[date]
    causes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    followed_table: str | None = None
    followed_further: Mapping[str, int] = field(default_factory=dict)
    gold_commit: str | None = None
    followed_commit: str | None = None
    further_commits: Mapping[str, str] = field(default_factory=dict)


def log(lake: Lake) -> LogTable[Restatement]:
    """The table."""
    return LogTable(Restatement, lake, locations.restatements(lake), partition_by="metric")


def record(lake: Lake, *entries: Restatement) -> None:
    """Append one run: one row, or for a derived metric one row for each table that it follows."""
    log(lake).append([replace(entry, days=sorted(entry.days)) for entry in entries])


def of(lake: Lake, metric: str) -> list[Restatement]:
    """All runs of a metric, oldest first."""
    return sorted(log(lake).read({"metric": [metric]}), key=lambda entry: (entry.as_of, entry.gold_version))


def since_following(entries: Sequence[Restatement], table: str | None) -> list[Restatement]:
    """The runs since the last one that followed another table: versions of different tables cannot be compared.

    :param entries: from :func:`of`.
    :param table: see ``Restatement.followed_table``.
    """
    others = (place for place, entry in enumerate(entries) if entry.followed_version >= 0 and entry.followed_table != table)
    return list(entries[max(others, default=-1) + 1 :])


def followed_version(lake: Lake, metric: str, table: str | None = None) -> int:
    """The version of ``table`` that a metric has followed; -1 if it has followed none, or another table since."""
    return max((entry.followed_version for entry in since_following(of(lake, metric), table)), default=-1)


def followed_versions(lake: Lake) -> dict[str, tuple[int, int]]:
    """The number of runs of each metric, and the greatest version that it has followed: unchanged until another run is
    recorded.
    """
    rows = log(lake).select(["metric", "silver_version"])
    newest = rows.group_by("metric").aggregate([([], "count_all"), ("silver_version", "max")])
    return {row["metric"]: (row["count_all"], row["silver_version_max"]) for row in newest.to_pylist()}
