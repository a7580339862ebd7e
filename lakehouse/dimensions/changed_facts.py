"""The facts of a metric whose attributes have changed because intervals of its dimensions have changed.

The change feeds of the intervals give the changed ranges of each key (``changed_intervals``), the index of facts the days of the
keys (``fact_index``), and silver the facts themselves. The effect on numbers is decided in ``gold.restatement``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.contracts.metric_sources import brought_by
from lakehouse.delta import change_feed
from lakehouse.dimensions import changed_intervals, fact_index, tables
from lakehouse.lake import table_io
from lakehouse.text import json_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date
    from zoneinfo import ZoneInfo

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.metric_sources import Join
    from lakehouse.lake import Lake


#: More changed intervals than this affect nearly every day: reading the days then costs less than searching for the facts.
MOST_CHANGES = 2**18
_OF_FACTS = ("event_date", "event_ts", "record_key")
_SHOWN = 20
#: The greatest number of days that are stored with a change: a year.
_DAYS = 366
_SAMPLE = 5
_NO_INTERVALS = pa.schema(
    [
        ("dimension_key", pa.string()),
        *((name, changed_intervals.TIME) for name in ("valid_from", "valid_to")),
        ("other_key", pa.string()),
    ]
).empty_table()
_NO_DAYS = pa.schema([("origin", pa.int64()), ("event_date", pa.date32())]).empty_table()


class ManyChangesError(Exception):
    """More intervals have changed than are examined individually."""


@dataclass
class ChangedFacts:
    """The facts with changed attributes, by event day, and the changes of intervals that concern them.

    :param rows: the number of facts with changed attributes; a fact that two joins change counts for each of them.
    :param attributes: the same counts by attribute, named like "tier of customers".
    :param keys: a sample of the record keys.
    :param changes: the first changes, as they are stored with a publication; ``days`` are the event days of the facts concerned.
    :param in_all: the number of all changes.
    """

    rows: Counter[date] = field(default_factory=Counter)
    attributes: dict[date, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    keys: dict[date, list[str]] = field(default_factory=lambda: defaultdict(list))
    changes: list[dict[str, Any]] = field(default_factory=list)
    in_all: int = 0


def since(lake: Lake, metric: MetricContract, first: Mapping[str, int]) -> ChangedFacts:
    """The facts whose attributes have changed since the versions ``first`` of the dimensions' intervals.

    :param first: by dimension, the first version whose changes count.
    :raises ForgottenFeedError: if a change feed no longer reaches back.
    :raises ManyChangesError: if more than :data:`MOST_CHANGES` intervals have changed.
    """
    changed = ChangedFacts()
    for join in metric.joins:
        ranges = _changed_ranges(lake, join, first[join.dimension])
        if not len(ranges):
            continue
        on, concerned = _of_source(lake, metric, join, ranges.append_column("origin", pa.array(np.arange(len(ranges)))))
        origins, days = [pa.array([], pa.int64())], _NO_DAYS
        for facts, origin in _facts_in(lake, metric, on, concerned, metric.day_zone(join)):
            origins.append(pc.unique(origin))
            days = _days_of_first(pa.concat_tables([days, pa.table([origin, facts["event_date"]], schema=_NO_DAYS.schema)]))
            _count(changed, join, facts, ranges.select(["was", "is"]).take(origin))
        counting = pc.unique(pa.concat_arrays(origins)).sort()
        changed.in_all += len(counting)
        shown = counting.slice(0, _SHOWN)
        of_each = [days.filter(pc.equal(days["origin"], origin))["event_date"].to_pylist() for origin in shown]
        changed.changes += list(_told(join, ranges.take(shown), of_each))[: _SHOWN - len(changed.changes)]
    return changed


def days_within(lake: Lake, metric: MetricContract, join: Join, ranges: pa.Table) -> set[date]:
    """The event days of the facts whose event time lies in a range of their key in a join's dimension.

    :param ranges: columns ``changed_intervals.PLACE``, disjoint per key.
    """
    on, concerned = _of_source(lake, metric, join, ranges.append_column("origin", pa.array(np.arange(len(ranges)))))
    facts = _facts_in(lake, metric, on, concerned, metric.day_zone(join)) if len(concerned) else ()
    return {event_day for piece, _ in facts for event_day in pc.unique(piece["event_date"]).to_pylist()}


def _changed_ranges(lake: Lake, join: Join, first: int) -> pa.Table:
    """``changed_intervals.changed_ranges`` of a dimension's intervals since version ``first``."""
    table = locations.intervals(lake, join.dimension).open()
    columns = [column for column, _ in join.attributes]
    needed = [*changed_intervals.PLACE, *columns, "_change_type"]
    if table is None or first > table.version():
        return pa.table({})
    if len(change_feed.feed_of(table, first, table.version(), columns=["_change_type"])) > MOST_CHANGES:
        raise ManyChangesError
    feed = change_feed.feed_of(table, first, table.version(), columns=list(dict.fromkeys(needed)))
    return changed_intervals.changed_ranges(feed, columns)


