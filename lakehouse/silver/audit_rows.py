"""The rows of the audit: a function from the change feed of a commit to silver to the table that ``audit_log`` stores.

A change of an existing key is always audited, a new key only if it is late. Rows that came as history (``lateness.history``) are
counted instead, in one row for each file and event day: a load corrects nothing. Values are JSON of the changed fields, or of the
whole row if it was inserted or removed. The action type, the actor and the reason of a commit are columns.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.contracts.series import Series, days_reached
from lakehouse.delta.change_feed import NO_CONTENT
from lakehouse.delta.columns import json_text, json_texts
from lakehouse.lateness.historical_rows import are_first_load
from lakehouse.lateness.measurement import judged
from lakehouse.ledger import ingestions
from lakehouse.silver import audit_log
from lakehouse.silver.row_changes import differ, row_changes, starts
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import date, datetime

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.ledger.redactions import Redaction
    from lakehouse.silver.audit_log import Cause, Ruling


RULINGS = pa.schema([("action_type", pa.string()), ("actor", pa.string()), ("reason", pa.string())])
#: The columns of a changed row that its ruling depends on, in addition to that of its event type.
RULED_BY = (
    *("record_key", "event_date", "event_ts", "arrival_ts", "source_system", "corrected_by", "correction_reason"),
    *("ingestion_id", "source_file"),
)
_SECOND = 1_000_000
#: The lengths of days, hours, minutes and seconds, as in ``text.format_duration``.
_UNITS = (86_400, 3_600, 60, 1)


def rulings(rows: pa.Table, days: pa.Table, contract: SourceContract, cause: Cause) -> pa.Table:
    """The ruling on each change, :data:`RULINGS`; NULL for an insert that arrived in time, which is not audited.

    :param rows: the rows after the changes, or before them where a row was removed, with :data:`RULED_BY` and the event type.
    :param days: the event days ``before`` and ``after``, NULL on a side without a row.
    """
    general = cause.of_others
    ruled = _by_row(rows, days, contract, cause) if general is None else _same(general, len(rows))
    special = cause.of_keys
    if not special:
        return ruled
    which = pc.index_in(rows["record_key"].combine_chunks(), pa.array(special, pa.string()))
    by_hand = pa.Table.from_arrays([pa.array(part, pa.string()) for part in zip(*special.values())], schema=RULINGS).take(which)
    columns = [pc.if_else(pc.is_valid(which), by_hand[name], ruled[name]) for name in RULINGS.names]
    return pa.Table.from_arrays(columns, schema=RULINGS)


def _same(ruling: Ruling, count: int) -> pa.Table:
    return pa.Table.from_arrays([pa.repeat(pa.scalar(part, pa.string()), count) for part in ruling], schema=RULINGS)


def _by_row(rows: pa.Table, days: pa.Table, contract: SourceContract, cause: Cause) -> pa.Table:
    """The rulings on changes caused by arrivals; with a backfill, its plan is part of each reason, and its runner the actor."""
    backfill = cause.backfill
    lag, late = judged(rows, contract)
    before, after = days["before"], days["after"]
    is_withdrawn, is_inserted = pc.is_null(after), pc.is_null(before)
    is_entered = pc.and_(is_inserted, ingestions.are_by_hand(rows["source_file"]))
    is_inserted = pc.and_not(is_inserted, is_entered)
    is_corrected = pc.or_(pc.and_(pc.is_valid(before), pc.is_valid(after)), is_entered)
    corrected, arrived = _sentences(lag, ("corrected {} after the event", "arrived {} after the event"))
    moved = pc.binary_join_element_wise("moved from ", before.cast(pa.string()), " to ", after.cast(pa.string()), "")
    told = pc.if_else(pc.equal(before, after), corrected, moved)
    reason = pc.coalesce(_filled(rows["correction_reason"]), told)
    reason = pc.if_else(is_inserted, arrived, reason)
    reason = pc.if_else(is_entered, pc.coalesce(_filled(rows["correction_reason"]), "entered by hand"), reason)
    if cause.redelivered:
        again = pa.array([f"delivered again on {day}, and counts again" for day in cause.redelivered.values()], pa.string())
        which = pc.index_in(rows["ingestion_id"].combine_chunks(), value_set=pa.array(list(cause.redelivered), pa.string()))
        reason = pc.coalesce(again.take(which), reason)
    sent_by = rows["source_system"] if cause.runner is None else pa.repeat(pa.scalar(cause.runner), len(rows))
    by = pc.if_else(is_corrected, pc.coalesce(_filled(rows["corrected_by"]), sent_by), sent_by)
    action = pc.if_else(is_inserted, "late_merge", "correction")
    audited = pc.or_(pc.invert(is_inserted), late)
    reason = pc.if_else(is_withdrawn, "withdrawn", reason)
    if backfill is not None:
        action = pa.repeat(pa.scalar("backfill"), len(rows))
        reason = pc.binary_join_element_wise(reason, f" ({backfill})", "")
    columns = [action, by, reason]
    none = pa.scalar(None, pa.string())
    return pa.Table.from_arrays([pc.if_else(audited, column, none) for column in columns], schema=RULINGS)


def _sentences(lag: pa.Array, forms: Collection[str]) -> list[pa.Array]:
    """Sentences that contain each duration, formatted as by ``text.format_duration``.

    :param lag: microseconds, not below 0.
    """
    rest = lag.to_numpy() // _SECOND
    shown, units = np.zeros_like(rest), np.zeros_like(rest)
    for length in _UNITS:  # only the two largest units are written: few durations have a text of their own
        part = rest - rest % length
        shown += np.where(units < 2, part, 0)  # noqa: PLR2004
        units += part > 0
        rest = rest % length
    distinct, which = np.unique(shown, return_inverse=True)
    spans = [format_duration(timedelta(seconds=seconds)) for seconds in distinct.tolist()]
    return [pa.array([form.format(span) for span in spans], pa.string()).take(pa.array(which)) for form in forms]


def _filled(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts, with NULL for empty ones."""
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


