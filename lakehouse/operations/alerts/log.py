"""``ops/alerts``: the log of alerts. A row is an event of an alert: it opened, it was resolved, or targets received a message.

An alert is open from its first row until its condition is gone; if the condition occurs again, another alert opens. Every
target that was configured when the alert opened receives one message for the opening and one for the resolution. A delivery
is recorded after it happened: a message that was delivered but not recorded is sent again with the same id. ``rules``
decides when an alert opens; ``dispatch`` sends the messages.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from lakehouse import locations
from lakehouse.ledger.log_table import LogTable
from lakehouse.operations.alerts.alert import Alert, AlertKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from lakehouse.settings import Settings

Transition = Literal["opened", "resolved"]
#: The event of a delivery, as stored since the first version of the table.
_DELIVERED = "told"


@dataclass(frozen=True)
class AlertEvent:
    """A row of the table: an alert opened, with all its fields; it was resolved; or ``targets`` received a message.

    :param about: the transition whose message was delivered.
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


@dataclass(frozen=True)
class AlertRecord:
    """An alert that was opened.

    :param targets: the names of the targets that are notified of it.
    :param delivered: the targets that have received the message of a transition.
    """

    alert_id: str
    alert: Alert
    opened_at: datetime
    targets: Sequence[str]
    resolved_at: datetime | None = None
    delivered: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def waiting(self, transition: Transition) -> list[str]:
        """The targets that have not received the message of a transition; none if there was no such transition."""
        if transition == "resolved" and self.resolved_at is None:
            return []
        return [name for name in self.targets if name not in self.delivered.get(transition, ())]

    def message_id(self, transition: Transition) -> str:
        """The id by which a receiver recognizes a repetition."""
        return f"{self.alert_id}:{transition}"


def log(settings: Settings) -> LogTable[AlertEvent]:
    """The table."""
    return LogTable(AlertEvent, settings, locations.alerts(settings), sort_keys=False)


def all_of(settings: Settings) -> list[AlertRecord]:
    """Every alert, oldest first."""
    events = sorted(log(settings).read(), key=lambda event: event.at)
    records = {event.alert_id: _record_of(event) for event in reversed(events) if event.event == "opened"}
    for event in events:
        record = records.get(event.alert_id)
        if record is not None and event.event == "resolved":
            records[record.alert_id] = replace(record, resolved_at=record.resolved_at or event.at)
        if record is not None and event.event == _DELIVERED and event.about is not None:
            names = record.delivered.get(event.about, frozenset()) | set(event.targets or ())
            records[record.alert_id] = replace(record, delivered={**record.delivered, event.about: names})
    return sorted(records.values(), key=lambda record: (record.opened_at, record.alert.since, record.alert.key))


def record(
    settings: Settings,
    earlier: Sequence[AlertRecord],
    current: Sequence[Alert],
    stays: Callable[[Alert], bool],
    targets: Sequence[str],
) -> list[AlertRecord]:
    """Open the alerts that are not open yet, and resolve the open ones whose condition is gone; all in one commit.

    :param earlier: every alert so far.
    :param current: the alerts whose condition holds now.
    :param stays: tells the open alerts whose conditions are unknown now: they stay as they are.
    :param targets: the names of the targets to notify of the new alerts.
    :returns: every alert.
    """
    now = settings.clock()
    open_alerts = {entry.alert.key: entry for entry in earlier if entry.resolved_at is None}
    occurrences = Counter(entry.alert.key for entry in earlier)
    by_key = {alert.key: alert for alert in current}
    opened = [
        AlertRecord(_id(alert, occurrences[key]), alert, now, list(targets))
        for key, alert in by_key.items()
        if key not in open_alerts
    ]
    resolved = {entry.alert_id for key, entry in open_alerts.items() if key not in by_key and not stays(entry.alert)}
    events = [_opening_of(entry) for entry in opened]
    events += [AlertEvent(alert_id, "resolved", now) for alert_id in sorted(resolved)]
    if events:
        log(settings).append(events)
    return [*(replace(entry, resolved_at=now) if entry.alert_id in resolved else entry for entry in earlier), *opened]


def record_delivery(settings: Settings, entry: AlertRecord, transition: Transition, targets: Sequence[str]) -> None:
    """Record the targets that have received the message of an alert's opening or resolution."""
    log(settings).append([AlertEvent(entry.alert_id, _DELIVERED, settings.clock(), transition, list(targets))])


def _id(alert: Alert, occurrences: int) -> str:
    """The same id for the same alert, even if two ticks find it at one time, or the table was lost in between."""
    name = "\n".join([*alert.key, alert.since.isoformat(), f"{occurrences}"])
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _opening_of(entry: AlertRecord) -> AlertEvent:
    alert = entry.alert
    return AlertEvent(
        alert_id=entry.alert_id,
        event="opened",
        at=entry.opened_at,
        targets=list(entry.targets),
        kind=alert.kind,
        contract=alert.contract,
        subject=alert.subject,
        period=alert.period,
        detail=alert.detail,
        since=alert.since,
        text=alert.text,
        addressed_to=list(alert.addressed_to),
        numbers=dict(alert.numbers),
    )


def _record_of(opening: AlertEvent) -> AlertRecord:
    names = ("kind", "contract", "subject", "since", "text", "addressed_to", "period", "detail", "numbers")
    alert = Alert(**{name: getattr(opening, name) for name in names})
    return AlertRecord(opening.alert_id, alert, opening.at, opening.targets or [])
