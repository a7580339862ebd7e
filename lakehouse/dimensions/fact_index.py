"""``ops/<silver>_by_<columns>``: the event days with facts of each join key, by bucket of the key.

The index follows silver's change feed and is append-only: a fact that is gone stays in it, which costs one unnecessary read of
its day. It is updated after silver and before numbers are computed; facts that it lacks are looked up in silver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import ColumnProperties

from lakehouse import locations
from lakehouse.delta import change_feed, commit_log, data_files, partition_writer, row_writer
from lakehouse.delta import columns as delta_columns
from lakehouse.dimensions import changed_intervals, tables
from lakehouse.lake import table_io

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from datetime import date

    from deltalake import DeltaTable

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.lake import Lake


BUCKETS = 16
_UTC = ZoneInfo("UTC")
SCHEMA = pa.schema(
    [
        ("bucket", pa.int32()),
        ("join_key", pa.string()),
        ("event_date", pa.date32()),
        ("least_event_ts", changed_intervals.TIME),
        ("greatest_event_ts", changed_intervals.TIME),
    ]
)
#: Rows are sorted by key and row groups are small, so that looking up a key reads little of a large file.
_LAYOUT = data_files.compressed(2**14, {"join_key": ColumnProperties(dictionary_enabled=False, encoding="DELTA_BYTE_ARRAY")})
#: With more keys than this, every row group is expected to hold one of them.
_FEW_KEYS = 10_000


def follow(lake: Lake, metrics: Collection[MetricContract]) -> None:
    """Update the indexes that ``metrics`` need from silver."""
    for silver, on in sorted({index for metric in metrics for index in metric.fact_indexes}):
        follow_table(lake, silver, on)


@row_writer.retried_on_conflict
def follow_table(lake: Lake, silver: str, on: Sequence[str]) -> None:
    """Update the index of a silver table by the columns ``on``, in one commit that records the version of silver.

    Where the change feed does not reach back, all present facts are added again.
    """
    facts = locations.silver(lake, silver).open()
    if facts is None:
        return
    stored = locations.fact_index(lake, silver, on)
    table = row_writer.open_or_create(stored, SCHEMA, ["bucket"])
    followed, mark, version = _followed(table, facts), _mark(facts), facts.version()
    if followed >= version:
        return
    rows = (_entries(piece, on) for piece in _new_facts(facts, followed, on))
    if not row_writer.append_new(stored, table, rows, [mark], _LAYOUT, version):
        partition_writer.commit_without_rows(table, why={}, transaction=(mark, version))


def days_of(lake: Lake, silver: str, on: Sequence[str], ranges: pa.Table, zone: ZoneInfo) -> set[date]:
    """The event days that may have facts of the keys of ``ranges`` within these ranges; a few days more where facts are gone.

    Facts that the index does not have yet are looked up in silver; nothing is written.

    :param on: the columns of silver with the key.
    :param ranges: columns ``changed_intervals.PLACE``.
    :param zone: the time zone for facts that have only an event day.
    """
    facts = locations.silver(lake, silver).open()
    if facts is None or not len(ranges):
        return set()
    index = locations.fact_index(lake, silver, on).open()
    followed = -1 if index is None else _followed(index, facts)
    days = set() if index is None else _days_within(_entries_of(index, ranges), ranges, zone)
    if followed < facts.version():
        for piece in _new_facts(facts, followed, on):
            days |= _days_within(_entries(piece, on), ranges, zone)
    return days


def _mark(facts: DeltaTable) -> str:
    """The id of the Delta transaction that records the version of silver; it differs for a table that was created again."""
    return f"facts:{commit_log.identity(facts)}"


def _followed(table: DeltaTable, facts: DeltaTable) -> int:
    version = table.transaction_version(_mark(facts))
    return -1 if version is None else version


def _entries_of(table: DeltaTable, ranges: pa.Table) -> pa.Table:
    """The entries of the index for the keys of ``ranges``."""
    wanted = pc.unique(ranges["dimension_key"]).drop_null()
    where = {"bucket": tables.key_buckets(wanted, BUCKETS).unique()}
    columns = [name for name in SCHEMA.names if name != "bucket"]
    if len(wanted) > _FEW_KEYS:
        return table_io.read_version(table, columns, {**where, "join_key": wanted})
    return data_files.with_texts(table, columns, "join_key", wanted, where)


def _days_within(entries: pa.Table, ranges: pa.Table, zone: ZoneInfo) -> set[date]:
    """The days of the entries whose span of event times overlaps a range of their key.

    The span is extended to the start of the day: the index is independent of zones, and does not record which facts have only a
    day.
    """
    starts = _starts(entries["event_date"], zone)
    first, last = (entries[name].cast(changed_intervals.TIME) for name in ("least_event_ts", "greatest_event_ts"))
    least = pc.if_else(pc.fill_null(pc.less(first, starts), False), first, starts)
    greatest = pc.if_else(pc.fill_null(pc.greater(last, starts), False), last, starts)
    overlaps = changed_intervals.overlapping(entries["join_key"], least, greatest, ranges)
    return set(pc.unique(entries["event_date"].filter(overlaps)).to_pylist())


def event_times(facts: pa.Table, zone: ZoneInfo) -> pa.ChunkedArray:
    """The time at which each fact is joined: its event time, or the first moment of its day in ``zone`` if it has only a day."""
    times = facts["event_ts"].cast(changed_intervals.TIME)
    return pc.coalesce(times, _starts(facts["event_date"], zone)) if times.null_count else times


def _starts(days: pa.ChunkedArray, zone: ZoneInfo) -> pa.ChunkedArray:
    return pa.chunked_array([delta_columns.starts_of_days(chunk, zone) for chunk in days.chunks], changed_intervals.TIME)


def _new_facts(facts: DeltaTable, followed: int, on: Sequence[str]) -> Iterable[pa.Table]:
    """The facts added to silver since version ``followed``; all facts if that is -1, or if the change feed is gone."""
    columns = [*on, "event_date", "event_ts"]
    if followed < 0:
        return table_io.pieces_of_version(facts, columns)
    try:
        return list(_added(facts, followed + 1, columns))
    except change_feed.ForgottenFeedError:
        return table_io.pieces_of_version(facts, columns)


def _added(facts: DeltaTable, first: int, columns: Sequence[str]) -> Iterator[pa.Table]:
    for part in change_feed.parts_of_feed(facts, first, facts.version(), [*columns, "_change_type"]):
        yield part.filter(pc.is_in(part["_change_type"], pa.array(change_feed.AFTER))).select(list(columns))


def _entries(facts: pa.Table, on: Sequence[str]) -> pa.Table:
    """The index entries of ``facts``, by key."""
    at = event_times(facts, _UTC)
    keyed = pa.table(
        [tables.key_texts([facts[name] for name in on]), facts["event_date"], at], names=["join_key", "event_date", "at"]
    )
    keyed = keyed.filter(pc.and_(keyed["join_key"].is_valid(), keyed["event_date"].is_valid()))
    spans = keyed.group_by(["join_key", "event_date"]).aggregate([("at", "min"), ("at", "max")]).combine_chunks()
    columns = [
        tables.key_buckets(spans["join_key"], BUCKETS),
        spans["join_key"],
        spans["event_date"],
        spans["at_min"],
        spans["at_max"],
    ]
    return pa.table(columns, schema=SCHEMA).sort_by("join_key")
