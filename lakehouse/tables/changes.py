"""What a commit to silver or gold changed, from the table's own change feed; no JVM.

The feed of a replaced day names unchanged rows too: what was taken away and put back the same is no change (rule R6).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.tables.schema import PROVENANCE

if TYPE_CHECKING:
    from datetime import date

    from deltalake import DeltaTable

#: The feed's words for a row as a commit left it; the others tell of it as it was.
AFTER = ("insert", "update_postimage")
_FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
#: Columns of the feed that are no content of a row.
NO_CONTENT = {*_FEED_COLUMNS, *(name for name, _ in PROVENANCE)}


def net_changes(table: DeltaTable, first: int, last: int) -> pa.Table:
    """The rows by which versions ``first`` through ``last`` changed the content, each with its ``_net`` count.

    ``_net`` is below zero for rows that are gone and above for rows that are new; provenance columns are left out.
    """
    feed = feed_of(table, first, last)
    sign = pc.if_else(pc.is_in(feed["_change_type"], pa.array(AFTER)), 1, -1)
    return _net(feed.select([name for name in feed.column_names if name not in NO_CONTENT]), sign)


def feed_of(table: DeltaTable, first: int, last: int) -> pa.Table:
    """The change feed of some versions; it is empty where they lie ahead of the table."""
    return _plain(pa.table(table.load_cdf(starting_version=first, ending_version=last, allow_out_of_range=True).read_all()))


def differing_days(before: pa.Table, after: pa.Table) -> set[date]:
    """The event days on which two sets of rows differ, as multisets."""
    rows = pa.concat_tables([before.cast(after.schema), after])
    sign = pa.array([-1] * len(before) + [1] * len(after))
    return _days(_net(rows, sign))


def describe(table: DeltaTable, first: int, last: int) -> dict[date, Counter[str]]:
    """What versions ``first`` through ``last`` of a silver table did to each event day whose content they changed.

    The counts are of keys: inserted, corrected, moved_in, moved_out, deleted. The values before ``first`` and after
    ``last`` are compared, so that what was undone in between does not count.
    """
    days: dict[date, Counter[str]] = defaultdict(Counter)
    if first > last:
        return {}
    net = net_changes(table, first, last).select(["record_key", "event_date", "_net"])
    before: dict[str, set[date]] = defaultdict(set)  # a key is on two days where only one day of a move was updated
    after: dict[str, set[date]] = defaultdict(set)
    for key, day, count in zip(*(net[name].to_pylist() for name in net.column_names)):
        (after if count > 0 else before)[key].add(day)
    for key in before.keys() | after.keys():
        gone, new = before[key] - after[key], after[key] - before[key]
        for day in before[key] & after[key]:
            days[day]["corrected"] += 1
        for day in gone:
            days[day]["moved_out" if new else "deleted"] += 1
        for day in new:
            days[day]["moved_in" if gone else "inserted"] += 1
    return dict(days)


def _net(rows: pa.Table, sign: pa.Array) -> pa.Table:
    names = rows.column_names
    signed = rows.append_column("_sign", sign)
    net = signed.group_by(names).aggregate([("_sign", "sum")]).rename_columns([*names, "_net"])
    return net.filter(pc.not_equal(net["_net"], 0))


def _days(net: pa.Table) -> set[date]:
    return set(pc.unique(net["event_date"]).to_pylist())


def _plain(feed: pa.Table) -> pa.Table:
    """delta-rs answers with string views, for which Arrow has no kernels to group or filter by."""
    types = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return feed.cast(pa.schema([(field.name, types.get(field.type, field.type)) for field in feed.schema]))