#: The rows that a file brought to an event day as history; ``late`` of them came later than the contract expects.
LOADED = pa.schema(
    [
        ("event_date", pa.date32()),
        ("ingestion_id", pa.string()),
        ("source_file", pa.string()),
        ("rows", pa.int64()),
        ("late", pa.int64()),
        ("arrival_ts", pa.timestamp("us", "UTC")),
    ]
)
_FILE_AND_DAY = ("event_date", "ingestion_id", "source_file")


def first_loads(rows: pa.Table) -> pa.Table:
    """The rows that each file brought to each event day, counted as :data:`LOADED`, in the order of days and files.

    :param rows: the rows that came as history, with ``event_date``, ``ingestion_id``, ``source_file``, ``arrival_ts``, and
        whether they are ``late``.
    """
    counted = rows.append_column("is_late", rows["late"].cast(pa.int64())).group_by(_FILE_AND_DAY)
    files = counted.aggregate([([], "count_all"), ("is_late", "sum"), ("arrival_ts", "max")])
    named = files.rename_columns({"count_all": "rows", "is_late_sum": "late", "arrival_ts_max": "arrival_ts"})
    return named.select(LOADED.names).cast(LOADED).sort_by([(name, "ascending") for name in _FILE_AND_DAY])


def first_load_value(file: str, rows: int, late: int) -> str:
    """The ``new_value`` of an audit row about a load: its file and counts, as JSON."""
    return json.dumps({"source_file": file, "rows": rows, "late": late}, ensure_ascii=False)


def first_load_reason(file: str, rows: int, backfill: str | None = None) -> str:
    """The ``reason`` of an audit row about a load, or about the rows in time that a backfill brought."""
    return f"{backfill or 'first load of the day'}: {rows:,} {'row' if rows == 1 else 'rows'} of {file}"


def first_load_id(source: str, version: int, ingestion_id: str, day: date) -> str:
    """The ``audit_id`` of an audit row about a load, distinct from those about keys."""
    return hashlib.sha256("\n".join(["first load", source, f"{version}", ingestion_id, f"{day}"]).encode()).hexdigest()[:32]


#: The columns of a row that came as history, in addition to those that its ruling depends on.
_LOADED_BY = ("arrival_date", "ingestion_id", "source_file")
#: The number of changes that are formatted at a time: their texts are several times larger than the changes.
_AT_ONCE = 50_000
_NONE = pa.scalar(None, pa.string())
_REDACTED = json_text(audit_log.REDACTED)


