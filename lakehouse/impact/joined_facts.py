"""The event days of the facts affected by dimension changes, whether the changes have been applied or not.

This module only reads. A change concerns the facts between it and the next change of its key; whether a joined attribute differs
there is decided in ``dimensions.joins.changed_facts``, once the change is applied.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.dimensions import interval_reads, keys
from lakehouse.dimensions.joins import changed_facts, interval_changes

if TYPE_CHECKING:
    from datetime import date

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings

_ALWAYS = datetime(1, 1, 1, tzinfo=timezone.utc)
_BEGINS = pa.schema([("dimension_key", pa.string()), ("valid_from", interval_changes.TIME), ("is_change", pa.bool_())])


def days(settings: Settings, metric: MetricContract, contract: SourceContract, changes: pa.Array) -> set[date]:
    """The event days of a metric's facts that ``changes`` of a dimension may affect.

    :param contract: the dimension's contract; the metric joins the dimension.
    :param changes: the record keys of the changes.
    """
    concerned: set[date] = set()
    for join in metric.joins:
        if join.dimension == contract.dataset:
            is_untracked = any(column in contract.dimension.untracked for column, _ in join.attributes)
            ranges = _ranges(settings, contract, changes, is_untracked=is_untracked)
            concerned |= changed_facts.days_within(settings, metric, join, ranges)
    return concerned


def _ranges(settings: Settings, contract: SourceContract, changes: pa.Array, *, is_untracked: bool) -> pa.Table:
    """The ranges from each change to the next change of its key: columns ``interval_changes.PLACE``, disjoint per key.

    :param is_untracked: whether the newest value holds at all times.
    """
    of_key, times = _keys_and_times(changes)
    if is_untracked:
        times = pa.array([_ALWAYS] * len(of_key), interval_changes.TIME)
        parts = [pa.table([of_key, times, pa.repeat(True, len(of_key))], schema=_BEGINS)]
    else:
        changed = pa.table([of_key, times, pa.repeat(True, len(of_key))], schema=_BEGINS)
        parts = [changed, _begins(settings, contract, of_key.unique())]
    cuts = pa.concat_tables(parts).group_by(["dimension_key", "valid_from"]).aggregate([("is_change", "max")])
    cuts = cuts.sort_by([("dimension_key", "ascending"), ("valid_from", "ascending")]).combine_chunks()
    if not len(cuts):
        return pa.table({"dimension_key": of_key, "valid_from": times, "valid_to": times})
    key, begins = cuts["dimension_key"].combine_chunks(), cuts["valid_from"].combine_chunks()
    ends = pc.if_else(pc.equal(key[:-1], key[1:]), begins[1:], pa.scalar(None, interval_changes.TIME))
    open_end = pa.nulls(1, interval_changes.TIME)
    ranges = pa.table([key, begins, pa.concat_arrays([ends, open_end])], names=list(interval_changes.PLACE))
    return ranges.filter(cuts["is_change_max"])


def named_changes(contract: SourceContract, changes: pa.Array) -> set[tuple[str, str, str]]:
    """The changes as publications record them: dimension, key, and start of validity."""
    of_key, times = _keys_and_times(changes)
    since = [moment.isoformat() for moment in times.to_pylist()]
    return {(contract.dataset, key, moment) for key, moment in zip(of_key.to_pylist(), since)}


def _keys_and_times(changes: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The key and the event time of each change whose record key has the form of a dimension change."""
    of_key = keys.dimension_keys(changes)
    return of_key.drop_null(), keys.event_times(changes.filter(of_key.is_valid()))


def _begins(settings: Settings, contract: SourceContract, of_keys: pa.Array) -> pa.Table:
    """The starts of the present intervals of the keys ``of_keys``."""
    held = interval_reads.of_keys(settings, contract, _BEGINS.names[:2], of_keys)
    if held is None:
        return _BEGINS.empty_table()
    return held.append_column("is_change", pa.repeat(False, len(held))).cast(_BEGINS)
