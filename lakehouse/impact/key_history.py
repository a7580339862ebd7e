"""The history of one key in silver, commit by commit, and the published days that changed with it.

This module only reads. The fate of the key's rows in Bronze belongs to ``dispositions.account``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.contracts.series import Series, days_reached
from lakehouse.delta import change_feed, commit_log, table_io
from lakehouse.delta.columns import content_columns
from lakehouse.gold.numbers import served_version

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date, datetime

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.ledger.restatements import Restatement
    from lakehouse.settings import Settings


@dataclass(frozen=True)
class SilverChange:
    """One commit's change of a key's row; ``published`` lists the gold days written when gold followed the commit."""

    version: int
    when: datetime
    change: str
    event_date: date
    published: list[tuple[str, date, datetime]]


def silver_life(
    settings: Settings, contract: SourceContract, metrics: Collection[MetricContract], key: str
) -> tuple[list[SilverChange], int]:
    """The changes of a key's row in a silver table, commit by commit, with the published days that were written for each.

    :param contract: the contract of the silver table, see ``SourceContract.silver_tables``; only those of ``metrics`` that read
        this table count.
    :returns: the content changes, and the oldest version that the table's log and files still contain.
    """
    table = table_io.open_table(locations.silver_of(settings, contract), settings.storage_options)
    if table is None:
        return [], 0
    oldest = min(commit["version"] for commit in commit_log.history(table, -1))
    columns = [name for name, _ in content_columns(contract)]
    feed, oldest = change_feed.rest_of_feed(table, oldest, "record_key = '" + key.replace("'", "''") + "'")
    states: dict[tuple[int, date], dict[str, Any]] = defaultdict(dict)
    for row in feed.to_pylist():
        side = "after" if row["_change_type"] in change_feed.AFTER else "before"
        states[row["_commit_version"], row["event_date"]][side] = [row[name] for name in columns]
        states[row["_commit_version"], row["event_date"]]["when"] = row["_commit_timestamp"]
    followed = [
        (series, served_version.runs(settings, series))
        for metric in metrics
        if any(entry.silver == contract.silver_table for entry in metric.read)
        for series in (Series(metric), *([Series(metric, called=metric.metric)] if metric.dataset_version > 1 else []))
    ]
    result = []
    for (version, day), state in sorted(states.items()):
        before, after = state.get("before"), state.get("after")
        if before == after:
            continue  # the feed of a replaced day also contains its unchanged rows
        change = "inserted" if before is None else "removed" if after is None else "corrected"
        published = [
            (series.name, start, entry.as_of)
            for series, entries in followed
            for entry in _following(series, entries, contract.silver_table, version)
            for start in sorted(days_reached(series.metric, {day}) & set(entry.days))
        ]
        result.append(SilverChange(version, state["when"], change, day, published))
    return result, oldest


def _following(series: Series, entries: list[Restatement], table: str, version: int) -> list[Restatement]:
    """The first restatement that followed ``version`` of a silver table."""
    followed = [(served_version.version_followed(series, entry, table), entry) for entry in entries]
    return [entry for _, entry in sorted((one for one in followed if one[0] >= version), key=lambda one: one[0])[:1]]
