"""The audit of a commit row by row: the model of the vectorised one in ``lakehouse.silver``."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import timedelta
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa

from lakehouse.calendar.days import lateness
from lakehouse.delta import change_feed
from lakehouse.delta.columns import json_text
from lakehouse.lateness.rules import is_late
from lakehouse.ledger import rebuild_requests
from lakehouse.silver import audit_log
from lakehouse.silver import audit_rows as audit_of_silver
from lakehouse.silver.audit_log import Ruling
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from datetime import date

    from lakehouse.ledger.redactions import Redaction
    from lakehouse.silver.audit_log import Cause
    from lakehouse.silver.audit_rows import AuditedCommit

    #: The values of rows as JSON, by the places of the rows in the feed.
    _Texts = dict[int, tuple[str, ...]]


def audit_rows(feed: pa.Table, commit: AuditedCommit) -> pa.Table:
    """The audit rows of a commit: what came as history by event day and file, then changes in the order of their keys."""
    return table(RowByRowAudit(net_rows(feed), commit).rows(), commit.redacted)


class Change(NamedTuple):
    """What a commit did to one row of silver, as places in its feed: a new row has no ``before``, a removed one no ``after``."""

    before: int | None
    after: int | None

    @property
    def newest(self) -> int:
        """The row after the change, or before it if the row was removed."""
        place = self.before if self.after is None else self.after
        assert place is not None
        return place


class RowByRowAudit:
    """The audit rows of one commit.

    :param changed: the rows that it removed and added, with all their columns; see :func:`net_rows`.
    """

    def __init__(self, changed: pa.Table, commit: AuditedCommit) -> None:
        self._commit, self._contract, self._cause = commit, commit.contract, commit.cause
        self._zone = ZoneInfo(commit.contract.clocks.timezone)
        self._content = changed.select(
            [name for name in changed.column_names if name not in change_feed.NO_CONTENT and name != "_net"]
        )
        copied = ["record_key", "event_date", "event_ts", "arrival_ts", "source_system", "corrected_by", "correction_reason"]
        copied += ["arrival_date", "ingestion_id", "source_file"]
        self._of = {name: changed[name].to_pylist() for name in copied}
        self._types = [None if kind is None else str(kind) for kind in changed[self._contract.event_type_column].to_pylist()]
        self._expected: dict[str | None, timedelta] = {}
        self._changes = list(pairs(self._of["record_key"], self._of["event_date"], changed["_net"].to_pylist()))

    def rows(self) -> list[dict[str, Any]]:
        """The audit rows, before the values of redacted fields are masked."""
        history = [change for change in self._changes if self._is_history(change)]
        changes = [change for change in self._changes if change not in history]
        kept = [(change, ruling) for change in changes if (ruling := self._ruling(change)) is not None]
        seen: Counter[tuple[Any, ...]] = Counter()
        same = {
            "source": self._contract.dataset,
            "runner_id": self._cause.why.get("run_id"),
            "silver_version": self._commit.silver_version,
            "audit_ts": self._commit.audited_at,
            "notification_sent": False,
        }
        texts = self._texts([place for change, _ in kept for place in change if place is not None])
        loads = [same | load for load in self._loads(history)]
        return loads + [same | self._row(change, ruling, texts, seen) for change, ruling in kept]

    def _is_history(self, change: Change) -> bool:
        firsts = {row["event_date"]: row["arrival_date"] for row in self._commit.firsts.to_pylist()}
        if change.before is not None or by_hand(self._cause, self._of["record_key"][change.newest]) is not None:
            return False
        day, arrival = (self._of[name][change.newest] for name in ("event_date", "arrival_date"))
        return day in firsts and day < min(firsts.values()) and arrival == firsts[day]

    def _loads(self, history: list[Change]) -> Iterator[dict[str, Any]]:
        places: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for change in history:
            of = [self._of[name][change.newest] for name in ("event_date", "ingestion_id", "source_file")]
            places[tuple(of)].append(change.newest)
        source = self._contract.dataset
        for (day, ingestion_id, file), brought in sorted(places.items()):
            late = sum(is_late(self._lateness(place), self._bound(self._types[place])) for place in brought)
            yield {
                "audit_id": audit_of_silver.first_load_id(source, self._commit.silver_version, ingestion_id, day),
                "event_date": day,
                "source_system": self._contract.source.system or source,
                "action_type": "backfill",
                "new_value": json.dumps({"source_file": file, "rows": len(brought), "late": late}, ensure_ascii=False),
                "reason": f"first load of the day: {len(brought):,} {'row' if len(brought) == 1 else 'rows'} of {file}",
                "actor": self._contract.source.system or source,
                "arrival_ts": max(self._of["arrival_ts"][place] for place in brought),
                "impacted_kpis": self._commit.impacted([day]),
            }

    def _row(self, change: Change, ruling: Ruling, texts: _Texts, seen: Counter[tuple[Any, ...]]) -> dict[str, Any]:
        of = {name: self._of[name][change.newest] for name in ("event_date", "source_system", "event_ts", "arrival_ts")}
        days = self._days(change)
        place = (self._of["record_key"][change.newest], *days)
        seen[place] += 1  # under 'append' a key may be on a day more than once
        names = self._differing(change, texts)
        return {
            **of,
            "audit_id": audit_log.id_of(self._contract.dataset, self._commit.silver_version, *place, number=seen[place]),
            "event_id": place[0],
            "action_type": ruling.action,
            "original_value": self._value(change.before, names, texts),
            "new_value": self._value(change.after, names, texts),
            "field_changed": None if names is None else ",".join(sorted(names)),
            "reason": ruling.reason,
            "actor": ruling.actor,
            "impacted_kpis": self._commit.impacted(days),
        }

    def _ruling(self, change: Change) -> Ruling | None:
        """How a change is recorded; None for an insert that arrived in time, which is not audited."""
        ruling = by_hand(self._cause, self._of["record_key"][change.newest])
        if ruling is not None:
            return ruling
        system = self._of["source_system"][change.newest]
        if change.after is None:
            return Ruling("correction", system, "withdrawn")
        late = self._lateness(change.after)
        span = format_duration(late)
        if change.before is None:
            if not is_late(late, self._bound(self._types[change.after])):
                return None
            return Ruling("late_merge", system, f"arrived {span} after the event")
        days = self._days(change)
        sentence = f"corrected {span} after the event" if len(days) == 1 else f"moved from {days[0]} to {days[1]}"
        by, reason = self._of["corrected_by"][change.after], self._of["correction_reason"][change.after]
        return Ruling("correction", by or system, reason or sentence)

    def _lateness(self, place: int) -> timedelta:
        of = self._of
        late = lateness(of["event_ts"][place], of["event_date"][place], of["arrival_ts"][place], self._zone)
        return max(late or timedelta(0), timedelta(0))

    def _bound(self, event_type: str | None) -> timedelta:
        if event_type not in self._expected:
            self._expected[event_type] = self._contract.lateness.of_type(event_type).expected
        return self._expected[event_type]

    def _days(self, change: Change) -> list[date]:
        """The event day of the row; for a move, the day before and the day after the change."""
        return list(dict.fromkeys(self._of["event_date"][place] for place in change if place is not None))

    def _texts(self, places: list[int]) -> _Texts:
        """The values of some rows as JSON, by place."""
        rows = self._content.take(pa.array(places, pa.int64()))
        return dict(zip(places, zip(*([json_text(value) for value in column.to_pylist()] for column in rows.columns))))

    def _differing(self, change: Change, texts: _Texts) -> set[str] | None:
        if change.before is None or change.after is None:
            return None
        both = zip(self._content.column_names, texts[change.before], texts[change.after])
        return {name for name, old, new in both if old != new}

    def _value(self, place: int | None, names: Collection[str] | None, texts: _Texts) -> str | None:
        if place is None:
            return None
        values = zip(self._content.column_names, texts[place])
        return "{" + ", ".join(f'"{name}": {text}' for name, text in values if names is None or name in names) + "}"


def net_rows(feed: pa.Table) -> pa.Table:
    """The rows that a commit removed or added, with ``_net`` -1 or 1, in the order of keys and event days.

    Rows of one key and day stand in the order in which the feed first names their content, which is the order of a dictionary:
    Arrow's groups come in no certain one.
    """
    content = [feed[name].to_pylist() for name in feed.column_names if name not in change_feed.NO_CONTENT]
    net: dict[tuple[str, ...], int] = defaultdict(int)
    places: dict[tuple[tuple[str, ...], bool], int] = {}
    for place, (kind, row) in enumerate(zip(feed["_change_type"].to_pylist(), zip(*content))):
        values, came = tuple(repr(value) for value in row), kind in change_feed.AFTER  # in words: NaN is NaN, 0.0 is not -0.0
        net[values] += 1 if came else -1
        places[values, came] = place
    kept = [(places[values, count > 0], 1 if count > 0 else -1) for values, count in net.items() for _ in range(abs(count))]
    rows = feed.take(pa.array([place for place, _ in kept], pa.int64()))
    rows = rows.append_column("_net", pa.array([sign for _, sign in kept], pa.int64()))
    return rows.sort_by([("record_key", "ascending"), ("event_date", "ascending")])


def pairs(keys: list[str], days: list[date], net: list[int]) -> Iterator[Change]:
    """Pairs of a removed and an added row of each key: first those on the same day, then those on different days."""
    sides: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for place, (key, sign) in enumerate(zip(keys, net)):
        sides[key][sign > 0].append(place)
    for gone, new in sides.values():
        for before in list(gone):
            after = next((place for place in new if days[place] == days[before]), None)
            if after is not None:
                gone.remove(before)
                new.remove(after)
                yield Change(before, after)
        yield from (Change(*pair) for pair in zip_longest(gone, new))


def by_hand(cause: Cause, key: str) -> Ruling | None:
    """How a change of a key is recorded that no arrival caused; None if an arrival caused it."""
    by, reason = cause.why.get("by"), cause.why.get("reason")
    if key in cause.redacted:
        return Ruling("redaction", cause.redacted[key].by, cause.redacted[key].reason)
    decision = cause.decided.get(key)
    if decision is None and cause.why.get("operation") == rebuild_requests.BUG_REPLAY:
        return Ruling("replay", by, reason)
    if decision is None and not cause.ingestions:
        # Under the policies that overwrite, a decision about one row brings in the other keys of its day.
        decision = next(iter(cause.decided.values()), None)
    if decision is not None:
        return Ruling("steward", decision.by, decision.reason)
    return None if cause.ingestions else Ruling("backfill", by or "lakehouse", reason or "made again from Bronze")


def table(rows: Iterable[dict[str, Any]], redacted: Iterable[Redaction]) -> pa.Table:
    """Rows as an Arrow table, with the values of redacted fields masked."""
    hidden: dict[str, set[str]] = defaultdict(set)
    for entry in redacted:
        hidden[entry.record_key].update(entry.fields)
    shown = [audit_log.masked(row, hidden[row["event_id"]]) if row.get("event_id") in hidden else row for row in rows]
    return pa.Table.from_pylist(shown, schema=audit_log.SCHEMA)
