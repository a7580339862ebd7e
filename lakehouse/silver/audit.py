"""The rows of the audit, computed from the change feed of each commit to silver.

A change of an existing key is always audited, a new key only if it is late. The rows are stored, read and masked in
``audit_log``; the reason for a commit is taken from its metadata.
"""

from __future__ import annotations

import json
import logging
from collections import Counter, defaultdict
from datetime import timedelta
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.calendar.days import reach_ahead
from lakehouse.calendar.event_day import lateness
from lakehouse.contracts.series import Series
from lakehouse.delta import change_feed, commit_log, table_io
from lakehouse.lateness.rules import is_late
from lakehouse.ledger import redactions
from lakehouse.silver import audit_log
from lakehouse.silver.audit_log import Ruling
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import date

    from deltalake import DeltaTable

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings
    from lakehouse.silver.audit_log import Cause

    #: The values of rows as JSON, by the places of the rows in the feed.
    _Texts = dict[int, tuple[str, ...]]

_log = logging.getLogger(__name__)
#: Up to this many newest versions without audit rows are read again each time; for more, an empty commit records the version.
_LOOKED_AT_AGAIN = 8
#: How many changes are converted to text at a time: a first file of a million late rows must not be in memory as objects.
_AT_ONCE = 20_000


class Change(NamedTuple):
    """What a commit did to one row of silver, as places in its feed: a new row has no ``before``, a removed one no ``after``."""

    before: int | None
    after: int | None

    @property
    def newest(self) -> int:
        """The row after the change, or before it if the row was removed."""
        place = self.before if self.after is None else self.after
        assert place is not None  # noqa: S101 (one of them is set)
        return place


def follow(settings: Settings, contract: SourceContract, metrics: Collection[MetricContract]) -> int:
    """Audit every version of silver that has not been audited yet, each in one commit.

    :returns: how many rows were written.
    """
    source = contract.dataset
    table = table_io.open_table(locations.silver(settings, source), settings.storage_options)
    if table is None:
        return 0
    silver_id, newest = str(table.metadata().id), table.version()
    done = audit_log.followed(settings, source, silver_id)
    if done >= newest:
        return 0
    known = redactions.all_of(settings, source)  # read after the table: it contains all redactions that the commits list
    history = {commit["version"]: commit for commit in commit_log.history(table, done)}
    lost = newest - done - len(history)
    written, marked = 0, done
    named: set[str] = set()
    for version, commit in sorted(history.items()):
        changed = _changed(table, version)
        if changed is None:
            lost += 1
            continue
        cause = audit_log.cause(settings, source, commit_log.commit_metadata(commit), known)
        named |= {entry.redaction_id for entry in cause.redacted.values()}
        parts = [audit_log.table(part, known) for part in _Rows(settings, contract, metrics, changed, cause).parts(version)]
        if parts:
            written += audit_log.append(settings, source, silver_id, version, pa.concat_tables(parts))
            marked = version
    if lost:
        _log.warning("%d versions of silver/%s are gone from its log or its files: they are not audited", lost, source)
    if newest - marked > _LOOKED_AT_AGAIN:
        audit_log.append(settings, source, silver_id, newest, audit_log.SCHEMA.empty_table())
    # Redactions recorded during this run, or by a process that was stopped before it masked the older rows.
    for entry in redactions.all_of(settings, source) if written else ():
        if entry not in known or entry.redaction_id in named:
            audit_log.redact(settings, source, entry.record_key, entry.fields)
    return written