@dataclass(frozen=True)
class AuditedCommit:
    """The inputs of a commit's audit rows in addition to its change feed.

    :param redacted: all redactions of the source; their fields are masked.
    :param firsts: the arrival day that first brought each event day of the source, see ``lateness.history.first_arrivals``.
    :param followed_since: the first arrival day of the source, see ``lateness.history.followed_since``.
    """

    contract: SourceContract
    metrics: Collection[MetricContract]
    cause: Cause
    redacted: Collection[Redaction]
    silver_version: int
    audited_at: datetime
    firsts: pa.Table
    followed_since: date | None = None

    @cached_property
    def hidden(self) -> dict[str, pa.Array]:
        """The keys for which a field is redacted, by field."""
        keys: dict[str, list[str]] = {}
        for entry in self.redacted:
            for name in entry.fields:
                keys.setdefault(name, []).append(entry.record_key)
        return {name: pa.array(of_field, pa.string()) for name, of_field in keys.items()}

    @cached_property
    def same(self) -> dict[str, pa.Scalar]:
        """The columns that have the same value in all rows."""
        values = {
            "source": self.contract.dataset,
            "runner_id": self.cause.why.get("run_id"),
            "silver_version": self.silver_version,
            "audit_ts": self.audited_at,
            "notification_sent": False,
        }
        return {name: pa.scalar(value, audit_log.SCHEMA.field(name).type) for name, value in values.items()}

    def impacted(self, days: Collection[date]) -> str:
        """The published numbers that a change on ``days`` may affect: those whose window covers them, and their roll-ups."""
        numbers = []
        for daily in map(Series, self.metrics):
            affected = sorted(days_reached(daily.metric, days))
            for series in (daily, *daily.rollups):
                numbers += [f"{series.name}@{name}" for name in dict.fromkeys(series.period(day).name for day in affected)]
        return json.dumps(numbers)


def needed_columns(contract: SourceContract, existing: Collection[str]) -> list[str]:
    """The columns of silver's change feed that the audit needs, in the feed's order."""
    needed = {*RULED_BY, *_LOADED_BY, contract.event_type_column, "_change_type"}
    return [name for name in existing if name in needed or name not in NO_CONTENT]


def audit_rows(feed: pa.Table, commit: AuditedCommit) -> pa.Table:
    """The audit rows of a commit, ``audit_log.SCHEMA``: rows that came as history by event day and file, then changes by key.

    :param feed: its change feed, see ``change_feed.feed_of``, with at least :func:`needed_columns`.
    """
    feed = feed.combine_chunks()
    changes = row_changes(feed)
    is_history = _are_history(feed, changes, commit)
    loads = _loads(feed, changes.filter(is_history), commit)
    return pa.concat_tables([loads, *change_parts(feed, changes.filter(pc.invert(is_history)), commit)])


def change_parts(feed: pa.Table, changes: pa.Table, commit: AuditedCommit) -> Iterator[pa.Table]:
    """The audit rows of ``changes`` in parts; all rows of a key are in one part."""
    first_of_key = np.flatnonzero(starts(_newest(feed["record_key"], changes)))
    cuts = np.searchsorted(first_of_key, np.arange(0, len(changes), _AT_ONCE))
    begins = np.unique(first_of_key[cuts[cuts < len(first_of_key)]])
    for begin, end in zip(begins, [*begins[1:], len(changes)]):
        yield _rows_of(feed, changes.slice(begin, end - begin), commit)


def _are_history(feed: pa.Table, changes: pa.Table, commit: AuditedCommit) -> pa.Array:
    """Whether each change is counted by file and day: rows that came as history, or in time by a backfill.

    Such rows were inserted because of arrivals, not by a person or a rebuild.
    """
    if commit.cause.of_others is not None or not len(commit.firsts):
        return pa.repeat(pa.scalar(False), len(changes))
    names = dict.fromkeys(
        ["event_date", "arrival_date", "record_key", "event_ts", "arrival_ts", commit.contract.event_type_column]
    )
    rows = pa.table({name: _newest(feed[name], changes) for name in names})
    by_hand = pc.is_in(rows["record_key"].combine_chunks(), pa.array(list(commit.cause.of_keys), pa.string()))
    is_inserted = pc.is_null(changes["before"]).combine_chunks()
    counted = are_first_load(rows, commit.firsts, commit.followed_since)
    if commit.cause.backfill is not None:
        counted = pc.or_(counted, pc.invert(judged(rows, commit.contract)[1]))
    return pc.and_(pc.and_(is_inserted, counted), pc.invert(by_hand))


