"""What a commit to silver or gold changed, from the table's own change feed; no JVM.

The feed of a replaced day names unchanged rows too: what was taken away and put back the same is no change (rule R6).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import date  # noqa: TC003 (a NamedTuple's annotation)
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.ledger import commits
from lakehouse.tables.schema import PROVENANCE

if TYPE_CHECKING:
    from deltalake import DeltaTable

#: What delta-rs says of a file that is not there; it has no class of its own for it.
_GONE = re.compile("not found|no such file", re.IGNORECASE)
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


class ForgottenFeedError(Exception):
    """The log, or the files that it names, do not reach back to the versions that were asked for."""


def feed_of(table: DeltaTable, first: int, last: int) -> pa.Table:
    """The change feed of some versions; it is empty where they lie ahead of the table.

    :raises ForgottenFeedError: where the table's log was cleaned, or files of the feed were removed by VACUUM.
    """
    if 0 <= first <= min(last, table.version()) and len(commits.history(table, first - 1)) <= table.version() - first:
        msg = f"the log of {table.table_uri} tells of version {first} no more"  # delta-rs would answer that nothing was changed
        raise ForgottenFeedError(msg)
    return _feed(table, first, last)


def rest_of_feed(table: DeltaTable, first: int, predicate: str) -> tuple[pa.Table, int]:
    """As much of the change feed from a version on as is there still, and the version with which that begins.

    :param predicate: which rows, in SQL.
    """
    behind = table.version() + 1
    feed = _feed(table, behind, behind, predicate)
    low, middle = first, first
    while low < behind:  # from a version on all is there, or not: then it is not from an earlier one either
        try:
            feed, behind = _feed(table, middle, table.version(), predicate), middle
        except ForgottenFeedError:
            low = middle + 1
        middle = (low + behind) // 2
    return feed, behind


def _feed(table: DeltaTable, first: int, last: int, predicate: str | None = None) -> pa.Table:
    asked: dict[str, Any] = {"starting_version": first, "ending_version": last, "predicate": predicate}
    try:
        feed = pa.table(table.load_cdf(**asked, allow_out_of_range=True).read_all())
    except Exception as error:
        if _GONE.search(f"{error}") is None:
            raise
        msg = f"files of the change feed of {table.table_uri} are gone: {error}"
        raise ForgottenFeedError(msg) from None
    return _plain(feed)


class Move(NamedTuple):
    """What happened to a key on one event day: inserted, corrected, moved_in, moved_out, deleted."""

    day: date
    what: str
    key: str


def describe(table: DeltaTable, first: int, last: int) -> dict[date, Counter[str]]:
    """What versions ``first`` through ``last`` of a silver table did to each event day whose content they changed, in keys."""
    days: dict[date, Counter[str]] = defaultdict(Counter)
    for move in moves(table, first, last):
        days[move.day][move.what] += 1
    return dict(days)


def moves(table: DeltaTable, first: int, last: int) -> list[Move]:
    """What versions ``first`` through ``last`` of a silver table did to each key.

    The values before ``first`` and after ``last`` are compared, so that what was undone in between does not count.
    """
    if first > last:
        return []
    net = net_changes(table, first, last).select(["record_key", "event_date", "_net"])
    before: dict[str, set[date]] = defaultdict(set)  # a key is on two days where only one day of a move was updated
    after: dict[str, set[date]] = defaultdict(set)
    for key, day, count in zip(*(net[name].to_pylist() for name in net.column_names)):
        (after if count > 0 else before)[key].add(day)
    found = []
    for key in before.keys() | after.keys():
        gone, new = before[key] - after[key], after[key] - before[key]
        found += [Move(day, "corrected", key) for day in before[key] & after[key]]
        found += [Move(day, "moved_out" if new else "deleted", key) for day in gone]
        found += [Move(day, "moved_in" if gone else "inserted", key) for day in new]
    return sorted(found)


def _net(rows: pa.Table, sign: pa.Array) -> pa.Table:
    names = rows.column_names
    signed = rows.append_column("_sign", sign)
    net = signed.group_by(names).aggregate([("_sign", "sum")]).rename_columns([*names, "_net"])
    return net.filter(pc.not_equal(net["_net"], 0))


def _plain(feed: pa.Table) -> pa.Table:
    """delta-rs answers with string views, for which Arrow has no kernels to group or filter by."""
    types = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return feed.cast(pa.schema([(field.name, types.get(field.type, field.type)) for field in feed.schema]))