class _Rows:
    """The audit rows of one commit.

    :param changed: the rows that it removed and added, with all their columns; see :func:`_changed`.
    """

    def __init__(
        self,
        settings: Settings,
        contract: SourceContract,
        metrics: Collection[MetricContract],
        changed: pa.Table,
        cause: Cause,
    ) -> None:
        self._settings, self._contract, self._metrics, self._cause = settings, contract, metrics, cause
        self._zone = ZoneInfo(contract.clocks.timezone)
        self._content = changed.select(
            [name for name in changed.column_names if name not in change_feed.NO_CONTENT and name != "_net"]
        )
        copied = ("record_key", "event_date", "event_ts", "arrival_ts", "source_system", "corrected_by", "correction_reason")
        self._of = {name: changed[name].to_pylist() for name in copied}
        self._types = [None if kind is None else str(kind) for kind in changed[contract.event_type_column].to_pylist()]
        self._expected: dict[str | None, timedelta] = {}
        self._changes = list(_pairs(self._of["record_key"], self._of["event_date"], changed["_net"].to_pylist()))

    def parts(self, version: int) -> Iterator[list[dict[str, Any]]]:
        """The audit rows in batches, before the values of redacted fields are masked."""
        kept = [(change, ruling) for change in self._changes if (ruling := self._ruling(change)) is not None]
        seen: Counter[tuple[Any, ...]] = Counter()
        same = {
            "source": self._contract.dataset,
            "runner_id": self._cause.why.get("run_id"),
            "silver_version": version,
            "audit_ts": self._settings.clock(),
            "notification_sent": False,
        }
        for start in range(0, len(kept), _AT_ONCE):
            part = kept[start : start + _AT_ONCE]
            texts = self._texts([place for change, _ in part for place in change if place is not None])
            yield [same | self._row(change, ruling, version, texts, seen) for change, ruling in part]

    def _row(self, change: Change, ruling: Ruling, version: int, texts: _Texts, seen: Counter[tuple[Any, ...]]) -> dict[str, Any]:
        of = {name: self._of[name][change.newest] for name in ("event_date", "source_system", "event_ts", "arrival_ts")}
        days = self._days(change)
        place = (self._of["record_key"][change.newest], *days)
        seen[place] += 1  # under 'append' a key may be on a day more than once
        names = self._differing(change, texts)
        return {
            **of,
            "audit_id": audit_log.id_of(self._contract.dataset, version, *place, number=seen[place]),
            "event_id": place[0],
            "action_type": ruling.action,
            "original_value": self._value(change.before, names, texts),
            "new_value": self._value(change.after, names, texts),
            "field_changed": None if names is None else ",".join(sorted(names)),
            "reason": ruling.reason,
            "actor": ruling.actor,
            "impacted_kpis": self._impacted(days),
        }

    def _ruling(self, change: Change) -> Ruling | None:
        """How a change is recorded; None for an insert that arrived in time, which is not audited."""
        by_hand = self._cause.by_hand(self._of["record_key"][change.newest])
        if by_hand is not None:
            return by_hand
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
        return dict(zip(places, zip(*([audit_log.text(value) for value in column.to_pylist()] for column in rows.columns))))

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

    def _impacted(self, days: Collection[date]) -> str:
        """The published numbers that the change may affect: those whose window covers its days, and their roll-ups."""
        numbers = []
        for daily in map(Series, self._metrics):
            affected = sorted(reach_ahead(days, daily.metric.window))
            for series in (daily, *daily.rollups):
                numbers += [f"{series.name}@{name}" for name in dict.fromkeys(series.period(day).name for day in affected)]
        return json.dumps(numbers)


def _changed(table: DeltaTable, version: int) -> pa.Table | None:
    """The rows that a version removed or added, with ``_net`` -1 or 1; None if its files are gone."""
    try:
        feed = change_feed.feed_of(table, version, version)
    except change_feed.ForgottenFeedError:
        return None
    content = [name for name in feed.column_names if name not in change_feed.NO_CONTENT]
    came = pc.is_in(feed["_change_type"], pa.array(change_feed.AFTER))
    place, none = pa.array(range(len(feed)), pa.int64()), pa.scalar(None, pa.int64())
    signed = feed.select(content).append_column("_net", pc.if_else(came, 1, -1))
    signed = signed.append_column("_came", pc.if_else(came, place, none)).append_column("_gone", pc.if_else(came, none, place))
    net = signed.group_by(content).aggregate([("_net", "sum"), ("_came", "max"), ("_gone", "max")])
    places, signs = [], []
    for count, put, taken in zip(*(net[name].to_pylist() for name in ("_net_sum", "_came_max", "_gone_max"))):
        places += [put if count > 0 else taken] * abs(count)
        signs += [1 if count > 0 else -1] * abs(count)
    rows = feed.take(pa.array(places, pa.int64())).append_column("_net", pa.array(signs, pa.int64()))
    return rows.sort_by([("record_key", "ascending"), ("event_date", "ascending")])


def _pairs(keys: list[str], days: list[date], net: list[int]) -> Iterator[Change]:
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
