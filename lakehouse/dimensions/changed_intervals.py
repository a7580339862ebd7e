"""The ranges of time, per key, in which an attribute differs from before, computed from the changes of a dimension's intervals.

Arrow in, Arrow out. Intervals and ranges are half open, and disjoint per key. Reading the feed belongs to ``changed_facts``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.delta import change_feed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


TIME = pa.timestamp("us", "UTC")
#: The place of an interval: its key, and when it begins and ends; the end is NULL if it is open.
PLACE = ("dimension_key", "valid_from", "valid_to")
_OPEN = np.iinfo(np.int64).max


def changed_ranges(feed: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The ranges in which an attribute differs, by key and time: :data:`PLACE`, ``was`` and ``is``.

    ``was`` and ``is`` hold the attributes before and after as structs; NULL where the key had no interval. Neighbouring ranges
    with equal changes are merged. Intervals that differ only in other columns do not count.

    :param feed: the change feed of a table of intervals, complete for its keys: :data:`PLACE`, the columns and ``_change_type``.
    :param columns: the attributes.
    """
    before, after = _net(feed, columns)
    segments = _segments(before, after)
    was, now = (_attributes(segments, side, columns) for side in (before, after))
    differs = _differs(was, now, columns)
    ranges = pa.table([*segments.columns, _struct(was, columns), _struct(now, columns)], names=[*PLACE, "was", "is"])
    return _together(ranges.filter(differs), was.filter(differs), now.filter(differs))


def covering(keys: pa.ChunkedArray, times: pa.ChunkedArray, ranges: pa.Table) -> pa.Array:
    """For each key and time the position of the range that covers it; NULL without one.

    :param ranges: columns :data:`PLACE`, disjoint per key, in any order.
    """
    position = _last_begun(keys, _micros(times), ranges)
    ends = _ends(ranges["valid_to"])
    found = (position >= 0) & (_micros(times) < ends[position] if len(ends) else False)
    return pa.array(position, pa.int64(), mask=~found)


def overlapping(keys: pa.ChunkedArray, least: pa.ChunkedArray, greatest: pa.ChunkedArray, ranges: pa.Table) -> pa.BooleanArray:
    """Whether one of each key's ranges contains a time from ``least`` through ``greatest``."""
    position = _last_begun(keys, _micros(greatest), ranges)  # of disjoint ranges it ends last
    ends = _ends(ranges["valid_to"])
    return pa.array((position >= 0) & (_micros(least) < ends[position] if len(ends) else False))


def within(intervals: pa.Table, ranges: pa.Table) -> pa.Table:
    """The parts of ``intervals`` within the ranges of their other key: columns :data:`PLACE` of the intervals, and ``range``.

    :param intervals: columns :data:`PLACE` and ``other_key``, the key by which ``ranges`` are looked up.
    :param ranges: columns :data:`PLACE`; ``range`` is the position in them.
    """
    numbered = ranges.select(PLACE).rename_columns(["other_key", "begins", "ends"])
    numbered = numbered.append_column("range", pa.array(np.arange(len(ranges))))
    pairs = intervals.select([*PLACE, "other_key"]).join(numbered, "other_key", join_type="inner").combine_chunks()
    begins = np.maximum(_micros(pairs["valid_from"]), _micros(pairs["begins"]))
    ends = np.minimum(_ends(pairs["valid_to"]), _ends(pairs["ends"]))
    cut = pa.table([pairs["dimension_key"], _times(begins), _times(ends), pairs["range"]], names=[*PLACE, "range"])
    return cut.filter(pa.array(begins < ends))


