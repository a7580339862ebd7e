"""The rule of intervals: from the changes of keys to the intervals in which their attributes are valid. Arrow in, Arrow out.

The rule is correct for any set of changes that is complete for its keys, so that a large set may be divided by key. Belongs here:
when a change begins and ends, which changes make one interval, and which value an attribute has in it. Reading changes and
writing intervals belongs elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.dimensions import tables
from lakehouse.dispositions.winners import groups, numpy_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lakehouse.contracts.source import SourceContract

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
