"""The silver tables that numbers are computed from: whether they are built, their versions and row counts, and what changed.

Only logs, keys and change feeds are read, and no Spark is needed. The rows belong to ``silver_rows``. Rows of an event day that
do not count, because an earlier source has them too, are counted by day.

The change feeds give the event days on which the tables changed since given versions, and how many changes of each kind concern
each window of a day, or the sessions of each key. The windows of the rows of a number are computed in ``silver_rows``, by Spark;
those that must be computed again belong to ``patched_days``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.calendar.days import start_of_day
from lakehouse.contracts.windows import WINDOW_START, EventWindow, SessionWindow
from lakehouse.delta import change_feed
from lakehouse.delta.change_feed import LateRows
from lakehouse.dimensions import tables as keys
from lakehouse.errors import LakehouseError
from lakehouse.lake import newest_versions, table_io
from lakehouse.lateness.measurement import judged
from lakehouse.ledger import applied_inputs, ingestions

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import date, timedelta
    from zoneinfo import ZoneInfo

    from deltalake import DeltaTable

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.metric_sources import MetricSource
    from lakehouse.contracts.source import SourceContract
    from lakehouse.contracts.windows import EventWindow
    from lakehouse.lake import Lake, Table


class UnbuiltTableError(LakehouseError):
    """The silver table that a metric reads has yet to be built. The message names it and what to do."""


class LostSilverError(LakehouseError):
    """The silver table that a metric reads has lost commits, and their inputs wait. The message names it and what to do."""


def require_rows(lake: Lake, metric: MetricContract) -> None:
    """Check that the silver tables that a metric reads have been built, and have lost nothing.

    :raises UnbuiltTableError: if one has not been built: an earlier release has only written the main table of the source.
    :raises LostSilverError: if one has lost commits: numbers would be published without their rows.
    """
    for entry in metric.read:
        if is_unbuilt(lake, entry):
            msg = (
                f"silver/{entry.silver} has not been built yet, and gold/{metric.name} reads it: materialize a day of "
                f"silver/{entry.source}, which builds it from Bronze, or set 'rows: all' to count every row of a key as before"
            )
            raise UnbuiltTableError(msg)
        stored = locations.silver_read_of(lake, entry)
        lost = applied_inputs.lost_versions(lake, entry.source, stored if entry.rows == "newest" else None)
        if lost is not None:
            msg = (
                f"silver/{entry.silver} does not hold commit {lost.followed} any more, and gold/{metric.name} reads it: "
                f"'lakehouse replay {entry.source}', or a run of silver/{entry.source}, applies its inputs again"
            )
            raise LostSilverError(msg)


def is_unbuilt(lake: Lake, entry: MetricSource) -> bool:
    """Whether the silver table that is read of a source has yet to be built, although the source has rows."""
    return entry.rows == "newest" and applied_inputs.lacks_newest(lake, entry.source)


def versions_read(lake: Lake, metric: MetricContract) -> dict[str, int]:
    """The version of each table that the numbers of a metric are computed from: of Silver, and of its dimensions."""
    tables = _inputs(lake, metric)
    return dict(zip(tables, newest_versions([*tables.values()])))


def _inputs(lake: Lake, metric: MetricContract) -> dict[str, Table]:
    tables = locations.every_silver_read(lake, metric)
    for dimension in metric.dimensions:
        tables |= {dimension: locations.silver(lake, dimension)}
        tables |= {f"{dimension}_intervals": locations.intervals(lake, dimension)}
    return tables


def changed_since(lake: Lake, metric: MetricContract, versions: Mapping[str, int]) -> str | None:
    """The first of these tables that has a later version than in ``versions``; None if none has."""
    tables = _inputs(lake, metric)
    return next((name for name, version in versions.items() if tables[name].is_beyond(version)), None)


def tables_read(lake: Lake, metric: MetricContract) -> list[tuple[MetricSource, DeltaTable | None]]:
    """The silver tables of a metric's sources, in their order; None for one that does not exist."""
    return [(entry, locations.silver_read_of(lake, entry).open()) for entry in metric.read]


def rows_at_most(lake: Lake, metric: MetricContract, where: table_io.Where) -> int:
    """An upper bound of the rows that the silver tables of a metric hold together."""
    return sum(table_io.rows_at_most(table, where) for _, table in tables_read(lake, metric) if table is not None)


#: The approximate number of keys that are in memory at a time.
_TOGETHER = 2**20