def _net(feed: pa.Table, columns: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """The intervals that are gone and those that are new, compared by ``columns`` alone."""
    names = [*PLACE, *(name for name in columns if name not in PLACE)]
    sign = pc.if_else(pc.is_in(feed["_change_type"], pa.array(change_feed.AFTER)), 1, -1)
    summed = feed.select(names).append_column("_sign", sign).group_by(names).aggregate([("_sign", "sum")])
    net = summed["_sign_sum"]
    return summed.filter(pc.less(net, 0)).select(names), summed.filter(pc.greater(net, 0)).select(names)


def _segments(before: pa.Table, after: pa.Table) -> pa.Table:
    """The spans between neighbouring bounds of intervals, per key: :data:`PLACE`, by key and time."""
    sides = [
        pa.table([side["dimension_key"].cast(pa.string()), _times(moments)], names=["dimension_key", "valid_from"])
        for side in (before, after)
        for moments in (_micros(side["valid_from"]), _ends(side["valid_to"]))
    ]
    cuts = pa.concat_tables(sides).group_by(["dimension_key", "valid_from"]).aggregate([]).combine_chunks()
    cuts = cuts.sort_by([("dimension_key", "ascending"), ("valid_from", "ascending")])  # NULL, for an open end, comes last
    if not len(cuts):
        return pa.table({"dimension_key": pa.array([], pa.string()), "valid_from": _times(_none()), "valid_to": _times(_none())})
    key, begins = cuts["dimension_key"], cuts["valid_from"]
    follows = pc.equal(key[:-1].combine_chunks(), key[1:].combine_chunks())
    rows = pa.table([key[:-1], begins[:-1], begins[1:]], names=list(PLACE))
    return rows.filter(follows)


def _attributes(segments: pa.Table, side: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The attributes of one side in each segment, and whether the key has an interval there (``_present``)."""
    place = covering(segments["dimension_key"], segments["valid_from"], side)
    taken = [side[name].combine_chunks().take(place) for name in columns]
    return pa.table([*taken, pc.is_valid(place)], names=[*columns, "_present"])


def _differs(one: pa.Table, other: pa.Table, columns: Sequence[str]) -> pa.Array:
    """Whether the rows at the same position differ; NULL equals NULL."""
    differs = np.zeros(len(one), bool)
    for name in (*columns, "_present"):
        differs |= ~_equal(one[name], other[name])
    return pa.array(differs)


def _equal(one: pa.ChunkedArray, other: pa.ChunkedArray) -> NDArray[np.bool_]:
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    return np.asarray(pc.or_(both_null, pc.fill_null(pc.equal(one, other), False)))


def _struct(attributes: pa.Table, columns: Sequence[str]) -> pa.Array:
    values = [attributes[name].combine_chunks() for name in columns]
    return pa.StructArray.from_arrays(values, list(columns), mask=pc.invert(attributes["_present"]).combine_chunks())


def _together(ranges: pa.Table, was: pa.Table, now: pa.Table) -> pa.Table:
    """Merge neighbouring ranges with equal values before and after."""
    if len(ranges) < 2:  # noqa: PLR2004 (one has no neighbour)
        return ranges
    columns = was.column_names
    starts_anew = ~_equal(ranges["dimension_key"][1:], ranges["dimension_key"][:-1])
    starts_anew |= ~_equal(ranges["valid_from"][1:], ranges["valid_to"][:-1])
    for side in (was, now):
        for name in columns:
            starts_anew |= ~_equal(side[name][1:], side[name][:-1])
    first = np.flatnonzero(np.concatenate([[True], starts_anew]))
    last = np.concatenate([first[1:] - 1, [len(ranges) - 1]])
    joined = ranges.take(pa.array(first))
    return joined.set_column(2, "valid_to", ranges["valid_to"].take(pa.array(last)))


def _last_begun(keys: pa.ChunkedArray, moments: NDArray[np.int64], ranges: pa.Table) -> NDArray[np.int64]:
    """For each key and time, the position of the key's range that began last; -1 without one."""
    texts = pa.chunked_array([*ranges["dimension_key"].cast(pa.string()).chunks, *keys.cast(pa.string()).chunks], pa.string())
    codes = texts.combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    count = len(ranges)
    times = np.concatenate([_micros(ranges["valid_from"]), moments])
    is_question = np.concatenate([np.zeros(count, bool), np.ones(len(moments), bool)])
    order = np.lexsort((is_question, times, codes))  # a range that begins at the time comes before it
    begun = np.maximum.accumulate(np.where(is_question[order], -1, np.arange(len(order)))) if len(order) else _none()
    position = np.where(begun >= 0, order[begun], -1) if count else np.full(len(order), -1)
    position = np.where((position >= 0) & (codes[position] == codes[order]) & (codes[order] >= 0), position, -1)
    answer = np.empty(len(order), np.int64)
    answer[order] = position
    return answer[count:]


def _micros(times: pa.ChunkedArray) -> NDArray[np.int64]:
    return np.asarray(times.cast(TIME).cast(pa.int64()).combine_chunks().to_numpy(zero_copy_only=False), np.int64)


def _ends(times: pa.ChunkedArray) -> NDArray[np.int64]:
    """``times`` in microseconds; an open end is later than any time."""
    return np.asarray(pc.fill_null(times.cast(TIME).cast(pa.int64()), _OPEN).combine_chunks().to_numpy(), np.int64)


def _times(moments: NDArray[np.int64]) -> pa.Array:
    return pa.array(moments, pa.int64(), mask=moments == _OPEN).cast(TIME)


def _none() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)
