"""The changed silver rows behind a published revision: the differences between two silver versions on given event days.

This module only reads: changes from silver's change feed, authors and reasons from the audit log. The history of one key goes
from its records in Bronze through silver, commit by commit, to the published days that changed with it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.contracts.series import Series, days_reached
from lakehouse.delta import change_feed, commit_log
from lakehouse.delta.columns import content_columns
from lakehouse.dimensions.tables import dimension_keys
from lakehouse.dispositions import account
from lakehouse.dispositions import readings as bronze_readings
from lakehouse.gold.numbers import served_version
from lakehouse.gold.publication import restatement_reports
from lakehouse.lake import Table
from lakehouse.ledger import redactions
from lakehouse.silver import audit_log

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date, datetime

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake, table_io
    from lakehouse.ledger.ids import RowId
    from lakehouse.ledger.publications import Restatement
    from lakehouse.ledger.rebuild_requests import RebuildRequest


@dataclass(frozen=True)
class SilverChange:
    """One commit's change of a key's row; ``published`` lists the gold days written when gold followed the commit."""

    version: int
    when: datetime
    change: str
    event_date: date
    published: list[tuple[str, date, datetime]]


@dataclass(frozen=True)
class KeyTrace:
    """The way of a key from its records to the numbers.

    :param records: its records in Bronze with their dispositions.
    :param readings: the requests by which records were read again.
    :param lives: for each silver table of the source, the changes of its row, and the oldest version that the log still has.
    :param joined: the changes of numbers that join the source as a dimension.
    """

    records: list[account.BronzeRow]
    readings: Mapping[RowId, RebuildRequest]
    lives: list[tuple[list[SilverChange], int]]
    joined: list[restatement_reports.PublishedChange]


def trace_of(lake: Lake, catalog: Catalog, source: str, key: str) -> KeyTrace | None:
    """The way of a key of a source; None if no record has it."""
    contract, metrics = catalog.sources[source], catalog.metrics_of(source)
    lake.expect(locations.of_key(lake, contract))
    records = account.rows(lake, contract, keys=[key])
    if not records:
        return None
    readings = bronze_readings.requests_of(lake, source, [row.row_id for row in records])
    days = {row.event_date for row in records if row.event_date is not None}
    lives = [silver_life(lake, table, metrics, key, days) for table in contract.silver_tables]
    return KeyTrace(records, readings, lives, _numbers_that_join(lake, catalog, source, key))


def _numbers_that_join(lake: Lake, catalog: Catalog, source: str, key: str) -> list[restatement_reports.PublishedChange]:
    """The effects of changes of a dimension's key on the days of metrics that join it."""
    [of_dimension] = dimension_keys(pa.array([key])).to_pylist()
    return [
        change
        for metric in catalog.metrics_joining(source)
        if of_dimension is not None
        for change in restatement_reports.changes_of_key(lake, served_version.daily(lake, catalog, metric), source, of_dimension)
    ]


