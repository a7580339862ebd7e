"""The changes that commits made to silver or gold, from the table's change data feed.

The feed of a replaced day contains unchanged rows too: a row that was deleted and inserted with equal content is no change (R6).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import date  # noqa: TC003 (a NamedTuple's annotation)
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from lakehouse import pieces
from lakehouse.calendar import days as day_conditions
from lakehouse.delta import commit_log
from lakehouse.delta.columns import PROVENANCE, WIDENED
from lakehouse.lake import table_io, table_parts
from lakehouse.lake.delta_rs_internals import at_version, feeds_read

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from deltalake import DeltaTable

#: The message of delta-rs for a missing file; it has no exception class for that.
_GONE = re.compile("not found|no such file", re.IGNORECASE)
#: The change types for a row after the commit; the others are for the row before.
AFTER = ("insert", "update_postimage")
#: The greatest number of rows of a part of the feed, unless they are of one event day.
_PART_ROWS = 2**18
#: A feed of at most so many rows is kept with its open table.
_FEW_ROWS, _FEEDS_KEPT = 5_000, 4
#: Operations, as Spark and delta-rs name them, that change no row.
_WITHOUT_CHANGES = {"CREATE TABLE", "ADD COLUMNS", "ADD COLUMN", "SET TBLPROPERTIES", "OPTIMIZE"}
_FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
_PLACE = ["record_key", "event_date"]
_SIDES = pa.schema([("record_key", pa.string()), ("event_date", pa.date32()), ("removed", pa.bool_()), ("added", pa.bool_())])
#: The change of a key that was inserted within the lateness that its contract expects.
ON_TIME = "on_time"
#: The changes of keys on event days, see :class:`KeyChange`.
KEY_CHANGES = pa.schema([("event_date", pa.date32()), ("what", pa.string()), ("record_key", pa.string())])
#: Columns of the feed that do not belong to the content of a row.
NO_CONTENT = {*_FEED_COLUMNS, *(name for name, _ in PROVENANCE)}


class ForgottenFeedError(Exception):
    """The log, or the files that it lists, do not reach back to the requested versions."""


def feed_of(
    table: DeltaTable, first: int, last: int, predicate: str | None = None, columns: Sequence[str] | None = None
) -> pa.Table:
    """The change feed of versions ``first`` through ``last``; empty if they lie ahead of the table.

    :param predicate: the rows to read, in SQL; default: all.
    :param columns: the columns to read; default: all.
    :raises ForgottenFeedError: where the table's log was cleaned, or files of the feed were removed by VACUUM.
    """
    _check_log(table, first, last)
    return _feed(table, first, last, predicate, columns)


def feed_at_most(table: DeltaTable, first: int, last: int, columns: Sequence[str], at_most: int) -> pa.Table | None:
    """The feed restricted to ``columns``, or None if it exceeds ``at_most`` rows.

    Reading stops at the limit, so that memory holds no more than one batch beyond it.

    :raises ForgottenFeedError: see :func:`feed_of`.
    """
    _check_log(table, first, last)
    return _feed(table, first, last, None, columns, at_most)


def _check_log(table: DeltaTable, first: int, last: int) -> None:
    if 0 <= first <= min(last, table.version()) and len(commit_log.history(table, first - 1)) <= table.version() - first:
        msg = f"the log of {table.table_uri} no longer contains version {first}"  # delta-rs would return an empty feed
        raise ForgottenFeedError(msg)


def parts_of_feed(table: DeltaTable, first: int, last: int, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The feed of :func:`feed_of` in parts, each with all changes of its keys; one part if there are few rows or any were
    removed.

    Where rows were only appended, no key can have moved: each part has the rows of a number of event days.
    """
    appended = [_appended_rows(commit) for commit in commit_log.history(table, first - 1) if commit["version"] <= last]
    if None in appended or sum(filter(None, appended)) <= _PART_ROWS:
        yield feed_of(table, first, last, columns=columns)
        return
    names = [name for name in columns if name != "_change_type"]
    if not {*names} & {*_FEED_COLUMNS} and (first == 0 or all(appended)) and table.protocol().min_reader_version == 1:
        for rows in _rows_of_appended_files(table, first, last, names):
            yield rows.append_column("_change_type", pa.repeat("insert", len(rows))).select(columns)
        return
    days = feed_of(table, first, last, columns=["event_date"])["event_date"]
    counts = {count["values"].as_py(): count["counts"].as_py() for count in pc.value_counts(days)}
    for some in table_parts.filled(sorted(counts.items()), _PART_ROWS):
        yield _feed(table, first, last, _on(some), columns)