def _loads(feed: pa.Table, changes: pa.Table, commit: AuditedCommit) -> pa.Table:
    """The audit rows about the rows that each file brought to each event day as history."""
    contract = commit.contract
    names = dict.fromkeys(["event_date", "event_ts", "arrival_ts", *_LOADED_BY, contract.event_type_column])
    rows = pa.table({name: _newest(feed[name], changes) for name in names})
    _, late = judged(rows, contract)
    system = contract.source.system or contract.dataset
    loaded = [
        {
            "audit_id": first_load_id(contract.dataset, commit.silver_version, load["ingestion_id"], load["event_date"]),
            "event_date": load["event_date"],
            "source_system": system,
            "action_type": "backfill",
            "new_value": first_load_value(load["source_file"], load["rows"], load["late"]),
            "reason": first_load_reason(load["source_file"], load["rows"], commit.cause.backfill),
            "actor": commit.cause.runner or system,
            "arrival_ts": load["arrival_ts"],
            "impacted_kpis": commit.impacted([load["event_date"]]),
            **{name: value.as_py() for name, value in commit.same.items()},
        }
        for load in first_loads(rows.append_column("late", late)).to_pylist()
    ]
    return pa.Table.from_pylist(loaded, schema=audit_log.SCHEMA)


def _rows_of(feed: pa.Table, changes: pa.Table, commit: AuditedCommit) -> pa.Table:
    rows, days = _rows_and_days(feed, changes, commit.contract)
    ruled = rulings(rows, days, commit.contract, commit.cause)
    audited = pc.is_valid(ruled["action_type"])
    changes, rows, days, ruled = (table.filter(audited).combine_chunks() for table in (changes, rows, days, ruled))
    keys, days = rows["record_key"].combine_chunks(), pa.table(_first_and_second(days), names=["first", "second"])
    columns = {
        **{name: rows[name] for name in ("source_system", "event_date", "event_ts", "arrival_ts")},
        **{name: ruled[name] for name in ruled.column_names},
        **_values(feed, changes, keys, commit),
        **{name: pa.repeat(value, len(rows)) for name, value in commit.same.items()},
        "audit_id": _ids(keys, days, commit),
        "event_id": keys,
        "impacted_kpis": _impacted(days, commit),
    }
    return pa.table({name: columns[name] for name in audit_log.SCHEMA.names}).cast(audit_log.SCHEMA)


def _rows_and_days(feed: pa.Table, changes: pa.Table, contract: SourceContract) -> tuple[pa.Table, pa.Table]:
    """The input of ``rulings``: the newest row of each change, and the event days before and after it."""
    names = dict.fromkeys([*RULED_BY, contract.event_type_column])
    rows = pa.table({name: _newest(feed[name], changes) for name in names})
    return rows, pa.table({side: feed["event_date"].take(changes[side]) for side in ("before", "after")})


def _newest(column: pa.ChunkedArray, changes: pa.Table) -> pa.Array:
    """The values of the rows after the changes, or before them where a row was removed."""
    return column.take(pc.coalesce(changes["after"], changes["before"])).combine_chunks()


def _first_and_second(days: pa.Table) -> list[pa.Array]:
    """The event day of each change; for a move, the day before and the day after it. Otherwise there is no second day."""
    before, after = days["before"], days["after"]
    moved = pc.fill_null(pc.not_equal(before, after), False)
    return [pc.coalesce(before, after), pc.if_else(moved, after, pa.scalar(None, pa.date32()))]


