"""``ops/restatements``: up to which silver version a metric has been brought, by which run, and which days that changed.

It is the restatement sensor's memory and the answer to "why was this day restated"; without it a metric is computed
again for all days, and days that come out equal are not written.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import table_io

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

    from lakehouse.settings import Settings

_SCHEMA = pa.schema(
    [
        ("metric", pa.string()),
        ("run_id", pa.string()),
        ("as_of", pa.timestamp("us", "UTC")),
        ("silver_version", pa.int64()),
        ("gold_version", pa.int64()),
        ("days", pa.list_(pa.date32())),
        ("causes", pa.string()),
    ]
)


@dataclass(frozen=True)
class Restatement:
    """One run of a metric.

    ``followed_version`` is the version of the upstream table (Silver for days, the daily table for longer periods) through
    which all changes are in the numbers, -1 when the run was asked for some periods only; it is stored as ``silver_version``.
    ``causes`` counts, per Silver day, the keys inserted, corrected, moved and deleted.
    """

    metric: str
    run_id: str
    as_of: datetime
    followed_version: int
    gold_version: int
    days: list[date]
    causes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def record(settings: Settings, entry: Restatement) -> None:
    """Append one run."""
    row = {**vars(entry), "silver_version": entry.followed_version, "days": sorted(entry.days)}
    row["causes"] = json.dumps(entry.causes, sort_keys=True)
    table_io.append(
        locations.restatements(settings),
        pa.Table.from_pylist([row], schema=_SCHEMA),
        options=settings.storage_options,
        partition_by=["metric"],
    )


def of(settings: Settings, metric: str) -> list[Restatement]:
    """All runs of a metric, oldest first."""
    table = table_io.read(locations.restatements(settings), _SCHEMA.names, {"metric": [metric]}, settings.storage_options)
    entries = [] if table is None else [_restatement(row) for row in table.to_pylist()]
    return sorted(entries, key=lambda entry: (entry.as_of, entry.gold_version))


def followed_version(settings: Settings, metric: str) -> int:
    """The version of its upstream table that a metric has followed, -1 where it has followed none."""
    return max((entry.followed_version for entry in of(settings, metric)), default=-1)


def followed_versions(settings: Settings) -> dict[str, int]:
    """The same for every metric that has followed one."""
    columns = ["metric", "silver_version"]
    table = table_io.read(locations.restatements(settings), columns, None, settings.storage_options)
    newest = None if table is None else table.group_by("metric").aggregate([("silver_version", "max")])
    return {row["metric"]: row["silver_version_max"] for row in ([] if newest is None else newest.to_pylist())}


def _restatement(row: dict[str, Any]) -> Restatement:
    followed = row.pop("silver_version")
    return Restatement(**row | {"followed_version": followed, "causes": json.loads(row["causes"])})
