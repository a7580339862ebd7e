"""``ops/alerts``: the log of alerts. A row is an event of an alert, or of a message about several alerts.

An alert is open from its first row until its condition ends; if the condition recurs, another alert opens. It may escalate to
further targets, be acknowledged by a person, and be snoozed. Every target of an alert receives one message for each transition.
An alert about waiting rows takes the present text, and is sent again after it has grown. A delivery is recorded afterwards: a
message that was delivered but not recorded is repeated with the same id. ``rules`` decides about openings, ``outbox`` about
recipients and due messages.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from lakehouse import locations
from lakehouse.errors import LakehouseError
from lakehouse.ledger.log_table import LogTable
from lakehouse.operations.alerts.alert import Alert, AlertKind
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from lakehouse.lake import Lake

Transition = Literal["opened", "escalated", "grown", "resolved"]
#: At most one message within this time says that an alert has opened or grown.
SENT_AGAIN_AFTER = timedelta(hours=4)
#: The event of new text and figures about which no message is sent now, and its mark if they have grown.
_UPDATED, _GREW = "updated", "grew"
#: The event of a delivery, as stored since the first version of the table.
_DELIVERED = "told"
_SHOWN = 10


@dataclass(frozen=True)
class AlertEvent:
    """A row of the table: the opening of an alert, with all its fields, or a later event of it.

    Later events: it has new text and figures (``updated``), or is to be sent again with them (``grown``); it escalated to
    ``targets``, was resolved, was acknowledged, was snoozed ``until`` a time, or ``targets``
    received a message. For a message about several alerts (a digest), ``alert_id`` is the id of the message, which is also
    recorded before it is sent.

    :param about: the transition reported by the message; of an update, whether it grew.
    :param alert_ids: the alerts of a digest.
    """

    alert_id: str
    event: str
    at: datetime
    about: str | None = None
    targets: list[str] | None = None
    kind: AlertKind | None = None
    contract: str | None = None
    subject: str | None = None
    period: str | None = None
    detail: str | None = None
    since: datetime | None = None
    text: str | None = None
    addressed_to: list[str] | None = None
    numbers: Mapping[str, Any] | None = None
    by: str | None = None
    reason: str | None = None
    until: datetime | None = None
    alert_ids: list[str] | None = None


@dataclass(frozen=True)
class Acknowledgement:
    """The person who takes care of an alert, with time and reason."""

    by: str
    at: datetime
    reason: str


@dataclass(frozen=True)
class AlertRecord:
    """An opened alert with its history.

    :param alert: with the present text and figures.
    :param targets: the names of the targets notified from the beginning.
    :param escalated_to: the names of the targets notified since ``escalated_at``.
    :param snoozed_until: no message is sent before this time.
    :param grown_at: the time of the newest message that is to say that the alert has grown.
    :param has_grown: whether the alert has grown since its last message, and no message is to say so yet.
    :param as_of: the alert as of each :meth:`occasion` for a message, so that a repeated message is the same.
    :param delivered: the targets that have received the message of an occasion.
    :param digests: per occasion and target, the id of the digest that contains it.
    """

    alert_id: str
    alert: Alert
    opened_at: datetime
    targets: Sequence[str]
    resolved_at: datetime | None = None
    grown_at: datetime | None = None
    has_grown: bool = False
    as_of: Mapping[str, Alert] = field(default_factory=dict)
    delivered: Mapping[str, frozenset[str]] = field(default_factory=dict)
    escalated_at: datetime | None = None
    escalated_to: Sequence[str] = ()
    acknowledged: Acknowledgement | None = None
    snoozed_until: datetime | None = None
    digests: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def waiting(self, transition: Transition) -> list[str]:
        """The targets that have not received the message of a transition; empty if the transition has not happened."""
        if transition == "opened":
            notified = self.targets
        elif transition == "escalated":
            notified = self.escalated_to
        elif transition == "grown":
            notified = self._notified_of_growth()
        else:
            notified = [*self.targets, *self.escalated_to] if self.resolved_at else []
        return [name for name in notified if name not in self.delivered.get(self.occasion(transition), ())]

    def _notified_of_growth(self) -> Sequence[str]:
        """The targets, and those of an earlier escalation: a later one has the grown figures in its message."""
        if self.grown_at is None or self.resolved_at is not None:
            return []
        return [*self.targets, *(self.escalated_to if self.escalated_at and self.escalated_at < self.grown_at else [])]

    def occasion(self, transition: Transition) -> str:
        """The occasion for a message: a transition, which for growth occurs several times."""
        return f"grown:{self.grown_at.isoformat()}" if transition == "grown" and self.grown_at else transition

    def message_id(self, transition: Transition) -> str:
        """The id by which a receiver recognizes a repeated message."""
        return f"{self.alert_id}:{self.occasion(transition)}"

    def as_sent(self, transition: Transition) -> Alert:
        """The alert as the message of a transition describes it."""
        return self.as_of.get(self.occasion(transition), self.alert)

    @property
    def sent_again_at(self) -> datetime:
        """The time before which growth causes no further message."""
        return (self.grown_at or self.opened_at) + SENT_AGAIN_AFTER

    def update(self, present: Alert, now: datetime) -> AlertEvent | None:
        """The event of the present text and figures of an open alert; None without a change, and for kinds that keep theirs."""
        if not self.alert.is_kept_current:
            return None
        grew, changed = present.has_grown(self.alert), _content(present) != _content(self.alert)
        if (grew or self.has_grown) and now >= self.sent_again_at:
            return _with_alert(AlertEvent(self.alert_id, "grown", now), present)
        return _with_alert(AlertEvent(self.alert_id, _UPDATED, now, _GREW if grew else None), present) if changed else None

    def after(self, event: AlertEvent) -> AlertRecord:
        """The record after one of its events."""
        changes: dict[str, Any] = {}
        if event.event == "resolved":
            changes = {"resolved_at": self.resolved_at or event.at, "as_of": {"resolved": self.alert, **self.as_of}}
        elif event.event == "escalated":
            as_of = {"escalated": self.alert, **self.as_of}
            changes = {"escalated_at": event.at, "escalated_to": event.targets or (), "as_of": as_of}
        elif event.event in {_UPDATED, "grown"}:
            return self._updated(event)
        elif event.event == "acknowledged":
            changes = {"acknowledged": Acknowledgement(event.by or "", event.at, event.reason or "")}
        elif event.event == "snoozed":
            changes = {"snoozed_until": event.until}
        elif event.about is not None and event.event == _DELIVERED:
            names = self.delivered.get(event.about, frozenset()) | set(event.targets or ())
            changes = {"delivered": {**self.delivered, event.about: names}}
        elif event.about is not None and event.event == "digest":
            changes = {"digests": {**self.digests, **{(event.about, name): event.alert_id for name in event.targets or ()}}}
        return replace(self, **changes)

    def _updated(self, event: AlertEvent) -> AlertRecord:
        present = replace(self.alert, **_content_of(event))
        if event.event == "grown" and event.at >= self.sent_again_at:
            grown = replace(self, alert=present, grown_at=event.at, has_grown=False)
            return replace(grown, as_of={**self.as_of, grown.occasion("grown"): present})
        # Two simultaneous evaluations record the same growth twice: it is one message.
        return replace(self, alert=present, has_grown=self.has_grown or event.about == _GREW)


def log(lake: Lake) -> LogTable[AlertEvent]:
    """The table of alert events."""
    return LogTable(AlertEvent, lake, locations.alerts(lake), sort_keys=False)


def all_of(lake: Lake) -> list[AlertRecord]:
    """All alerts, oldest first."""
    events = sorted(log(lake).read(), key=lambda event: (event.at, event.event not in {_UPDATED, "grown"}))
    records = {event.alert_id: _record_of(event) for event in reversed(events) if event.event == "opened"}
    for event in events:
        for alert_id in event.alert_ids or [event.alert_id]:
            if alert_id in records:
                records[alert_id] = records[alert_id].after(event)
    return sorted(records.values(), key=lambda record: (record.opened_at, record.alert.since, record.alert.key))


class UnknownAlertError(LakehouseError):
    """An id that matches no open alert, or several. The text lists the open alerts."""


def named(records: Iterable[AlertRecord], ids: Iterable[str]) -> list[AlertRecord]:
    """The open alerts with the given ids or id prefixes.

    :raises UnknownAlertError: if an id matches no alert, or several.
    """
    is_open = [record for record in records if record.resolved_at is None]
    selected = {}
    for text in ids:
        meant = [record for record in is_open if record.alert_id.startswith(text)]
        if len(meant) != 1:
            listed = [f"{record.alert_id} ({record.alert.title})" for record in (meant or is_open)]
            which = "names several open alerts" if meant else "names no open alert"
            raise UnknownAlertError(f"{text!r} {which}; there are {join_limited(listed, _SHOWN) or 'none'}")
        selected[meant[0].alert_id] = meant[0]
    return list(selected.values())


def record(
    lake: Lake,
    earlier: Sequence[AlertRecord],
    current: Sequence[Alert],
    stays: Callable[[Alert], bool],
    targets_of: Callable[[Alert], Sequence[str]],
) -> list[AlertRecord]:
    """Open new alerts, update open ones, and resolve those whose condition has ended, all in one commit.

    :param earlier: all alerts so far.
    :param current: the alerts with a present condition.
    :param stays: whether the condition of an open alert is unknown now, so that the alert is unchanged.
    :param targets_of: returns the names of the targets of a new alert.
    :returns: all alerts.
    """
    now = lake.now()
    open_alerts = {entry.alert.key: entry for entry in earlier if entry.resolved_at is None}
    occurrences = Counter(entry.alert.key for entry in earlier)
    by_key = {alert.key: alert for alert in current}
    opened = [
        _opened(_id(alert, occurrences[key]), alert, now, list(targets_of(alert)))
        for key, alert in by_key.items()
        if key not in open_alerts
    ]
    resolved = {entry.alert_id for key, entry in open_alerts.items() if key not in by_key and not stays(entry.alert)}
    later = {alert_id: AlertEvent(alert_id, "resolved", now) for alert_id in sorted(resolved)}
    updates = (entry.update(by_key[key], now) for key, entry in open_alerts.items() if key in by_key)
    later |= {event.alert_id: event for event in updates if event is not None}
    events = [*(_opening_of(entry) for entry in opened), *later.values()]
    if events:
        log(lake).append(events)
    return [*(entry.after(later[entry.alert_id]) if entry.alert_id in later else entry for entry in earlier), *opened]


def record_escalations(lake: Lake, escalated: Mapping[str, Sequence[str]]) -> None:
    """Record the targets to which alerts escalate, by alert, in one commit."""
    now = lake.now()
    events = [AlertEvent(alert_id, "escalated", now, targets=list(names)) for alert_id, names in escalated.items()]
    if events:
        log(lake).append(events)


def record_digests(lake: Lake, digests: Mapping[str, tuple[str, Sequence[str], Sequence[str]]]) -> None:
    """Record the alerts of digests before they are sent, so that a repeated digest is the same; in one commit.

    :param digests: by message id, the occasion, the targets, and the ids of the alerts.
    """
    now = lake.now()
    events = [
        AlertEvent(message_id, "digest", now, about, list(targets), alert_ids=list(alert_ids))
        for message_id, (about, targets, alert_ids) in digests.items()
    ]
    if events:
        log(lake).append(events)


def record_delivery(
    lake: Lake, entries: Sequence[AlertRecord], transition: Transition, targets: Sequence[str], digest: str | None = None
) -> None:
    """Record the targets that have received the message of a transition, for an alert or for all alerts of a digest.

    :param digest: the id of the digest.
    """
    ids, occasion = [entry.alert_id for entry in entries], entries[0].occasion(transition)
    event = AlertEvent(digest or ids[0], _DELIVERED, lake.now(), occasion, list(targets), alert_ids=ids if digest else None)
    log(lake).append([event])


def acknowledge(lake: Lake, entries: Iterable[AlertRecord], by: str, reason: str) -> None:
    """Record that a person takes care of alerts, which then do not escalate."""
    now = lake.now()
    log(lake).append([AlertEvent(entry.alert_id, "acknowledged", now, by=by, reason=reason) for entry in entries])


def snooze(lake: Lake, entries: Iterable[AlertRecord], until: datetime, by: str | None, reason: str | None) -> None:
    """Record that no message about the alerts is sent before ``until``."""
    now = lake.now()
    log(lake).append([AlertEvent(entry.alert_id, "snoozed", now, until=until, by=by, reason=reason) for entry in entries])


def _id(alert: Alert, occurrences: int) -> str:
    """The id of an alert: the same for the same alert, even if two ticks detect it at once, or the table was lost in between."""
    name = "\n".join([*alert.key, alert.since.isoformat(), f"{occurrences}"])
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _opening_of(entry: AlertRecord) -> AlertEvent:
    alert = entry.alert
    opening = AlertEvent(
        alert_id=entry.alert_id,
        event="opened",
        at=entry.opened_at,
        targets=list(entry.targets),
        kind=alert.kind,
        contract=alert.contract,
        subject=alert.subject,
        period=alert.period,
        detail=alert.detail,
        addressed_to=list(alert.addressed_to),
    )
    return _with_alert(opening, alert)


def _content(alert: Alert) -> tuple[Any, ...]:
    """What a message says about an alert, and what an open alert may change."""
    return alert.since, alert.text, dict(alert.numbers)


def _with_alert(event: AlertEvent, alert: Alert) -> AlertEvent:
    since, text, numbers = _content(alert)
    return replace(event, since=since, text=text, numbers=numbers)


def _content_of(event: AlertEvent) -> dict[str, Any]:
    return {name: getattr(event, name) for name in ("since", "text", "numbers")}


def _opened(alert_id: str, alert: Alert, at: datetime, targets: Sequence[str]) -> AlertRecord:
    return AlertRecord(alert_id, alert, at, targets, as_of={"opened": alert})


def _record_of(opening: AlertEvent) -> AlertRecord:
    names = ("kind", "contract", "subject", "since", "text", "addressed_to", "period", "detail", "numbers")
    alert = Alert(**{name: getattr(opening, name) for name in names})
    return _opened(opening.alert_id, alert, opening.at, opening.targets or [])