def count(lake: Lake, metric: MetricContract, days: Collection[date]) -> Counter[date]:
    """The number of silver rows of a metric's sources that an earlier source has too, by event day."""
    duplicates: Counter[date] = Counter()
    for day in days if metric.deduplicate_by else ():
        rows = rows_at_most(lake, metric, {"event_date": [day]})
        parts = -(-rows // _TOGETHER)
        for part in range(parts):
            duplicates[day] += _in_part(lake, metric, day, part, parts)
    return duplicates


def _in_part(lake: Lake, metric: MetricContract, day: date, part: int, parts: int) -> int:
    """The duplicates of one day among the keys of one part."""
    known, duplicates = pa.array([], pa.string()), 0
    for entry, table in zip(metric.sources, locations.every_silver_read(lake, metric).values()):
        keys_known = [known]
        columns = [entry.column(name) for name in metric.deduplicate_by]
        for piece in table.pieces(list(dict.fromkeys(columns)), {"event_date": [day]}):
            texts = keys.key_texts([table_io.with_columns(piece, columns)[name] for name in columns]).drop_null()
            texts = texts.filter(pc.equal(keys.key_buckets(texts, parts), part)) if parts > 1 else texts
            duplicates += pc.sum(pc.is_in(texts, known)).as_py() or 0
            keys_known.append(texts)
        known = pc.unique(pa.concat_arrays(keys_known))
    return duplicates


#: The number of changed keys of a day that are shown.
SAMPLE = 5


@dataclass(frozen=True)
class ChangedDays:
    """The changes on event days.

    :param causes: per day the number of keys inserted, corrected, moved and deleted.
    :param keys: per day a sample of the changed keys.
    :param places: per day the same numbers by window or key of sessions, for a metric with windows.
    """

    causes: Mapping[date, Counter[str]] = field(default_factory=dict)
    keys: Mapping[date, list[str]] = field(default_factory=dict)
    places: CausesByPlace = field(default_factory=dict)

    def __add__(self, other: ChangedDays) -> ChangedDays:
        """The changes of both tables."""
        causes = {
            day: self.causes.get(day, Counter()) + other.causes.get(day, Counter()) for day in {**self.causes, **other.causes}
        }
        keys = {day: [*self.keys.get(day, ()), *other.keys.get(day, ())][:SAMPLE] for day in {**self.keys, **other.keys}}
        return ChangedDays(dict(sorted(causes.items())), keys, windows_added(self.places, other.places))

    def __len__(self) -> int:
        """The number of days and places."""
        return len(self.causes) + sum(map(len, self.places.values()))


def silver_tables(lake: Lake, metric: MetricContract) -> dict[str, DeltaTable | None]:
    """The silver tables that a metric reads, by name, in the order of its sources; None for a table that has yet to be built."""
    read = tables_read(lake, metric)
    return {entry.silver: None if is_unbuilt(lake, entry) else table for entry, table in read}


def first_unfollowed(table: DeltaTable, followed: int) -> int:
    """The first version whose changes count; a table that was created again is followed from its beginning."""
    return followed + 1 if followed <= table.version() else 0


def since(
    stored: Table,
    table: DeltaTable,
    first: int,
    contract: SourceContract | None = None,
    window: EventWindow | SessionWindow | None = None,
) -> ChangedDays:
    """The changes of a silver table by the versions from ``first`` on; cached, as a run asks for them several times.

    :param table: as it is opened.
    :param contract: of the table's source: its bounds separate rows on time from late rows.
    :param window: the windows to which the changes are assigned; None for none.
    :raises ForgottenFeedError: if its change feed no longer reaches back.
    """
    terms = [None if model is None else model.model_dump_json() for model in (contract, window)]
    question = table_io.question(stored.address, None, None, "changes", *terms)
    return stored.answer(table, question, partial(_since, table, first, contract, window), first)


def _since(
    table: DeltaTable, first: int, contract: SourceContract | None, window: EventWindow | SessionWindow | None
) -> ChangedDays:
    causes: dict[date, Counter[str]] = {}
    keys: dict[date, list[str]] = {}
    places: dict[date, Mapping[Place, Counter[str]]] = {}
    late_rows, more = _late_rows(contract) if contract else None, columns_read(window) if window else []
    for changes, rows in change_feed.key_changes_with_rows(table, first, table.version(), late_rows, more):
        causes |= change_feed.counts(changes)
        keys |= _sampled(changes)
        places.update(window_causes(changes, rows, window) if window else {})
    return ChangedDays(dict(sorted(causes.items())), keys, places)


def _late_rows(contract: SourceContract) -> LateRows:
    columns = ("event_ts", "event_date", "arrival_ts", "source_file", contract.event_type_column)
    return LateRows(columns, lambda rows: judged(rows, contract)[1], lambda rows: ingestions.are_by_hand(rows["source_file"]))


def _sampled(changes: pa.Table) -> dict[date, list[str]]:
    """The first changed keys of each day, by kind and key.

    :param changes: columns ``change_feed.KEY_CHANGES``.
    """
    by = [("what", "ascending"), ("record_key", "ascending")]
    return {
        day: of_day["record_key"].take(pc.select_k_unstable(of_day, min(SAMPLE, len(of_day)), by)).to_pylist()
        for day, of_day in table_io.split(changes, "event_date").items()
    }


#: With more groups of changes, the windows are not told apart.
_MOST_GROUPS = 20_000
_PLACE = ["record_key", "event_date"]
_TIME = pa.timestamp("us", "UTC")

#: A window by its first moment, or the sessions of a key by the values of the key.
Place = tuple[Any, ...]
#: Per Silver day, the number of changes of each kind by place.
CausesByPlace = Mapping["date", Mapping[Place, Counter[str]]]


def window_of(metric: MetricContract) -> EventWindow | SessionWindow | None:
    """The windows of a metric to which changes of Silver can be assigned; None without any.

    The key of sessions is read from Silver: in a metric that joins dimensions, or reads several sources, it may be elsewhere.
    """
    window = metric.event_window
    return None if isinstance(window, SessionWindow) and (metric.joins or metric.sources) else window


def columns_read(window: EventWindow | SessionWindow) -> list[str]:
    """The columns of Silver that decide in which place a row lies."""
    return list(window.key) if isinstance(window, SessionWindow) else ["event_ts"]


def window_causes(changes: pa.Table, feed: pa.Table, window: EventWindow | SessionWindow) -> CausesByPlace:
    """The number of changes of each kind, per Silver day and place; a change of a row counts in each window in which the row lies
    or lay. Empty if there are too many places.

    :param changes: columns ``change_feed.KEY_CHANGES``.
    :param feed: the rows before and after the changes, with ``record_key``, ``event_date`` and :func:`columns_read`.
    """
    names = window.place
    rows = feed.filter(pc.is_in(feed["record_key"], changes["record_key"].combine_chunks().unique()))
    placed = rows.select([*_PLACE, *names]) if isinstance(window, SessionWindow) else with_starts(rows, window)
    placed = placed.group_by([*_PLACE, *names]).aggregate([])
    counted = (
        changes.join(placed, _PLACE, join_type="inner").group_by(["event_date", "what", *names]).aggregate([([], "count_all")])
    )
    if len(counted) > _MOST_GROUPS:
        return {}
    by_day: dict[date, dict[Place, Counter[str]]] = {}
    for row in counted.to_pylist():
        place = tuple(row[name] for name in names)
        by_day.setdefault(row["event_date"], {}).setdefault(place, Counter())[row["what"]] += row["count_all"]
    return by_day


def windows_added(one: CausesByPlace, other: CausesByPlace) -> CausesByPlace:
    """The changes of both tables."""
    return {day: windows_together(one.get(day, {}), other.get(day, {})) for day in {**one, **other}}


def windows_together(*parts: Mapping[Place, Counter[str]]) -> dict[Place, Counter[str]]:
    """The changes of several days or tables by place."""
    by_place: dict[Place, Counter[str]] = {}
    for part in parts:
        for place, counts in part.items():
            by_place[place] = by_place.get(place, Counter()) + counts
    return by_place


def with_starts(rows: pa.Table, window: EventWindow) -> pa.Table:
    """The keys, event days and windows of rows, a row for each window in which one lies; without a time it lies in NULL.

    :param rows: with ``record_key``, ``event_date`` and ``event_ts``.
    """
    rows = rows.select([*_PLACE, "event_ts"])
    nowhere = rows.filter(pc.is_null(rows["event_ts"]))
    timed = rows.filter(pc.is_valid(rows["event_ts"]))
    moments = pc.cast(pc.cast(timed["event_ts"], _TIME), pa.int64())
    midnight, before = (_midnights(timed["event_date"], window.zone, shift) for shift in (0, -1))
    step, size = _micros(window.step), _micros(window.size)
    parts = [_table(nowhere, pa.nulls(len(nowhere), _TIME))]
    for number in range(-(-size // step)):
        start = pc.subtract(_newest_start(moments, midnight, step), number * step)
        lies = pc.and_(pc.greater_equal(start, midnight), pc.less(moments, pc.add(start, size)))
        parts.append(_table(timed.filter(lies), pc.cast(pc.filter(start, lies), _TIME)))
    last = pc.add(before, pc.multiply(pc.divide(pc.subtract(pc.subtract(midnight, 1), before), step), step))
    for number in range(-(-size // step) if window.overlaps else 0):
        start = pc.subtract(last, number * step)  # a window of the day before that reaches into this one
        lies = pc.less(moments, pc.add(start, size))
        parts.append(_table(timed.filter(lies), pc.cast(pc.filter(start, lies), _TIME)))
    return pa.concat_tables(parts)


def _newest_start(moments: pa.ChunkedArray, midnight: pa.ChunkedArray, step: int) -> pa.ChunkedArray:
    """The first moment of the last window of the day that has begun."""
    return pc.add(midnight, pc.multiply(pc.divide(pc.subtract(moments, midnight), step), step))


def _midnights(days: pa.ChunkedArray, zone: ZoneInfo, shift: int) -> pa.ChunkedArray:
    """The first microsecond of each day, or of the day before it (``shift`` -1)."""
    known: Sequence[date] = pc.unique(days).to_pylist()
    first = [round(start_of_day(day.fromordinal(day.toordinal() + shift), zone).timestamp()) * 1_000_000 for day in known]
    return pa.chunked_array([pa.array(first, pa.int64()).take(pc.index_in(days, pa.array(known, pa.date32())).combine_chunks())])


def _table(rows: pa.Table, starts: pa.ChunkedArray | pa.Array) -> pa.Table:
    return rows.select(_PLACE).append_column(WINDOW_START, starts)


def _micros(length: timedelta) -> int:
    return int(length.total_seconds()) * 1_000_000
