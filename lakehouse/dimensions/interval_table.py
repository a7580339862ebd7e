"""``silver/<dimension>_intervals``: the intervals of every key, kept up to date by the rule in ``intervals``.

The table follows ``buckets``, and through it silver. Only intervals that differ are written, so that its change feed shows
exactly what changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import change_feed, data_files, partition_writer, row_writer
from lakehouse.dimensions import buckets as dimension_buckets
from lakehouse.dimensions import tables
from lakehouse.dimensions.buckets import LIVES, BucketTable
from lakehouse.dimensions.intervals import intervals
from lakehouse.dispositions.winners import groups
from lakehouse.lake import table_io

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from deltalake import DeltaTable

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
    table = locations.intervals(lake, contract.dataset).open()
    return None if silver is None or table is None else table.transaction_version(tables.mark(contract, silver))


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
        feed = change_feed.feed_at_most(silver, first, last, ["record_key"], lake.settings.local_rows)
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
    if not data_files.rows_by_partition(table):
        return None
    parts: list[pa.Table] = []
    for bucket in sorted({*_buckets(by_key), *_buckets(table)}):
        wanted = intervals(contract, dimension_buckets.read(contract, by_key, [bucket]))
        parts.append(differences(read(contract, table, [bucket]), wanted))
        if sum(map(len, parts)) > lake.settings.local_rows:
            return None
    return pa.concat_tables(parts)


def _buckets(table: DeltaTable) -> Iterator[int]:
    return iter(sorted(data_files.rows_by_partition(table)))
