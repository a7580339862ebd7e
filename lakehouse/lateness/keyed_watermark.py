"""The strategy ``per_key`` of the event-time watermark: the least, over the active keys, of each key's newest event.

Belongs here: the rule, on rows that are complete up to an arrival (Arrow in, Arrow out). The stored state belongs to
``keyed_watermark_state``; the other strategies, which need only one time per delivery, to ``event_watermark``.

Rows that arrived at the same moment count together, so that neither their order nor their files make a difference. A key is
active until the idle timeout passes without a row of that key, measured by the arrivals of the other keys: a source that is
silent as a whole does not move the watermark. A key that sends its first row, or sends again after a pause, holds the watermark
and does not move it back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

#: No event; times are microseconds since 1970.
NEVER = -(2**63)
TOUCHES = pa.schema([("key", pa.string()), ("arrived", pa.int64()), ("happened", pa.int64())])


@dataclass(frozen=True)
class KeyedTimes:
    """The state of the keys after all rows up to an arrival.

    :param newest_events: per key, when its newest event happened.
    :param newest_arrivals: per key, when its newest row arrived.
    :param least: the least newest event of the active keys; it never decreases.
    :param least_before: the value of ``least`` before the newest arrival.
    """

    keys: pa.Array
    newest_events: Numbers
    newest_arrivals: Numbers
    least: int = NEVER
    least_before: int = NEVER

    @property
    def through(self) -> int:
        """When the newest row arrived."""
        return int(self.newest_arrivals.max(initial=NEVER))

    def active(self, now: int, idle_timeout: int) -> Numbers:
        """The indices of the keys that are active at ``now``."""
        return np.flatnonzero(self.newest_arrivals >= now - idle_timeout)

    def least_at(self, now: int, idle_timeout: int) -> int:
        """The least newest event of the keys that are active at ``now``."""
        return int(self.newest_events[self.active(now, idle_timeout)].min(initial=2**63 - 1))

    def holding(self, idle_timeout: int, count: int) -> list[str]:
        """The active keys that hold the watermark back: those with the least newest event, up to ``count`` of them."""
        active = self.active(self.through, idle_timeout)
        if not len(active):
            return []
        keys = pa.table({"key": self.keys.take(pa.array(active)), "event": self.newest_events[active]})
        first = pc.select_k_unstable(keys, min(count, len(keys)), [("event", "ascending"), ("key", "ascending")])
        return [str(key) for key in keys["key"].take(first).to_pylist()]


NOTHING = KeyedTimes(pa.array([], pa.string()), np.empty(0, np.int64), np.empty(0, np.int64))


def touches(keys: pa.ChunkedArray, arrived: pa.ChunkedArray, happened: pa.ChunkedArray) -> pa.Table:
    """The newest event of each key at each arrival, as :data:`TOUCHES`; rows without an event time are left out.

    :param arrived: in microseconds, like ``happened``. All rows without a key share one key, the empty text.
    """
    rows = pa.table({"key": pc.fill_null(keys.cast(pa.string()), ""), "arrived": arrived, "happened": happened}, TOUCHES)
    return together([rows.filter(pc.is_valid(rows["happened"]))])


def together(parts: Sequence[pa.Table]) -> pa.Table:
    """Concatenate results of :func:`touches`, in the order of arrival."""
    rows = pa.concat_tables(parts).group_by(["key", "arrived"]).aggregate([("happened", "max")])
    return rows.rename_columns({"happened_max": "happened"}).select(TOUCHES.names).sort_by("arrived")


def followed_by(times: KeyedTimes, rows: pa.Table, idle_timeout: int, ends: Sequence[int]) -> tuple[KeyedTimes, list[int]]:
    """The state after further rows, and the least newest event at each of ``ends``.

    :param rows: all rows of the further deliveries, from :func:`together`; none arrived before ``times.through``.
    :param ends: times of arrival, in order, none before ``times.through``. Between two arrivals at which a key becomes active the
        least can only grow, so it is computed before these arrivals and at the ends, not for each row.
    """
    arrived, happened = rows["arrived"].to_numpy(), rows["happened"].to_numpy()
    known = _with_keys(times, rows["key"])
    places = pc.index_in(rows["key"], known.keys).to_numpy().astype(np.int64)
    waking = _waking(known, arrived, places, idle_timeout)
    newest = int(arrived[-1]) if len(arrived) else known.through
    at_ends = np.searchsorted(arrived, ends, "right")
    cuts = np.concatenate([np.searchsorted(arrived, [*arrived[waking], newest], "left"), at_ends, [len(arrived)]])
    events, arrivals = known.newest_events.copy(), known.newest_arrivals.copy()
    known = replace(known, newest_events=events, newest_arrivals=arrivals)
    least, at_cut, begin = _before(known, arrived), {}, 0
    for cut in np.unique(cuts).tolist():
        if cut > begin:
            np.maximum.at(events, places[begin:cut], happened[begin:cut])
            np.maximum.at(arrivals, places[begin:cut], arrived[begin:cut])
            least, begin = max(least, known.least_at(int(arrived[cut - 1]), idle_timeout)), cut
        at_cut[cut] = least if cut else times.least
    before = at_cut[int(np.searchsorted(arrived, newest, "left"))] if newest > times.through else times.least_before
    after = replace(known, least=at_cut[len(arrived)], least_before=before)
    return after, [at_cut[cut] for cut in at_ends.tolist()]


def _before(times: KeyedTimes, arrived: Numbers) -> int:
    """The least before further rows; if the first of them arrived at ``times.through``, the least before that arrival."""
    return times.least_before if len(arrived) and arrived[0] == times.through else times.least


def _with_keys(times: KeyedTimes, keys: pa.ChunkedArray) -> KeyedTimes:
    """``times`` with further keys, which have no event and no arrival yet."""
    distinct = keys.unique()
    new = distinct.filter(pc.invert(pc.is_in(distinct, times.keys)))
    nothing = np.full(len(new), NEVER, np.int64)
    return replace(
        times,
        keys=pa.concat_arrays([times.keys, new]),
        newest_events=np.concatenate([times.newest_events, nothing]),
        newest_arrivals=np.concatenate([times.newest_arrivals, nothing]),
    )


def _waking(times: KeyedTimes, arrived: Numbers, places: Numbers, idle_timeout: int) -> Numbers:
    """The rows with which a key becomes active."""
    order = np.argsort(places, kind="stable")
    before = times.newest_arrivals[places]
    of_same_key = places[order[1:]] == places[order[:-1]]
    before[order[1:][of_same_key]] = arrived[order[:-1][of_same_key]]
    return np.flatnonzero((before == NEVER) | (before < arrived - idle_timeout))
