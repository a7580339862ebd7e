"""The sensor ``alerts``: looks at what people should be told of, tells them, and remembers that it has.

An alert is recorded before anybody is told, and who was told behind it: a tick that was stopped in between is made up for
by the next one, which may tell a target again under the same message id.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, get_args

import dagster as dg

from lakehouse.delta.table_cache import with_table_cache
from lakehouse.errors import LakehouseError
from lakehouse.operations.alerts import log as alert_log
from lakehouse.operations.alerts import signals
from lakehouse.operations.channels import Message, targets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakehouse.contracts import Catalog
    from lakehouse.operations.alerts.alert import Alert
    from lakehouse.operations.alerts.log import News, Recorded
    from lakehouse.operations.channels import Target
    from lakehouse.settings import Settings

#: Dagster ends a tick after 60 seconds; what was not sent by then is sent by the next ones.
_SENDING_SECONDS = 30.0


class UnreadError(LakehouseError):
    """Sources or metrics whose alerts could not be looked at. Its text tells which, and why."""


@dataclass(frozen=True)
class Looked:
    """What a look has found: how many alerts opened, were resolved and are open; who was not told; what could not be read."""

    opened: int
    resolved: int
    still_open: int
    undelivered: Sequence[str]
    unread: Sequence[str]

    def __str__(self) -> str:
        counts = f"{self.opened} opened, {self.resolved} resolved, {self.still_open} open"
        return "; ".join([counts, *self.undelivered])


def alerts_sensor(settings: Settings, catalog: Catalog) -> dg.SensorDefinition:
    """Tells the targets of ``LAKEHOUSE_ALERT_TARGETS`` when an alert opens and when it is resolved."""

    @dg.sensor(
        name="alerts",
        minimum_interval_seconds=settings.alert_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Late rows, restatements, held and overdue numbers, values beyond their bounds: owners are told.",
    )
    def sense(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        cached = with_table_cache(settings)
        state = signals.state_of(cached, catalog)
        if state == context.cursor:
            return dg.SkipReason("nothing has changed since the last look")
        looked = look(cached, catalog, targets(settings, context.log))
        if looked.unread:
            raise UnreadError("; ".join(looked.unread))
        if not looked.undelivered:
            context.update_cursor(state)
        return dg.SkipReason(f"{looked}")

    return sense


def look(settings: Settings, catalog: Catalog, to: Sequence[Target]) -> Looked:
    """Open and resolve alerts as the tables are now, and tell everybody who has not been told."""
    readings = [(name, signals.of_source(settings, contract)) for name, contract in catalog.sources.items()]
    readings += [(name, signals.of_metric(settings, catalog, metric)) for name, metric in catalog.metrics.items()]
    unread: dict[str, str] = {}
    found = [alert for name, reading in readings for alert in _read(name, reading, unread)]
    known = alert_log.all_of(settings)
    everything = alert_log.record(settings, known, found, unread.keys(), [target.name for target in to])
    before, after = _open(known), _open(everything)
    undelivered = _deliver(settings, everything, to)
    return Looked(len(after - before), len(before - after), len(after), undelivered, list(unread.values()))


def _read(name: str, reading: Iterable[Alert], unread: dict[str, str]) -> list[Alert]:
    """What a source or metric gives to be told of; where that cannot be read, why is put into ``unread``."""
    try:
        return list(reading)
    except Exception as problem:  # noqa: BLE001 (one contract's trouble does not silence the others; the tick fails behind them)
        unread[name] = f"the alerts of {name} could not be looked at: {problem}"
        return []


def message(one: Recorded, news: News) -> Message:
    """What people are told of an alert that opened or was resolved."""
    alert = one.alert
    said: dict[str, Any] = {"status": news, "kind": alert.kind.value, "contract": alert.contract, "subject": alert.subject}
    said |= {"period": alert.period, "detail": alert.detail, "numbers": dict(alert.numbers)}
    said |= {"since": alert.since, "opened_at": one.opened_at, "resolved_at": one.resolved_at if news == "resolved" else None}
    subject, text = f"Alert: {alert.title}", alert.text
    if news == "resolved":
        subject = f"Resolved: {alert.title}"
        text = f"This is no longer so since {one.resolved_at:%Y-%m-%d %H:%M} UTC, or no longer looked at: {alert.text}"
    return Message(one.message_id(news), subject, text, list(alert.addressed_to), said)


def _open(recorded: Iterable[Recorded]) -> set[str]:
    return {one.alert_id for one in recorded if one.resolved_at is None}


def _deliver(settings: Settings, recorded: Sequence[Recorded], to: Sequence[Target]) -> list[str]:
    """Tell every target what it has not been told, oldest first; one that fails is left alone until the next tick.

    :returns: who was not told, and why.
    """
    failed: dict[str, str] = {}
    until = monotonic() + _SENDING_SECONDS
    for one in recorded:
        for news in get_args(alert_log.News):
            waiting = [target for target in to if target.name in one.waiting(news) and target.name not in failed]
            told = [target.name for target in waiting if _sent(target, message(one, news), until, failed)]
            if told:
                alert_log.told(settings, one, news, told)
    return list(failed.values())


def _sent(target: Target, news: Message, until: float, failed: dict[str, str]) -> bool:
    """Whether a target took a message; where it did not, or its time was up, why is put into ``failed``."""
    if monotonic() > until:
        failed[target.name] = f"{target.name} is told the rest by the next tick"
        return False
    try:
        target.send(news)
    except Exception as problem:  # noqa: BLE001 (whatever happens to one target, the others are told)
        failed[target.name] = f"{problem}; it is told again by the next tick"
        return False
    return True
