"""``silver/<dimension>_intervals``: the intervals of every key, and the rule that makes them from the changes of keys.

The table follows ``buckets``, and through it silver. Only intervals that differ are written, so that its change feed shows
exactly what changed.

The rule takes and returns Arrow: when a change begins and ends, which changes make one interval, and which value an attribute has
in it. It is correct for any set of changes that is complete for its keys, so that a large set may be divided by key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import change_feed, partition_writer, row_writer
from lakehouse.dimensions import buckets as dimension_buckets
from lakehouse.dimensions import tables
from lakehouse.dimensions.buckets import LIVES, BucketTable
from lakehouse.dispositions.winners import groups, numpy_of
from lakehouse.lake import table_io, table_parts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from deltalake import DeltaTable
    from numpy.typing import NDArray

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

_INTERVAL = ("dimension_key", "valid_from")


def follow(lake: Lake, contract: SourceContract) -> None:
    """Update a dimension's tables from silver; no effect for a source that is no dimension, and where nothing has changed."""
    stored = locations.silver(lake, contract.dataset)
    silver = stored.snapshot() if contract.is_dimension else None
    if silver is None:
        return
    dimension_buckets.follow(lake, contract, silver)
    copy = dimension_buckets.followed(lake, contract, silver)
    silver = stored.snapshot()  # another process may have brought the copy to a later version
    if copy is not None and silver is not None:
        _follow_changes(lake, contract, silver, *copy)


@row_writer.retried_on_conflict
def _follow_changes(lake: Lake, contract: SourceContract, silver: DeltaTable, by_key: DeltaTable, version: int) -> None:
    """Update the intervals from the copy of changes, to the version of silver that the copy follows."""
    of_intervals, mark = _table(lake, contract), tables.mark(contract, silver)
    table = of_intervals.opened()
    followed = table.transaction_version(mark)
    if followed is not None and followed >= version:
        return
    changed = None if followed is None else _changed_keys(lake, silver, followed + 1, version)
    if changed is not None:
        of_intervals.merge(table, _differing(contract, by_key, table, changed), contract, mark, version)
        return
    few = _all_differing(lake, contract, by_key, table)
    if few is not None:
        of_intervals.merge(table, few, contract, mark, version)
        return
    every = (intervals(contract, dimension_buckets.read(contract, by_key, [bucket])) for bucket in _buckets(by_key))
    of_intervals.replace(table, every, contract, mark, version)


def followed_version(lake: Lake, contract: SourceContract) -> int | None:
    """The version of silver that the intervals are computed from; None if there are none yet."""
    silver = locations.silver(lake, contract.dataset).open()
    return None if silver is None else locations.intervals(lake, contract.dataset).transaction(tables.mark(contract, silver))


def read(
    contract: SourceContract, table: DeltaTable, buckets: Collection[int], keys: Collection[str] | pa.Array | None = None
) -> pa.Table:
    """The intervals in ``buckets``, with the columns ``tables.interval_columns``.

    :param keys: only the intervals of these keys.
    """
    where = {"bucket": buckets} | ({} if keys is None else {"dimension_key": keys})
    names = [name for name, _ in tables.interval_columns(contract)]
    return tables.as_intervals(contract, table_io.read_version(table, names, where))


def differences(present: pa.Table, wanted: pa.Table) -> pa.Table:
    """The rows to write so that a table holds the intervals ``wanted`` in place of ``present``, both of the same keys.

    :returns: the columns of intervals and :data:`LIVES`: the wanted intervals that differ, and, to be removed, the present ones
        with a key and begin that no wanted interval has.
    """
    both = pa.concat_tables([present, wanted])
    is_wanted = np.arange(len(both)) >= len(present)
    place = groups(*(both[name] for name in ("bucket", *_INTERVAL)))
    content = groups(*both.columns)
    unchanged = np.bincount(content, minlength=1)[content] > 1 if len(both) else np.zeros(0, bool)
    replaced = np.isin(place, place[is_wanted]) & ~is_wanted
    chosen = both.filter(pa.array(~unchanged & ~replaced))
    return chosen.append_column(LIVES, pa.array(is_wanted[~unchanged & ~replaced]))


def _table(lake: Lake, contract: SourceContract) -> BucketTable:
    stored = locations.intervals(lake, contract.dataset)
    properties = {**partition_writer.CHANGE_FEED, **partition_writer.ALL_STATISTICS}
    return BucketTable(lake, stored, tables.interval_columns(contract), _INTERVAL, properties)


def _changed_keys(lake: Lake, silver: DeltaTable, first: int, last: int) -> pa.StringArray | None:
    """The keys of the changes that silver changed in versions ``first`` through ``last``; None if there are many, or the feed is
    gone.
    """
    try:
        feed = change_feed.feed_at_most(silver, first, last, ["record_key"], lake.settings.held_rows)
    except change_feed.ForgottenFeedError:
        return None
    return None if feed is None else tables.dimension_keys(pc.unique(feed["record_key"])).drop_null().unique()