def silver_life(
    lake: Lake, contract: SourceContract, metrics: Collection[MetricContract], key: str, days: Collection[date] | None = None
) -> tuple[list[SilverChange], int]:
    """The changes of a key's row in a silver table, commit by commit, with the published days that were written for each.

    :param contract: the contract of the silver table, see ``SourceContract.silver_tables``; only those of ``metrics`` that read
        this table count.
    :param days: the event days of the key's rows in Bronze, so that other days need not be read.
    :returns: the content changes, and the oldest version that the table's log and files still contain.
    """
    silver = locations.silver_of(lake, contract)
    table = silver.open()
    if table is None:
        return [], 0
    oldest = min(commit["version"] for commit in commit_log.history(table, -1))
    columns = [name for name, _ in content_columns(contract)]
    if locations.readings(lake, contract.dataset).open() is not None:
        days = None  # before its record was read again, a row may have had another day
    feed, oldest = change_feed.rest_of_feed(table, oldest, "record_key = '" + key.replace("'", "''") + "'", days)
    states: dict[tuple[int, date], dict[str, Any]] = defaultdict(dict)
    for row in feed.to_pylist():
        side = "after" if row["_change_type"] in change_feed.AFTER else "before"
        states[row["_commit_version"], row["event_date"]][side] = [row[name] for name in columns]
        states[row["_commit_version"], row["event_date"]]["when"] = row["_commit_timestamp"]
    followed = [
        (series, served_version.runs(lake, series))
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


if TYPE_CHECKING:
    #: A table: its id, address and storage options.
    _Place = tuple[str, str, tuple[tuple[str, str], ...]]

#: The number of cached reads of change feeds, each with the rows shown.
_KEPT = 64


@dataclass(frozen=True)
class RowMove:
    """The change of a key on an event day: inserted, corrected, moved_in, moved_out or deleted.

    ``fields`` has the values before and after for fields that differ; for all fields if the row exists on one side only.
    ``because`` and ``by`` are the reason and the actor from the audit log, if recorded.
    """

    key: str
    day: date
    what: str
    arrived: datetime | None
    source_file: str | None
    line_number: int | None
    fields: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    because: str | None = None
    by: str | None = None


@dataclass(frozen=True)
class Behind:
    """The first changed rows by event day, and their total number; ``known`` is false if the feed does not reach back far enough.

    If ``known`` is true and there are no rows, no row has changed.
    """

    rows: list[RowMove] = field(default_factory=list)
    total: int = 0
    known: bool = True


def rows(lake: Lake, contract: SourceContract, days: Collection[date], first: int, last: int, most: int) -> Behind:
    """The rows of the event days ``days`` that silver versions ``first`` through ``last`` changed; none if ``last`` is earlier.

    :param contract: the contract of the silver table.
    :param most: the maximum number of rows returned; all are counted.
    """
    if first > last:
        return Behind()
    table = locations.silver_of(lake, contract).open()
    if table is None or not 0 <= first <= last <= table.version():
        return Behind(known=False)
    place = (commit_log.identity(table), locations.silver_of(lake, contract).address, tuple(lake.storage_options.items()))
    try:
        shown, feed, total = _read(place, frozenset(days), first, last, most)
    except change_feed.ForgottenFeedError:
        return Behind(known=False)
    sides = _sides(feed.to_pylist(), {(move.key, move.day) for move in shown})
    is_audited = contract.silver_table == contract.dataset  # audit versions refer to the main table
    audited = _audited(lake, contract.dataset, range(first, last + 1), {move.key for move in shown} if is_audited else set())
    hidden = redactions.keys_by_field(lake, contract.dataset)
    key_columns = {"record_key", "event_date", "source_system", *contract.primary_key}
    names = [name for name, _ in content_columns(contract) if name not in key_columns]
    return Behind([_told(move, *sides[move.key, move.day], names, audited.get(move.key, {}), hidden) for move in shown], total)


@lru_cache(_KEPT)
def _read(
    place: _Place, days: frozenset[date], first: int, last: int, most: int
) -> tuple[list[change_feed.KeyChange], pa.Table, int]:
    """The first changes, the change feed of their keys, and the number of all changes. Cached, because commits never change."""
    _, path, options = place
    table = Table(path, dict(options)).open()
    assert table is not None  # noqa: S101 (the caller has opened it)
    moved, feed = change_feed.key_changes_on(table, days, first, last)
    shown = [change_feed.KeyChange(*row.values()) for row in moved.slice(0, most).to_pylist()]
    keys = pa.array({move.key for move in shown}, pa.string())
    return shown, feed.filter(pc.is_in(feed["record_key"], keys)), len(moved)


def _sides(
    feed: list[dict[str, Any]], wanted: set[tuple[str, date]]
) -> dict[tuple[str, date], tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    """For each key and day, the row before the first and after the last change; None where no row exists."""
    rows_by_place: dict[tuple[str, date], list[dict[str, Any]]] = defaultdict(list)
    for row in feed:
        if (place := (row["record_key"], row["event_date"])) in wanted:
            rows_by_place[place].append(row)
    sides = {}
    for place, rows in rows_by_place.items():
        rows.sort(key=lambda row: (row["_commit_version"], row["_change_type"] in change_feed.AFTER))
        first, last = rows[0], rows[-1]
        sides[place] = (
            None if first["_change_type"] in change_feed.AFTER else first,
            last if last["_change_type"] in change_feed.AFTER else None,
        )
    return sides


def _told(
    move: change_feed.KeyChange,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    names: list[str],
    audited: Mapping[str, Any],
    hidden: Mapping[str, set[str]],
) -> RowMove:
    row = after or before or {}
    fields = {}
    for name in names:
        old, new = (None if side is None else side[name] for side in (before, after))
        if old == new:
            continue
        if move.key in hidden.get(name, ()):
            old, new = (None if side is None else audit_log.REDACTED for side in (before, after))
        fields[name] = (old, new)
    return RowMove(
        key=move.key,
        day=move.day,
        what=move.what,
        arrived=row.get("arrival_ts"),
        source_file=row.get("source_file"),
        line_number=row.get("line_number"),
        fields=fields,
        because=audited.get("reason"),
        by=audited.get("actor"),
    )


def _audited(lake: Lake, source: str, versions: range, keys: set[str]) -> dict[str, dict[str, Any]]:
    """The last audit-log entry of each of ``keys`` in these versions."""
    where: table_io.Where = {"source": [source], "silver_version": list(versions), "event_id": keys}
    columns = ["event_id", "silver_version", "reason", "actor"]
    table = locations.audit_log(lake).read(columns, where) if keys else None
    rows = [] if table is None else table.to_pylist()
    return {row["event_id"]: row for row in sorted(rows, key=lambda row: row["silver_version"])}
