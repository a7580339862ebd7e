"""The changes of rows in a commit to silver: pairs of a removed and an added row of its change feed.

Rows are identified by their positions in the feed (row numbers from 0), so that no wide row is copied. A feed that is complete
for its keys gives the changes of these keys, whatever other keys it lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.delta.change_feed import AFTER, NO_CONTENT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    #: Row numbers, ids of runs, or whether.
    _Numbers = NDArray[Any]

CHANGES = pa.schema([("before", pa.int64()), ("after", pa.int64())])
_PLACE = ("record_key", "event_date")


class _NetRows(NamedTuple):
    """The rows that a commit removed and added, sorted by key and event day.

    ``at`` is the position of a row in the feed, ``came`` whether it was added; ``key`` and ``day`` number its key and its event
    day within that key.
    """

    at: _Numbers
    came: _Numbers
    key: _Numbers
    day: _Numbers

    def where(self, chosen: NDArray[np.bool_]) -> _NetRows:
        """The rows for which ``chosen`` is True."""
        return _NetRows(*(column[chosen] for column in self))


def row_changes(feed: pa.Table) -> pa.Table:
    """The changes of a commit, :data:`CHANGES`: a new row has no ``before``, a removed row no ``after``.

    A row that was removed and added with equal content is no change (R6). The order is that of the keys; within a key, first the
    changes within an event day, then the others, for which the removed and the added rows are paired in the order of their days.

    :param feed: see ``change_feed.feed_of``; with ``record_key`` and ``event_date``, neither of them NULL.
    """
    net = _net_rows(feed)
    old, new = net.where(~net.came), net.where(net.came)
    on_day, of_day = _matched(old.day, new.day)
    corrected, same_day = old.where(on_day >= 0), on_day[on_day >= 0]
    gone, added = old.where(on_day < 0), new.where(of_day < 0)
    to_day, from_day = _matched(gone.key, added.key)
    inserted = added.where(from_day < 0)
    before = np.concatenate([corrected.at, gone.at, np.full(len(inserted.at), -1)])
    after = np.concatenate([new.at[same_day], np.append(added.at, -1)[to_day], inserted.at])
    key = np.concatenate([corrected.key, gone.key, inserted.key])
    order = np.argsort(key, kind="stable")
    return pa.table([_places(before[order]), _places(after[order])], schema=CHANGES)


def differ(before: pa.Array, after: pa.Array) -> pa.Array:
    """Whether values of two columns differ, row by row; never NULL. A NULL equals a NULL, NaN equals NaN, 0.0 is not -0.0."""
    old, new = _comparable(before), _comparable(after)
    return pc.coalesce(pc.not_equal(old, new), pc.xor(pc.is_null(old), pc.is_null(new)))


def _comparable(values: pa.Array) -> pa.Array:
    if not pa.types.is_floating(values.type):
        return values
    one_nan = pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values)
    return one_nan.view(pa.int64() if values.type == pa.float64() else pa.int32())


def _net_rows(feed: pa.Table) -> _NetRows:
    """The rows that a commit removed and added, without those that it removed and added with equal content."""
    order = pc.sort_indices(feed.select(_PLACE), [(name, "ascending") for name in _PLACE])
    places = order.to_numpy().astype(np.int64)
    keys, days = (feed[name].take(order).combine_chunks() for name in _PLACE)
    new_key = starts(keys)
    new_day = new_key | starts(days)
    key, day = np.cumsum(new_key) - 1, np.cumsum(new_day) - 1
    came = pc.is_in(feed["_change_type"], pa.array(AFTER)).to_numpy()[places]
    rows = _NetRows(places, came, key, day)
    per_day, added = np.bincount(day), np.bincount(day, weights=came)
    paired = ((per_day == 2) & (added == 1))[day]  # noqa: PLR2004 (a row before, a row after)
    crowded = (per_day > 1)[day] & ~paired
    unchanged = np.zeros(len(places), np.bool_)
    old, new = np.flatnonzero(paired & ~came), np.flatnonzero(paired & came)
    equal = _equal_content(feed, places[old], places[new])
    unchanged[old[equal]] = unchanged[new[equal]] = True
    parts = [rows.where(~crowded & ~unchanged), _crowded_rows(feed, rows.where(crowded))]
    joined = _NetRows(*(np.concatenate(columns) for columns in zip(*parts)))
    by_day = np.argsort(joined.day, kind="stable")
    return _NetRows(*(column[by_day] for column in joined))


def _equal_content(feed: pa.Table, old: _Numbers, new: _Numbers) -> NDArray[np.bool_]:
    """Whether the rows at the positions ``old`` have the same content as those at ``new``, pair by pair."""
    equal = np.ones(len(old), np.bool_)
    for name in _content(feed) if len(old) else ():
        if name not in _PLACE:
            column = feed[name]
            equal &= ~differ(_take(column, old), _take(column, new)).to_numpy(zero_copy_only=False)
    return equal


def _crowded_rows(feed: pa.Table, rows: _NetRows) -> _NetRows:
    """The result of :func:`_net_rows` for keys with several rows on an event day (under ``append``): equal rows cancel out.

    Rows with equal content come together, in the order in which their content first occurs in the feed.
    """
    if not len(rows.at):
        return rows
    rows = _NetRows(*(column[np.argsort(rows.at)] for column in rows))
    position, none = pa.array(np.arange(len(rows.at))), pa.scalar(None, pa.int64())
    came, content = pa.array(rows.came), _content(feed)
    signed = feed.select(content).take(pa.array(rows.at))
    signed = signed.append_column("_net", pc.if_else(came, 1, -1)).append_column("_came", pc.if_else(came, position, none))
    signed = signed.append_column("_gone", pc.if_else(came, none, position)).append_column("_first", position)
    sums = [("_net", "sum"), ("_came", "max"), ("_gone", "max"), ("_first", "min")]
    net = signed.group_by(content).aggregate(sums)
    kept = net.filter(pc.not_equal(net["_net_sum"], 0)).sort_by("_first_min")  # Arrow gives groups in no order
    count = kept["_net_sum"].to_numpy()
    position_of_each = pc.if_else(pc.greater(kept["_net_sum"], 0), kept["_came_max"], kept["_gone_max"]).to_numpy()
    chosen = np.repeat(position_of_each, np.abs(count))
    return _NetRows(rows.at[chosen], np.repeat(count > 0, np.abs(count)), rows.key[chosen], rows.day[chosen])


def _matched(old: _Numbers, new: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Pairs of equal numbers in two sorted columns: the first with the first, the second with the second, and so on.

    :returns: for each old row the position of its new row, and for each new row that of its old row; -1 for none.
    """
    size = max(len(old), len(new), 1)
    old_code, new_code = (column * size + np.arange(len(column)) - np.searchsorted(column, column) for column in (old, new))
    return _found(old_code, new_code), _found(new_code, old_code)


def _found(codes: _Numbers, among: _Numbers) -> _Numbers:
    """The position of each code in a sorted column; -1 where it is missing."""
    if not len(among):
        return np.full(len(codes), -1)
    position = np.minimum(np.searchsorted(among, codes), len(among) - 1)
    return np.where(among[position] == codes, position, -1)


def starts(values: pa.Array) -> NDArray[np.bool_]:
    """Whether each value of a sorted column differs from the one before it."""
    differing = np.ones(len(values), np.bool_)
    if len(values) > 1:
        differing[1:] = pc.not_equal(values.slice(1), values.slice(0, len(values) - 1)).to_numpy(zero_copy_only=False)
    return differing


def _content(feed: pa.Table) -> list[str]:
    return [name for name in feed.column_names if name not in NO_CONTENT]


def _take(column: pa.ChunkedArray, places: _Numbers) -> pa.Array:
    values: Any = column.take(pa.array(places))
    return values.combine_chunks()


def _places(numbers: _Numbers) -> pa.Array:
    """Places as Arrow numbers: NULL for -1."""
    return pa.array(numbers, pa.int64(), mask=numbers < 0)
