"""Point-in-time rule: derives, from a key's records, the values known at a given time.

Arrow in, Arrow out.

A record is valid from its event time, and known from a later time. At a given moment, among the records known and valid by then,
the record with the latest event time counts; among several with the same event time, the greatest in the source's order. A delete
withdraws the record at its event time. The result is correct for any set of records that is complete for its keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.delta.columns import ORDER
from lakehouse.dispositions.row_groups import first_rows, groups, numpy_of, sortable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Positions = NDArray[np.int64]

#: The columns that the rule reads; other columns of the records are carried along.
READ = ("dimension_key", "kind", "event_ts", "known_from", *ORDER)
#: The position that means that no record counts.
_NOTHING = -1


def known_values(records: pa.Table) -> pa.Table:
    """The moments from which each record of a key counts.

    :param records: all records of the keys, with :data:`READ`.
    :returns: the columns of the records, and ``from_ts``; rows by key and time. From a row with ``kind`` NULL on, nothing is
        known of the key; the row's other columns are from a record of the key.
    """
    key = groups(records["dimension_key"])
    rank = np.empty(len(records), np.int64)
    rank[np.lexsort([sortable(records[name]) for name in reversed(ORDER)])] = np.arange(len(records))
    event, known = numpy_of(records["event_ts"]), numpy_of(records["known_from"])
    usable = np.maximum(event, known)
    is_delete = numpy_of(pc.equal(records["kind"], "delete"))
    with_delete = np.zeros(key.max(initial=-1) + 1, bool)
    with_delete[key[is_delete]] = True
    plain = _greatest_so_far(np.flatnonzero(~with_delete[key]), key, usable, event, rank)
    others = _moment_by_moment(np.flatnonzero(with_delete[key]), key, usable, event, rank, is_delete)
    moments = np.concatenate([plain, others])
    moments = moments[np.lexsort((moments[:, 1], moments[:, 0]))]
    changes = np.ones(len(moments), bool)
    changes[1:] = (moments[1:, 0] != moments[:-1, 0]) | (moments[1:, 2] != moments[:-1, 2])
    return _rows(records, moments[changes], first_rows(key))


def _greatest_so_far(positions: Positions, key: Positions, usable: Positions, event: Positions, rank: Positions) -> Positions:
    """For keys without a delete: key, moment, and the greatest record up to that moment."""
    by_time = positions[np.lexsort((rank[positions], event[positions], usable[positions], key[positions]))]
    by_greatness = np.lexsort((rank[by_time], event[by_time]))
    place = np.empty(len(positions), np.int64)
    place[by_greatness] = np.arange(len(positions))
    # Keys are consecutive; with the key's number as prefix, no record of an earlier key is greater.
    in_front = key[by_time] * len(positions)
    greatest = np.maximum.accumulate(in_front + place) - in_front
    rows = np.stack([key[by_time], usable[by_time], by_time[by_greatness[greatest]]], axis=1)
    return rows[_last_of_moment(rows)]


def _moment_by_moment(
    positions: Positions, key: Positions, usable: Positions, event: Positions, rank: Positions, is_delete: NDArray[np.bool_]
) -> Positions:
    """For keys with a delete, which are few: key, moment, and the record that counts, or none."""
    rows = list[tuple[int, int, int]]()
    newest: dict[int, int] = {}
    of_key = None
    for position in positions[np.lexsort((rank[positions], usable[positions], key[positions]))].tolist():
        if key[position] != of_key:
            newest, of_key = {}, key[position]
        about = int(event[position])
        if about not in newest or rank[newest[about]] < rank[position]:
            newest[about] = position
        held = [time for time, record in newest.items() if not is_delete[record]]
        rows.append((int(key[position]), int(usable[position]), newest[max(held)] if held else _NOTHING))
    moments = np.array(rows, np.int64).reshape(-1, 3)
    return moments[_last_of_moment(moments)]


def _last_of_moment(rows: Positions) -> NDArray[np.bool_]:
    """Whether a row is the last of its key and moment; the rows are sorted by both."""
    is_last = np.ones(len(rows), bool)
    is_last[:-1] = (rows[1:, 1] != rows[:-1, 1]) | (rows[1:, 0] != rows[:-1, 0])
    return is_last


def _rows(records: pa.Table, moments: Positions, first_of_key: Positions) -> pa.Table:
    nothing = moments[:, 2] == _NOTHING
    positions = np.where(nothing, first_of_key[moments[:, 0]], moments[:, 2])
    rows = records.take(pa.array(positions))
    kind = pc.if_else(pa.array(nothing), pa.scalar(None, pa.string()), rows["kind"].combine_chunks())
    rows = rows.set_column(rows.column_names.index("kind"), "kind", kind)
    return rows.append_column("from_ts", pa.array(moments[:, 1], pa.timestamp("us", "UTC")))
