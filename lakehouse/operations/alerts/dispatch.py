"""One run of alerting: opens, escalates and resolves alerts by the present facts, and sends the outstanding messages.

An alert is recorded before it is sent, and each delivery afterwards. If a run is stopped in between, the next run continues and
may repeat a message with the same id. The rules are in ``rules`` and the other rule modules; ``signals`` reads their facts,
``log`` has the record, ``outbox`` the due messages. The sensor ``alerts`` starts each run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.operations.alerts import log, outbox, routing, run_rules, signals
from lakehouse.operations.alerts.run_rules import RunOutcomes
from lakehouse.operations.alerts.streams import signals as stream_signals
from lakehouse.operations.delivery import AfterFailure, DeliveryFailure, deliver

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from lakehouse.contracts import Catalog
    from lakehouse.operations.addresses import Directory
    from lakehouse.operations.alerts.alert import Alert
    from lakehouse.operations.alerts.log import AlertRecord
    from lakehouse.settings import Settings

#: Returns the failed runs and checks, given the open alerts.
OutcomesOf = Callable[["Sequence[Alert]"], RunOutcomes]
_RUNS = "runs and checks"
#: Dagster ends a tick after 60 seconds; the next ticks send the remaining messages.
_SENDING_SECONDS = 30.0


@dataclass(frozen=True)
class AlertDispatch:
    """The result of a run: the numbers of opened, resolved and open alerts.

    :param due_at: the time of the next action that is due without a change: an escalation, or the end of a snooze.
    :param undelivered: the reason for each target that did not receive all messages.
    :param unread: the reason for each source or metric whose tables could not be read; its alerts are unchanged.
    """

    opened: int
    resolved: int
    still_open: int
    undelivered: Sequence[str]
    unread: Sequence[str]
    due_at: datetime | None = None

    def __str__(self) -> str:
        counts = f"{self.opened} opened, {self.resolved} resolved, {self.still_open} open"
        return "; ".join([counts, *self.undelivered])


def dispatch_alerts(
    settings: Settings, catalog: Catalog, directory: Directory, outcomes_of: OutcomesOf | None = None
) -> AlertDispatch:
    """Open and resolve alerts by the present tables and runs, and send every target its outstanding messages.

    :param directory: the targets of owners, consumers and the platform team.
    :param outcomes_of: returns the failed runs and checks, given the open alerts; None leaves their alerts unchanged.
    """
    sources = [(name, signals.of_source(settings, contract)) for name, contract in catalog.sources.items()]
    metrics = [(name, signals.of_metric(settings, catalog, metric)) for name, metric in catalog.metrics.items()]
    topics = [(name, stream_signals.of_topic(settings, contract)) for name, contract in catalog.sources.items()]
    unread: dict[str, str] = {}
    current = [alert for name, alerts in (*sources, *metrics, *topics) for alert in _read(name, alerts, unread)]
    earlier = log.all_of(settings)
    outcomes = _outcomes(outcomes_of, earlier, unread)
    current += run_rules.alerts(catalog, outcomes)

    def stays(alert: Alert) -> bool:
        return alert.contract in unread or not outcomes.know(alert)

    records = log.record(settings, earlier, current, stays, lambda alert: directory.of_owners(alert.addressed_to))
    before, after = _open(earlier), _open(records)
    now = settings.clock()
    if escalated := routing.escalations(records, directory, now):
        log.record_escalations(settings, escalated)
        records = log.all_of(settings)
    report = deliver(outbox.pending(settings, records, directory.targets), AfterFailure.STOP, _SENDING_SECONDS)
    undelivered = [_sentence(failure) for failure in report.failures]
    due_at = routing.next_due(records, directory, now)
    return AlertDispatch(len(after - before), len(before - after), len(after), undelivered, list(unread.values()), due_at)


def _read(name: str, alerts: Iterable[Alert], unread: dict[str, str]) -> list[Alert]:
    """The alerts of a source or metric; if its tables cannot be read, the reason is added to ``unread``."""
    try:
        return list(alerts)
    except Exception as problem:  # noqa: BLE001 (one contract's problem does not stop the others; the tick fails afterwards)
        unread[name] = f"the alerts of {name} could not be determined: {problem}"
        return []


def _outcomes(outcomes_of: OutcomesOf | None, earlier: Iterable[AlertRecord], unread: dict[str, str]) -> RunOutcomes:
    """The failed runs and checks; empty if they cannot be read, with the reason added to ``unread``."""
    if outcomes_of is None:
        return RunOutcomes()
    try:
        return outcomes_of([record.alert for record in earlier if record.resolved_at is None])
    except Exception as problem:  # noqa: BLE001 (alerts that follow from tables do not depend on it; the tick fails afterwards)
        unread[_RUNS] = f"the alerts of {_RUNS} could not be determined: {problem}"
        return RunOutcomes()


def _open(records: Iterable[AlertRecord]) -> set[str]:
    return {record.alert_id for record in records if record.resolved_at is None}


def _sentence(failure: DeliveryFailure) -> str:
    if failure.reason is None:
        return f"{failure.target} receives the rest at the next tick"
    return f"{failure.reason}; it is sent again at the next tick"
