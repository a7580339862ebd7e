"""``ops/alerts``: the log of alerts. A row is an event of an alert: it opened, it was resolved, or targets received one of these.

An alert is open from its first row until its condition is gone; when the same condition comes again, that is another alert.
Its opening and its resolution are one message each to every target that was configured when it opened. A delivery is
recorded after it: what was delivered and not recorded is sent again under the same id. When there is an alert is decided in
``rules``; messages are sent by ``dispatch``.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.operations.alerts.alert import Alert, AlertKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from lakehouse.settings import Settings

_TEXT, _TIME = pa.string(), pa.timestamp("us", "UTC")
_SCHEMA = pa.schema(
    [
        ("alert_id", _TEXT),
        ("event", _TEXT),
        ("at", _TIME),
        ("about", _TEXT),
        ("targets", pa.list_(_TEXT)),
        ("kind", _TEXT),
        ("contract", _TEXT),
        ("subject", _TEXT),
        ("period", _TEXT),
        ("detail", _TEXT),
        ("since", _TIME),
        ("text", _TEXT),
        ("addressed_to", pa.list_(_TEXT)),
        ("numbers", _TEXT),
    ]
)
Transition = Literal["opened", "resolved"]
#: The event of a delivery, as stored since the first version of the table.
_DELIVERED = "told"


@dataclass(frozen=True)
class AlertRecord:
    """An alert that was opened.

    :param targets: the names of those that are notified of it.
    :param delivered: the targets that have received the message of a transition.
    """

    alert_id: str
    alert: Alert
    opened_at: datetime
    targets: Sequence[str]
    resolved_at: datetime | None = None
    delivered: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def waiting(self, transition: Transition) -> list[str]:
        """The targets that have not received the message of a transition; none where there was no such transition."""
        if transition == "resolved" and self.resolved_at is None:
            return []
        return [name for name in self.targets if name not in self.delivered.get(transition, ())]

    def message_id(self, transition: Transition) -> str:
        """The id by which a receiver recognizes a repetition."""
        return f"{self.alert_id}:{transition}"


def all_of(settings: Settings) -> list[AlertRecord]:
    """Every alert, oldest first."""
    table = table_io.read(locations.alerts(settings), _SCHEMA.names, None, settings.storage_options)
    rows = [] if table is None else sorted(table.to_pylist(), key=lambda row: row["at"])
    records = {row["alert_id"]: _from_row(row) for row in reversed(rows) if row["event"] == "opened"}
    for row in rows:
        record = records.get(row["alert_id"])
        if record is not None and row["event"] == "resolved":
            records[record.alert_id] = replace(record, resolved_at=record.resolved_at or row["at"])
        if record is not None and row["event"] == _DELIVERED:
            names = record.delivered.get(row["about"], frozenset()) | set(row["targets"])
            records[record.alert_id] = replace(record, delivered={**record.delivered, row["about"]: names})
    return sorted(records.values(), key=lambda record: (record.opened_at, record.alert.since, record.alert.key))


def record(
    settings: Settings,
    earlier: Sequence[AlertRecord],
    current: Sequence[Alert],
    unread: Collection[str],
    targets: Sequence[str],
) -> list[AlertRecord]:
    """Open the alerts that are not open yet, and resolve the open ones whose condition is gone; all in one commit.

    :param earlier: every alert so far.
    :param current: the alerts whose condition holds now.
    :param unread: the sources and metrics whose conditions are unknown: their alerts stay as they are.
    :param targets: the names of those to notify of the new alerts.
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
    resolved = {entry.alert_id for key, entry in open_alerts.items() if key not in by_key and entry.alert.contract not in unread}
    rows = [_to_row(entry) for entry in opened]
    rows += [{"alert_id": alert_id, "event": "resolved", "at": now} for alert_id in sorted(resolved)]
    _append(settings, rows)
    return [*(replace(entry, resolved_at=now) if entry.alert_id in resolved else entry for entry in earlier), *opened]


def record_delivery(settings: Settings, entry: AlertRecord, transition: Transition, targets: Sequence[str]) -> None:
    """Record the targets that have received the message of an alert's opening or resolution."""
    row = {"alert_id": entry.alert_id, "event": _DELIVERED, "about": transition, "targets": list(targets), "at": settings.clock()}
    _append(settings, [row])


def _append(settings: Settings, rows: list[dict[str, Any]]) -> None:
    if rows:
        table = pa.Table.from_pylist(rows, schema=_SCHEMA)
        table_io.append(locations.alerts(settings), table, options=settings.storage_options)


def _id(alert: Alert, occurrences: int) -> str:
    """The same for the same alert, also where two ticks find it at one time, or where the table was lost in between."""
    name = "\n".join([*alert.key, alert.since.isoformat(), f"{occurrences}"])
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _to_row(entry: AlertRecord) -> dict[str, Any]:
    alert = entry.alert
    return {
        "alert_id": entry.alert_id,
        "event": "opened",
        "at": entry.opened_at,
        "targets": list(entry.targets),
        "kind": alert.kind.value,
        "contract": alert.contract,
        "subject": alert.subject,
        "period": alert.period,
        "detail": alert.detail,
        "since": alert.since,
        "text": alert.text,
        "addressed_to": list(alert.addressed_to),
        "numbers": json.dumps(dict(alert.numbers), default=str),
    }


def _from_row(row: Mapping[str, Any]) -> AlertRecord:
    values = {name: row[name] for name in ("contract", "subject", "since", "text", "addressed_to", "period", "detail")}
    alert = Alert(kind=AlertKind(row["kind"]), numbers=json.loads(row["numbers"]), **values)
    return AlertRecord(row["alert_id"], alert, row["at"], row["targets"])
