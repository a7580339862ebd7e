"""``ops/alerts``: what people were told of. A row is what happened to an alert: it opened, somebody was told, it was resolved.

An alert is open from the row that says so until its condition is gone; when the same comes again it is another alert. Its
opening and its resolution are one message each to every target that was there when it opened. A delivery is recorded
behind it: what was delivered and not recorded is delivered again, under the same id.
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
from lakehouse.operations.alerts.alert import Alert, Kind

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
News = Literal["opened", "resolved"]


@dataclass(frozen=True)
class Recorded:
    """An alert that was opened.

    :param targets: who is told of it.
    :param told: of its opening and of its resolution, who has been told.
    """

    alert_id: str
    alert: Alert
    opened_at: datetime
    targets: Sequence[str]
    resolved_at: datetime | None = None
    told: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def waiting(self, news: News) -> list[str]:
        """The targets that have not been told of its opening, or of its resolution where there was one."""
        if news == "resolved" and self.resolved_at is None:
            return []
        return [name for name in self.targets if name not in self.told.get(news, ())]

    def message_id(self, news: News) -> str:
        """What a receiver knows a repetition by."""
        return f"{self.alert_id}:{news}"


def all_of(settings: Settings) -> list[Recorded]:
    """Every alert, oldest first."""
    found = table_io.read(locations.alerts(settings), _SCHEMA.names, None, settings.storage_options)
    rows = [] if found is None else sorted(found.to_pylist(), key=lambda row: row["at"])
    alerts = {row["alert_id"]: _recorded(row) for row in reversed(rows) if row["event"] == "opened"}
    for row in rows:
        one = alerts.get(row["alert_id"])
        if one is not None and row["event"] == "resolved":
            alerts[one.alert_id] = replace(one, resolved_at=one.resolved_at or row["at"])
        if one is not None and row["event"] == "told":
            names = one.told.get(row["about"], frozenset()) | set(row["targets"])
            alerts[one.alert_id] = replace(one, told={**one.told, row["about"]: names})
    return sorted(alerts.values(), key=lambda one: (one.opened_at, one.alert.since, one.alert.key))


def record(
    settings: Settings,
    known: Sequence[Recorded],
    found: Sequence[Alert],
    unread: Collection[str],
    targets: Sequence[str],
) -> list[Recorded]:
    """Open the alerts that are not open yet, and resolve the open ones that were not found again; all in one commit.

    :param known: every alert so far.
    :param found: what is the case now.
    :param unread: the sources and metrics of which it is not known what is the case: their alerts stay as they are.
    :param targets: who is to be told of the new ones.
    :returns: every alert.
    """
    now = settings.clock()
    there = {one.alert.key: one for one in known if one.resolved_at is None}
    earlier = Counter(one.alert.key for one in known)
    wanted = {alert.key: alert for alert in found}
    opened = [Recorded(_id(alert, earlier[key]), alert, now, list(targets)) for key, alert in wanted.items() if key not in there]
    gone = {one.alert_id for key, one in there.items() if key not in wanted and one.alert.contract not in unread}
    rows = [_opened(one) for one in opened]
    rows += [{"alert_id": alert_id, "event": "resolved", "at": now} for alert_id in sorted(gone)]
    _append(settings, rows)
    after = [replace(one, resolved_at=now) if one.alert_id in gone else one for one in known]
    return [*after, *opened]


def told(settings: Settings, one: Recorded, news: News, targets: Sequence[str]) -> None:
    """Record who has been told of an alert's opening or resolution."""
    row = {"alert_id": one.alert_id, "event": "told", "about": news, "targets": list(targets), "at": settings.clock()}
    _append(settings, [row])


def _append(settings: Settings, rows: list[dict[str, Any]]) -> None:
    if rows:
        table_io.append(locations.alerts(settings), pa.Table.from_pylist(rows, schema=_SCHEMA), options=settings.storage_options)


def _id(alert: Alert, earlier: int) -> str:
    """The same for the same alert, also where two ticks find it at one time, or where the table was lost in between."""
    name = "\n".join([*alert.key, alert.since.isoformat(), f"{earlier}"])
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _opened(one: Recorded) -> dict[str, Any]:
    alert = one.alert
    return {
        "alert_id": one.alert_id,
        "event": "opened",
        "at": one.opened_at,
        "targets": list(one.targets),
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


def _recorded(row: Mapping[str, Any]) -> Recorded:
    said = {name: row[name] for name in ("contract", "subject", "since", "text", "addressed_to", "period", "detail")}
    alert = Alert(kind=Kind(row["kind"]), numbers=json.loads(row["numbers"]), **said)
    return Recorded(row["alert_id"], alert, row["at"], row["targets"])
