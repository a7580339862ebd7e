"""What a commit to silver or gold changed, from the table's own change feed; no JVM.

The feed of a replaced day names unchanged rows too: what was taken away and put back the same is no change (rule R6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.tables.schema import PROVENANCE

if TYPE_CHECKING:
    from datetime import date

    from deltalake import DeltaTable

_FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
_NO_CONTENT = {*_FEED_COLUMNS, *(name for name, _ in PROVENANCE)}


def net_changes(table: DeltaTable, first: int, last: int) -> pa.Table:
    """The rows by which versions ``first`` through ``last`` changed the content, each with its ``_net`` count.

    ``_net`` is below zero for rows that are gone and above for rows that are new; provenance columns are left out.
    """
    feed = _plain(pa.table(table.load_cdf(starting_version=first, ending_version=last, allow_out_of_range=True).read_all()))
    content = [name for name in feed.column_names if name not in _NO_CONTENT]
    sign = pc.if_else(pc.is_in(feed["_change_type"], pa.array(["insert", "update_postimage"])), 1, -1)
    signed = feed.select(content).append_column("_sign", sign)
    net = signed.group_by(content).aggregate([("_sign", "sum")]).rename_columns([*content, "_net"])
    return net.filter(pc.not_equal(net["_net"], 0))


def changed_days(table: DeltaTable, first: int, last: int) -> set[date]:
    """The event days whose content versions ``first`` through ``last`` changed."""
    if first > last:
        return set()
    return set(pc.unique(net_changes(table, first, last)["event_date"]).to_pylist())


def _plain(feed: pa.Table) -> pa.Table:
    """delta-rs answers with string views, for which Arrow has no kernels to group or filter by."""
    types = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return feed.cast(pa.schema([(field.name, types.get(field.type, field.type)) for field in feed.schema]))