def _rows_of_appended_files(table: DeltaTable, first: int, last: int, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of the files that commits added, by event days; Arrow reads them faster than delta-rs reads their feed."""
    _check_log(table, first, last)
    then = table if last == table.version() else at_version(table, last)
    listed = table_io.files_with(then, {})
    if first:
        added = commit_log.added_files(table, first, last)
        listed = listed.filter(pc.is_in(listed["path"], value_set=pa.array(added, listed["path"].type)))
    groups = table_parts.filled(sorted(table_parts.rows(then, listed).items()), _PART_ROWS)
    wanted = ({"event_date": some} for some in groups)
    try:
        yield from pieces.ahead(pa.concat_tables(table_io.pieces_of_version(then, columns, where, listed)) for where in wanted)
    except FileNotFoundError as error:
        msg = f"files of {table.table_uri} that commits added are gone: {error}"
        raise ForgottenFeedError(msg) from None


def _appended_rows(commit: Mapping[str, Any]) -> int | None:
    """How many rows a commit added that can have removed none, by its operation; None for another commit."""
    if commit.get("operation") in _WITHOUT_CHANGES or WIDENED in commit_log.commit_metadata(commit):
        return 0
    metrics = commit.get("operationMetrics", {})
    own = commit_log.commit_metadata(commit).get(commit_log.APPENDED, 0)  # of files that are committed here, there are no metrics
    rows = metrics.get("numOutputRows", metrics.get("num_added_rows", own))
    mode = commit.get("operationParameters", {}).get("mode")
    is_append = rows is not None and commit.get("operation") == "WRITE" and mode in {"Append", "Ignore", "ErrorIfExists"}
    return int(rows) if is_append else None


def rest_of_feed(table: DeltaTable, first: int, predicate: str, days: Collection[date] | None = None) -> tuple[pa.Table, int]:
    """The change feed from version ``first`` on, as far as it still exists, and the version with which it begins.

    :param predicate: the rows to read, in SQL.
    :param days: the event days of these rows, if they are known: versions that changed no file with one of them are not read.
    """
    by, newest = table_parts.column(table), table.version()
    versions: Iterable[int] = range(first, newest + 1)
    if days is not None and by is not None:
        versions = commit_log.versions_with(table, first, by, table_io.Within(days))
    feeds, oldest = list[pa.Table](), first
    for low, high in reversed([*_ranges(versions)]):
        feed, begins = _rest_of_range(table, low, high, predicate)
        feeds += [] if feed is None else [feed]
        if begins > low:
            oldest = begins
            break
    return pa.concat_tables(feeds or [_feed(table, newest + 1, newest + 1, predicate)], promote_options="permissive"), oldest


def _ranges(versions: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The first and the last one of versions that follow each other."""
    for _, group in groupby(enumerate(versions), lambda item: item[1] - item[0]):
        (_, low), *rest = group
        yield low, rest[-1][1] if rest else low


def _rest_of_range(table: DeltaTable, first: int, last: int, predicate: str) -> tuple[pa.Table | None, int]:
    """The result of :func:`rest_of_feed` for versions that follow each other; no table if nothing of them is left."""
    feed, oldest = None, last + 1
    low, middle = first, first
    while low < oldest:  # a binary search: a feed that is incomplete from one version on is so from every earlier one
        try:
            feed, oldest = _feed(table, middle, last, predicate), middle
        except ForgottenFeedError:
            low = middle + 1
        middle = (low + oldest) // 2
    return feed, oldest


@overload
def _feed(
    table: DeltaTable, first: int, last: int, predicate: str | None = None, columns: Sequence[str] | None = None
) -> pa.Table: ...
@overload
def _feed(
    table: DeltaTable, first: int, last: int, predicate: str | None, columns: Sequence[str] | None, at_most: int
) -> pa.Table | None: ...
def _feed(
    table: DeltaTable,
    first: int,
    last: int,
    predicate: str | None = None,
    columns: Sequence[str] | None = None,
    at_most: int | None = None,
) -> pa.Table | None:
    if predicate is None and first <= last <= table.version():
        few = _few_rows(table, first, last)
        if few is not None and {*(columns or ())} <= {*few.column_names}:  # the table may have got further columns
            return None if at_most is not None and len(few) > at_most else few if columns is None else few.select(list(columns))
    return _loaded(table, first, last, predicate, columns, at_most)


def _few_rows(table: DeltaTable, first: int, last: int) -> pa.Table | None:
    """The whole feed of versions if it has few rows: it is asked for several times, each for other columns."""
    kept = feeds_read(table)
    if (first, last) not in kept:
        while len(kept) >= _FEEDS_KEPT:
            del kept[next(iter(kept))]
        try:
            kept[first, last] = _loaded(table, first, last, None, None, _FEW_ROWS)
        except ForgottenFeedError:
            raise
        except Exception:  # noqa: BLE001 (delta-rs cannot read columns that are newer than a file, see the callers' columns)
            kept[first, last] = None
    return kept[first, last]


def _loaded(
    table: DeltaTable, first: int, last: int, predicate: str | None, columns: Sequence[str] | None, at_most: int | None
) -> pa.Table | None:
    since = table_parts.shared_since(table)
    if not first < since <= table.version():
        return _loaded_of_form(table, first, last, predicate, columns, at_most)
    # delta-rs reads all files with the partition columns of the open version: those of the earlier form would lose their day.
    try:
        before = at_version(table, since - 1)
    except DeltaError as error:
        msg = f"the log of {table.table_uri} no longer contains version {since - 1}: {error}"
        raise ForgottenFeedError(msg) from None
    known = {field.name for field in before.schema().fields} | {*_FEED_COLUMNS}
    of_known = columns if columns is None else [name for name in columns if name in known]
    of_before = _loaded_of_form(before, first, min(last, since - 1), predicate, of_known, at_most)
    if of_before is None or last < since:
        return of_before if of_before is None or columns is None else table_io.with_columns(of_before, columns)
    left = None if at_most is None else at_most - len(of_before)
    of_now = _loaded_of_form(table, since, last, predicate, columns, left)
    if of_now is None:
        return None
    of_before = table_io.with_columns(of_before, of_now.column_names)
    return pa.concat_tables([of_now, of_before], promote_options="permissive")


def _loaded_of_form(
    table: DeltaTable, first: int, last: int, predicate: str | None, columns: Sequence[str] | None, at_most: int | None
) -> pa.Table | None:
    # delta-rs makes SQL of the names: "limit" would be a keyword.
    quoted = None if columns is None else [f'"{name}"' for name in columns]
    options: dict[str, Any] = {"starting_version": first, "ending_version": last, "predicate": predicate, "columns": quoted}
    try:
        reader = table.load_cdf(**options, allow_out_of_range=True)
        feed = pa.table(reader.read_all()) if at_most is None else _rows_at_most(reader, at_most)
    except Exception as error:
        if _GONE.search(f"{error}") is None:
            raise
        msg = f"files of the change feed of {table.table_uri} are gone: {error}"
        raise ForgottenFeedError(msg) from None
    return None if feed is None else _plain(feed)


def _rows_at_most(reader: Any, at_most: int) -> pa.Table | None:
    held: list[pa.RecordBatch] = []
    for batch in reader:
        held.append(pa.record_batch(batch))
        if sum(map(len, held)) > at_most:
            return None
    return pa.Table.from_batches(held, pa.schema(reader.schema))


class LateRows(NamedTuple):
    """The rule that separates late rows from rows on time.

    :param columns: the columns that the rule reads.
    :param are_late: returns whether each row is late.
    :param are_by_hand: returns whether a person entered each row, which is then neither late nor on time.
    """

    columns: Sequence[str]
    are_late: Callable[[pa.Table], pa.ChunkedArray]
    are_by_hand: Callable[[pa.Table], pa.ChunkedArray]


class KeyChange(NamedTuple):
    """A change of a key on one event day: inserted, corrected, moved_in, moved_out, deleted."""

    day: date
    what: str
    key: str


def describe(table: DeltaTable, first: int, last: int) -> dict[date, Counter[str]]:
    """The number of keys by kind of change, for each event day whose content versions ``first`` through ``last`` of silver
    changed.
    """
    described: dict[date, Counter[str]] = {}
    for changes in key_changes(table, first, last):
        described |= counts(changes)
    return dict(sorted(described.items()))


def counts(changes: pa.Table) -> dict[date, Counter[str]]:
    """The number of changed keys by kind of change, per event day.

    :param changes: columns :data:`KEY_CHANGES`.
    """
    days: dict[date, Counter[str]] = defaultdict(Counter)
    for row in changes.group_by(["event_date", "what"]).aggregate([([], "count_all")]).sort_by("what").to_pylist():
        days[row["event_date"]][row["what"]] = row["count_all"]
    return dict(sorted(days.items()))


def key_changes(table: DeltaTable, first: int, last: int, late_rows: LateRows | None = None) -> Iterator[pa.Table]:
    """The changes of keys by versions ``first`` through ``last`` of a silver table: :data:`KEY_CHANGES`, in no order.

    The changes come in pieces; all changes of an event day are in one piece. The states before ``first`` and after ``last`` are
    compared, so that changes undone in between do not count. Only keys and days are read, except for days on which a key was both
    removed and added: there the content is compared.

    :param late_rows: if given, the change of a key that was inserted without a late row is :data:`ON_TIME`.
    """
    yield from (changes for changes, _ in key_changes_with_rows(table, first, last, late_rows))


def key_changes_with_rows(
    table: DeltaTable, first: int, last: int, late_rows: LateRows | None = None, more: Sequence[str] = ()
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """The pieces of :func:`key_changes`, each with the rows of the feed from which it was made.

    :param more: columns of the rows that are read besides those of keys, days and the rule of late rows.
    """
    if first > last:
        return
    columns = list(dict.fromkeys([*_PLACE, "_change_type", *(late_rows.columns if late_rows else ()), *more]))

    def appended(part: pa.Table) -> tuple[pa.Table, pa.Table | None]:
        is_insert = pc.all(pc.equal(part["_change_type"], "insert")).as_py()
        return part, _appended_keys(part, late_rows) if is_insert else None

    for part, inserted in pieces.mapped(appended, parts_of_feed(table, first, last, columns)):
        if inserted is not None:
            yield inserted, part
            continue
        sides = _sides(part)
        replaced = sides.filter(pc.and_(sides["removed"], sides["added"]))["event_date"].unique()
        if len(replaced):
            compared = _sides_of_net(_content(_feed(table, first, last, _on(replaced.to_pylist()))))
            sides = pa.concat_tables([sides.filter(pc.invert(pc.is_in(sides["event_date"], replaced))), compared])
        changes = _key_changes(sides)
        yield (_with_on_time(changes, part, late_rows) if late_rows else changes), part


def key_changes_on(table: DeltaTable, days: Collection[date], first: int, last: int) -> tuple[pa.Table, pa.Table]:
    """The result of :func:`key_changes` for ``days``, by day, kind and key, and the rows of the feed for these days.

    Of other days only the keys are read, and only if a key was added or removed: it may have moved.

    :raises ForgottenFeedError: see :func:`feed_of`.
    """
    these = _on(days)
    feed = feed_of(table, first, last, these)
    sides, strays = _sides_of_net(_content(feed)), _presence(feed)["record_key"].unique()
    if len(strays):
        elsewhere = _presence(_feed(table, first, last, f"NOT ({these})", [*_PLACE, "_change_type"]))
        sides = pa.concat_tables([sides, _sides_of_net(elsewhere.filter(pc.is_in(elsewhere["record_key"], strays)))])
    changes = _key_changes(sides)
    wanted = changes.filter(pc.is_in(changes["event_date"], pa.array(sorted(days), pa.date32())))
    return wanted.sort_by([(name, "ascending") for name in KEY_CHANGES.names]), feed


def _on(days: Collection[date]) -> str:
    return day_conditions.condition_among("event_date", days)


def _sides(feed: pa.Table) -> pa.Table:
    """Whether rows of each key and event day were ``removed`` and ``added``, whatever their content."""
    places = feed.select(_PLACE).append_column("after", pc.is_in(feed["_change_type"], pa.array(AFTER)))
    sides = places.group_by(_PLACE).aggregate([("after", "min"), ("after", "max")])
    return pa.table([*(sides[name] for name in _PLACE), pc.invert(sides["after_min"]), sides["after_max"]], schema=_SIDES)


def _sides_of_net(net: pa.Table) -> pa.Table:
    """The result of :func:`_sides` for rows with their ``_net`` count."""
    sides = net.select([*_PLACE, "_net"]).group_by(_PLACE).aggregate([("_net", "min"), ("_net", "max")])
    removed, added = pc.less(sides["_net_min"], 0), pc.greater(sides["_net_max"], 0)
    return pa.table([*(sides[name] for name in _PLACE), removed, added], schema=_SIDES)


def _key_changes(sides: pa.Table) -> pa.Table:
    """Classify the changes: a key removed from one day and added to another has moved; before both days are updated it is on
    both.
    """
    gone, new = pc.and_not(sides["removed"], sides["added"]), pc.and_not(sides["added"], sides["removed"])
    keys = sides["record_key"]
    is_gone_elsewhere = pc.is_in(keys, keys.filter(gone).unique())
    is_new_elsewhere = pc.is_in(keys, keys.filter(pc.and_(new, is_gone_elsewhere)).unique())
    of_gone = pc.if_else(is_new_elsewhere, "moved_out", "deleted")
    of_new = pc.if_else(is_gone_elsewhere, "moved_in", "inserted")
    what = pc.if_else(gone, of_gone, pc.if_else(new, of_new, "corrected"))
    return pa.table([sides["event_date"], what, keys], schema=KEY_CHANGES)


def _with_on_time(changes: pa.Table, feed: pa.Table, late_rows: LateRows) -> pa.Table:
    """The changes, with :data:`ON_TIME` for inserted keys without a late row; a key that a person entered is corrected."""
    inserted = pc.equal(changes["what"], "inserted")
    if not pc.any(inserted).as_py():
        return changes
    of_keys = _appended_keys(feed.filter(pc.is_in(feed["_change_type"], pa.array(AFTER))), late_rows)
    marked = changes.join(of_keys, _PLACE, right_suffix="_of_key")
    what = pc.if_else(pc.equal(marked["what"], "inserted"), pc.fill_null(marked["what_of_key"], ON_TIME), marked["what"])
    return pa.table([marked["event_date"], what, marked["record_key"]], schema=KEY_CHANGES)


def _appended_keys(rows: pa.Table, late_rows: LateRows | None) -> pa.Table:
    """The keys of rows by event day, as if all of them were inserted."""
    flags = {} if late_rows is None else {"is_late": late_rows.are_late(rows), "is_by_hand": late_rows.are_by_hand(rows)}
    flagged = pa.table({**{name: rows[name] for name in _PLACE}, **flags})
    flagged = flagged.group_by(_PLACE).aggregate([(name, "max") for name in flags]).rename_columns([*_PLACE, *flags])
    what: Any = pa.repeat("inserted", len(flagged))
    if flags:
        what = pc.if_else(pc.fill_null(flagged["is_late"], False), what, ON_TIME)
        what = pc.if_else(pc.fill_null(flagged["is_by_hand"], False), "corrected", what)
    return pa.table([flagged["event_date"], what, flagged["record_key"]], schema=KEY_CHANGES)


def _content(feed: pa.Table) -> pa.Table:
    """The rows by which the content changed, each with its ``_net`` count: below zero for rows that are gone."""
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
    """The feed without string views, which delta-rs returns and for which Arrow has no kernels to group or filter by."""
    types = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return feed.cast(pa.schema([(field.name, types.get(field.type, field.type)) for field in feed.schema]))