def _values(feed: pa.Table, changes: pa.Table, keys: pa.Array, commit: AuditedCommit) -> dict[str, pa.Array]:
    """``original_value``, ``new_value`` and ``field_changed``."""
    before, after = (changes[side].combine_chunks() for side in ("before", "after"))
    both = pc.and_(pc.is_valid(before), pc.is_valid(after))
    names = [name for name in feed.column_names if name not in NO_CONTENT]
    old, new, changed = {}, {}, {}
    for name in names:
        values = [feed[name].take(side).combine_chunks() for side in (before, after)]
        differs = differ(*values)
        changed[name] = pc.if_else(pc.and_(differs, both), name, _NONE)
        shown = pc.or_(differs, pc.invert(both))
        redacted = pc.is_in(keys, commit.hidden[name]) if name in commit.hidden else None
        old[name], new[name] = (
            _members(name, value, pc.and_(shown, pc.is_valid(side)), redacted) for value, side in zip(values, (before, after))
        )
    fields = _joined([changed[name] for name in sorted(names)], ",")
    return {
        "original_value": _objects(old.values(), before),
        "new_value": _objects(new.values(), after),
        "field_changed": pc.if_else(both, fields, _NONE),
    }


def _members(name: str, values: pa.Array, shown: pa.Array, redacted: pa.Array | None) -> pa.Array:
    """A field of each JSON object; NULL where it is not shown. Only shown values are formatted."""
    texts = json_texts(values.filter(shown))
    if redacted is not None:
        texts = pc.if_else(redacted.filter(shown), _REDACTED, texts)
    chosen = shown.to_numpy(zero_copy_only=False)
    return pc.binary_join_element_wise(f'"{name}": ', texts, "").take(pa.array(np.cumsum(chosen) - 1, mask=~chosen))


def _objects(members: Collection[pa.Array], places: pa.Array) -> pa.Array:
    """JSON objects; NULL for rows without a place."""
    return pc.if_else(pc.is_valid(places), pc.binary_join_element_wise("{", _joined(members, ", "), "}", ""), _NONE)


def _joined(texts: Collection[pa.Array], separator: str) -> pa.Array:
    """Texts row by row, without NULLs; an empty text where all are NULL, for which Arrow's own join drops the row."""
    led = [pc.binary_join_element_wise(separator, text, "") for text in texts]
    joined = pc.binary_join_element_wise(*led, "", null_handling="replace", null_replacement="")
    return pc.binary_replace_slice(joined, 0, len(separator), "")


def _ids(keys: pa.Array, days: pa.Table, commit: AuditedCommit) -> pa.Array:
    """See ``audit_log.id_of``."""
    of_commit = f"{commit.contract.dataset}\n{commit.silver_version}"
    dates = [days[name].combine_chunks().cast(pa.string()) for name in days.column_names]
    named = _joined([pa.repeat(of_commit, len(keys)), keys, *dates, _repetitions(keys, days)], "\n")
    return pa.array([hashlib.sha256(name).hexdigest()[:32] for name in named.cast(pa.binary()).to_pylist()], pa.string())


def _repetitions(keys: pa.Array, days: pa.Table) -> pa.Array:
    """The numbers, from 2, of rows with the same key and days; NULL for the first: under 'append' a key may be on a day twice.

    :param keys: sorted.
    """
    first_of_key = starts(keys)
    if first_of_key.all():
        return pa.nulls(len(keys), pa.string())
    columns = [pc.fill_null(days[name].cast(pa.int32()).cast(pa.int64()), -(2**40)).to_numpy() for name in days.column_names]
    columns.append(np.cumsum(first_of_key))
    order = np.lexsort(columns)
    position = np.arange(len(order))
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = np.any([column[order][1:] != column[order][:-1] for column in columns], axis=0)
    number = np.empty_like(position)
    number[order] = position - np.maximum.accumulate(np.where(is_first, position, 0)) + 1
    return pa.array(number, mask=number == 1).cast(pa.string())


def _impacted(days: pa.Table, commit: AuditedCommit) -> pa.Array:
    """The impacted numbers of each change, computed once for all changes of the same days."""
    first, second = (pc.coalesce(days[name], days["first"]).cast(pa.int32()).cast(pa.int64()) for name in ("first", "second"))
    _, examples, which = np.unique((first.to_numpy() << 32) + second.to_numpy(), return_index=True, return_inverse=True)
    distinct = days.take(pa.array(examples)).to_pylist()
    texts = [commit.impacted([day for day in of_change.values() if day is not None]) for of_change in distinct]
    return pa.array(texts, pa.string()).take(pa.array(which))
