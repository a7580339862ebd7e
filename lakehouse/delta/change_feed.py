"""What commits to silver or gold changed, from the table's change data feed.

The feed of a replaced day contains unchanged rows too: a row that was deleted and inserted with equal content is no change (R6).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import date  # noqa: TC003 (a NamedTuple's annotation)
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.delta import commit_log
from lakehouse.delta.columns import PROVENANCE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from deltalake import DeltaTable

#: The message of delta-rs for a missing file; it has no exception class for that.
_GONE = re.compile("not found|no such file", re.IGNORECASE)
#: The change types for a row after the commit; the others are for the row before.
AFTER = ("insert", "update_postimage")
_FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
_PLACE = ["record_key", "event_date"]
#: Columns of the feed that do not belong to the content of a row.
NO_CONTENT = {*_FEED_COLUMNS, *(name for name, _ in PROVENANCE)}


def net_changes(table: DeltaTable, first: int, last: int) -> pa.Table:
    """The rows by which versions ``first`` through ``last`` changed the content, each with its ``_net`` count.

    ``_net`` is below zero for rows that are gone and above for rows that are new; provenance columns are left out.
    """
    return _content(feed_of(table, first, last))


class ForgottenFeedError(Exception):
    """The log, or the files that it lists, do not reach back to the requested versions."""


def feed_of(
    table: DeltaTable, first: int, last: int, predicate: str | None = None, columns: Sequence[str] | None = None
) -> pa.Table:
    """The change feed of some versions; it is empty if they lie ahead of the table.

    :param predicate: which rows, in SQL; default: all.
    :param columns: which columns; default: all.
    :raises ForgottenFeedError: where the table's log was cleaned, or files of the feed were removed by VACUUM.
    """
    if 0 <= first <= min(last, table.version()) and len(commit_log.history(table, first - 1)) <= table.version() - first:
        msg = f"the log of {table.table_uri} no longer contains version {first}"  # delta-rs would return an empty feed
        raise ForgottenFeedError(msg)
    return _feed(table, first, last, predicate, columns)


def rest_of_feed(table: DeltaTable, first: int, predicate: str) -> tuple[pa.Table, int]:
    """The change feed from a version on, as far as it still exists, and the version with which it begins.

    :param predicate: which rows, in SQL.
    """
    oldest = table.version() + 1
    feed = _feed(table, oldest, oldest, predicate)
    low, middle = first, first
    while low < oldest:  # a binary search: a feed that is incomplete from one version on is so from every earlier one
        try:
            feed, oldest = _feed(table, middle, table.version(), predicate), middle
        except ForgottenFeedError:
            low = middle + 1
        middle = (low + oldest) // 2
    return feed, oldest


def _feed(
    table: DeltaTable, first: int, last: int, predicate: str | None = None, columns: Sequence[str] | None = None
) -> pa.Table:
    options: dict[str, Any] = {"starting_version": first, "ending_version": last, "predicate": predicate, "columns": columns}
    try:
        feed = pa.table(table.load_cdf(**options, allow_out_of_range=True).read_all())
    except Exception as error:
        if _GONE.search(f"{error}") is None:
            raise
        msg = f"files of the change feed of {table.table_uri} are gone: {error}"
        raise ForgottenFeedError(msg) from None
    return _plain(feed)


class KeyChange(NamedTuple):
    """What happened to a key on one event day: inserted, corrected, moved_in, moved_out, deleted."""

    day: date
    what: str
    key: str


def describe(table: DeltaTable, first: int, last: int) -> dict[date, Counter[str]]:
    """What versions ``first`` through ``last`` of a silver table did to each event day whose content they changed, in keys."""
    days: dict[date, Counter[str]] = defaultdict(Counter)
    for change in key_changes(table, first, last):
        days[change.day][change.what] += 1
    return dict(days)


def key_changes(table: DeltaTable, first: int, last: int) -> list[KeyChange]:
    """What versions ``first`` through ``last`` of a silver table did to each key.

    The values before ``first`` and after ``last`` are compared, so that what was undone in between does not count.
    """
    return [] if first > last else _key_changes(net_changes(table, first, last))


def key_changes_on(table: DeltaTable, days: Collection[date], first: int, last: int) -> tuple[list[KeyChange], pa.Table]:
    """The same as :func:`key_changes` for some event days, and the rows of the feed for these days.

    Of other days only the keys are read, and only if a key was added or removed: it may have moved.

    :raises ForgottenFeedError: see :func:`feed_of`.
    """
    listed = ", ".join(f"DATE '{day}'" for day in sorted(days))
    these = f"event_date IN ({listed})"
    feed = feed_of(table, first, last, these)
    net, strays = _content(feed).select([*_PLACE, "_net"]), _presence(feed)["record_key"].unique()
    if len(strays):
        elsewhere = _presence(_feed(table, first, last, f"NOT ({these})", [*_PLACE, "_change_type"]))
        net = pa.concat_tables([net, elsewhere.filter(pc.is_in(elsewhere["record_key"], strays))])
    return [change for change in _key_changes(net) if change.day in days], feed


def _key_changes(net: pa.Table) -> list[KeyChange]:
    net = net.select([*_PLACE, "_net"])
    before: dict[str, set[date]] = defaultdict(set)  # a key is on two days where only one day of a move was updated
    after: dict[str, set[date]] = defaultdict(set)
    for key, day, count in zip(*(net[name].to_pylist() for name in net.column_names)):
        (after if count > 0 else before)[key].add(day)
    changes = []
    for key in before.keys() | after.keys():
        gone, new = before[key] - after[key], after[key] - before[key]
        changes += [KeyChange(day, "corrected", key) for day in before[key] & after[key]]
        changes += [KeyChange(day, "moved_out" if new else "deleted", key) for day in gone]
        changes += [KeyChange(day, "moved_in" if gone else "inserted", key) for day in new]
    return sorted(changes)


def _content(feed: pa.Table) -> pa.Table:
    """The rows whose content changed, see :func:`net_changes`."""
    return _net(feed, [name for name in feed.column_names if name not in NO_CONTENT])


def _presence(feed: pa.Table) -> pa.Table:
    """The keys that were added to a day or removed from it, whatever their content."""
    return _net(feed, _PLACE)


def _net(feed: pa.Table, names: Sequence[str]) -> pa.Table:
    sign = pc.if_else(pc.is_in(feed["_change_type"], pa.array(AFTER)), 1, -1)
    signed = feed.select(names).append_column("_sign", sign)
    net = signed.group_by(names).aggregate([("_sign", "sum")]).rename_columns([*names, "_net"])
    return net.filter(pc.not_equal(net["_net"], 0))


def _plain(feed: pa.Table) -> pa.Table:
    """delta-rs returns string views, for which Arrow has no kernels to group or filter by."""
    types = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return feed.cast(pa.schema([(field.name, types.get(field.type, field.type)) for field in feed.schema]))