def _differing(contract: SourceContract, by_key: DeltaTable, table: DeltaTable, changed: pa.StringArray) -> pa.Table:
    """The :func:`differences` of the keys ``changed``."""
    buckets = pc.unique(tables.key_buckets(changed, contract.dimension.buckets)).to_pylist()
    wanted = intervals(contract, dimension_buckets.read(contract, by_key, buckets, changed))
    return differences(read(contract, table, buckets, changed), wanted)


def _all_differing(lake: Lake, contract: SourceContract, by_key: DeltaTable, table: DeltaTable) -> pa.Table | None:
    """The :func:`differences` of all keys, bucket by bucket; None if they exceed the limit, or the table is empty."""
    if not table_parts.rows(table):
        return None
    parts: list[pa.Table] = []
    for bucket in sorted({*_buckets(by_key), *_buckets(table)}):
        wanted = intervals(contract, dimension_buckets.read(contract, by_key, [bucket]))
        parts.append(differences(read(contract, table, [bucket]), wanted))
        if sum(map(len, parts)) > lake.settings.held_rows:
            return None
    return pa.concat_tables(parts)


def _buckets(table: DeltaTable) -> Iterator[int]:
    return iter(sorted(table_parts.rows(table)))


#: A key has one change per event time. While silver holds a change on two event days, the one that arrived later counts.
_IN_ORDER = ("dimension_key", "event_ts", "arrival_ts", "ingestion_id", "line_number")


def intervals(contract: SourceContract, changes: pa.Table) -> pa.Table:
    """The intervals of the keys in ``changes``, by key and time.

    A change with content is valid from its event time until the next change of its key, or until its own end (``ends_at``).
    Consecutive changes without a gap and with equal tracked attributes are one interval. An untracked attribute has the value of
    the key's newest change with content. A change that ends its key ends the open interval, if there is one.

    :param changes: all changes of the keys, ``tables.change_columns``.
    :returns: ``tables.interval_columns``.
    """
    ordered = _one_per_time(changes.take(pc.sort_indices(changes, [(name, "ascending") for name in _IN_ORDER])))
    ends = pc.min_element_wise(_next_times(ordered), ordered["ends_at"].cast(pa.int64()).combine_chunks())
    has_content = pc.invert(pc.fill_null(ordered["key_ends"], False))
    content, ends = ordered.filter(has_content).combine_chunks(), ends.filter(has_content.combine_chunks())
    key = groups(content["dimension_key"])
    opens = _differs_from_previous(key) | _begins_after_gap(content, ends)
    tracked = [name for name, _ in tables.attributes(contract) if name not in contract.dimension.untracked]
    if tracked:
        opens |= _differs_from_previous(groups(*(content[name] for name in tracked)))
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(content))[: len(first)] - 1
    newest_of_key = np.append(np.flatnonzero(_differs_from_previous(key))[1:], len(content)) - 1
    opened, newest = content.take(pa.array(first)), newest_of_key[key[first]] if len(first) else first
    columns: dict[str, Any] = {name: opened[name] for name in opened.column_names}
    for name in contract.dimension.untracked:
        columns[name] = content[name].take(pa.array(newest))
    columns["valid_from"], columns["valid_to"] = opened["event_ts"], ends.take(pa.array(last)).cast(opened["event_ts"].type)
    columns["is_current"] = pc.is_null(columns["valid_to"])
    return tables.as_intervals(contract, pa.table(columns))


def _one_per_time(ordered: pa.Table) -> pa.Table:
    """The last change of each key and event time."""
    key, time = groups(ordered["dimension_key"]), groups(ordered["event_ts"])
    is_next_another = np.append((_differs_from_previous(key) | _differs_from_previous(time))[1:], True)
    return ordered if is_next_another.all() else ordered.filter(pa.array(is_next_another[: len(ordered)]))


def _next_times(ordered: pa.Table) -> pa.Int64Array:
    """The event time of the next change of the same key, in microseconds; NULL for the last one."""
    starts = np.append(_differs_from_previous(groups(ordered["dimension_key"]))[1:], True)[: len(ordered)]
    following = np.append(numpy_of(ordered["event_ts"])[1:], 0)[: len(ordered)]
    return pa.array(following, pa.int64(), mask=starts)


def _begins_after_gap(content: pa.Table, ends: pa.Int64Array) -> NDArray[np.bool_]:
    """Whether each change begins at another time than the end of the previous row; True for the first."""
    open_ended = np.iinfo(np.int64).max
    until = pc.fill_null(ends, open_ended).to_numpy(zero_copy_only=False)
    begins = numpy_of(content["event_ts"])
    gap = np.ones(len(content), np.bool_)
    gap[1:] = until[:-1] != begins[1:]
    return gap


def _differs_from_previous(numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    differs = np.ones(len(numbers), np.bool_)
    differs[1:] = numbers[1:] != numbers[:-1]
    return differs