def _of_source(lake: Lake, metric: MetricContract, join: Join, ranges: pa.Table) -> tuple[tuple[str, ...], pa.Table]:
    """The columns of silver, and the ranges of their keys in which a fact has a changed attribute.

    :param ranges: ranges of the join's own keys, and ``origin``, the position of the change.
    """
    earlier = brought_by(metric.joins, join)
    if earlier is None:
        return tuple(join.on), ranges.select([*changed_intervals.PLACE, "origin"])
    column_of = {name: column for column, name in earlier.attributes}
    on, wanted = [column_of[name] for name in join.on], pc.unique(ranges["dimension_key"])
    table, columns = locations.intervals(lake, earlier.dimension), list(dict.fromkeys([*changed_intervals.PLACE, *on]))
    parts = []
    for piece in table.pieces(columns, None):
        keyed = piece.select(changed_intervals.PLACE).append_column("other_key", tables.key_texts([piece[name] for name in on]))
        parts.append(keyed.filter(pc.is_in(keyed["other_key"], wanted)))
    inner = changed_intervals.within(pa.concat_tables([_NO_INTERVALS, *parts], promote_options="permissive"), ranges)
    origin = ranges["origin"].take(inner["range"])
    return _of_source(lake, metric, earlier, inner.drop_columns(["range"]).append_column("origin", origin))


def _facts_in(
    lake: Lake, metric: MetricContract, on: tuple[str, ...], ranges: pa.Table, zone: ZoneInfo
) -> Iterator[tuple[pa.Table, pa.Array]]:
    """The facts with an event time in a range of their key, in pieces, each with the ``origin`` of the ranges.

    :param on: the columns of the metric with the key of the ranges.
    :param zone: the time zone for facts that have only an event day.
    """
    for entry, stored in zip(metric.read, locations.every_silver_read(lake, metric).values()):
        own = tuple(map(entry.column, on))
        days = fact_index.days_of(lake, entry.silver, own, ranges, zone)
        columns = list(dict.fromkeys([*own, *_OF_FACTS]))
        for piece in stored.pieces(columns, {"event_date": days}) if days else ():
            keys = pa.chunked_array([tables.key_texts([piece[name] for name in own])])
            place = changed_intervals.covering(keys, fact_index.event_times(piece, zone), ranges)
            yield piece.filter(place.is_valid()), ranges["origin"].take(place.drop_null()).combine_chunks()


def _count(changed: ChangedFacts, join: Join, facts: pa.Table, changes: pa.Table) -> None:
    """Add ``facts`` to ``changed``; ``changes`` has the change of each fact at the same position."""
    for row in pc.value_counts(facts["event_date"]).to_pylist():
        changed.rows[row["values"]] += row["counts"]
    for column, _ in join.attributes:
        days = facts["event_date"].filter(_differs(changes, column))
        for row in pc.value_counts(days).to_pylist():
            changed.attributes[row["values"]][f"{column} of {join.dimension}"] += row["counts"]
    for day, own in table_io.split(facts.select(["event_date", "record_key"]), "event_date").items():
        changed.keys[day] += own["record_key"].slice(0, max(0, _SAMPLE - len(changed.keys[day]))).to_pylist()


def _days_of_first(days: pa.Table) -> pa.Table:
    """The days of the changes that are stored, each once and in order, cut to the number that is stored at most."""
    shown = pc.unique(days["origin"]).sort().slice(0, _SHOWN)
    distinct = days.filter(pc.is_in(days["origin"], shown)).group_by(days.column_names).aggregate([])
    in_order = distinct.select(days.column_names).sort_by([(name, "ascending") for name in days.column_names])
    kept = [in_order.filter(pc.equal(in_order["origin"], origin)).slice(0, _DAYS) for origin in shown]
    return pa.concat_tables([_NO_DAYS, *kept])


def _differs(changes: pa.Table, column: str) -> pa.ChunkedArray:
    """Whether ``column`` differs before and after each change; NULL equals NULL, but not the absence of an interval."""
    was, now = (pc.struct_field(changes[side], column) for side in ("was", "is"))
    equal = pc.or_(pc.fill_null(pc.equal(was, now), False), pc.and_(was.is_null(), now.is_null()))
    appeared = pc.xor(changes["was"].is_null(), changes["is"].is_null())
    return pc.or_(pc.invert(equal), appeared)


def _told(join: Join, changes: pa.Table, days: Sequence[Sequence[date]]) -> Iterator[dict[str, Any]]:
    """The changes in the form in which a publication stores them, one entry for each changed attribute.

    :param days: the event days of the facts that each change concerns.
    """
    for change, concerned in zip(changes.to_pylist(), days):
        was, now = change["was"] or {}, change["is"] or {}
        for column, _ in join.attributes:
            if was.get(column) != now.get(column) or not (was and now):
                yield {
                    "dimension": join.dimension,
                    "key": change["dimension_key"],
                    "column": column,
                    "from": change["valid_from"].isoformat(),
                    "to": None if change["valid_to"] is None else change["valid_to"].isoformat(),
                    "before": json_value(was.get(column)),
                    "after": json_value(now.get(column)),
                    "days": [f"{day}" for day in concerned],
                }
