"""One run of alerting: opens, escalates and resolves alerts by the present facts, and sends the outstanding messages.

A message is about a single alert, or about many of one kind (a digest). A digest is recorded before it is sent, so that it is the
same message if it is repeated after a failure. The recipients of an alert are its owners first, and the platform team if nobody
takes care of it. ``log`` has the record, ``operations.delivery`` sends.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from lakehouse.operations.alerts import input_signals as stream_signals
from lakehouse.operations.alerts import log, run_rules, signals
from lakehouse.operations.alerts.alert import addressees
from lakehouse.operations.alerts.run_rules import RunOutcomes
from lakehouse.operations.delivery import AfterFailure, DeliveryFailure, Message, PendingMessage, deliver
from lakehouse.text import format_moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake
    from lakehouse.operations.alerts.alert import Alert, AlertKind
    from lakehouse.operations.alerts.log import AlertRecord, Transition
    from lakehouse.operations.delivery import Directory, Target


def is_snoozed(record: AlertRecord, now: datetime) -> bool:
    """Whether messages about an alert are suppressed now."""
    return record.snoozed_until is not None and now < record.snoozed_until


def escalates_at(record: AlertRecord, directory: Directory) -> datetime | None:
    """The time at which an alert escalates to the platform team; None if it does not, or already has.

    An acknowledged alert does not escalate. A snoozed alert escalates when the snooze ends, or at its regular time if that is
    later.
    """
    if directory.escalate_after is None or record.acknowledged or record.resolved_at or record.escalated_at:
        return None
    if not _further(record, directory):
        return None
    due = record.opened_at + directory.escalate_after
    return due if record.snoozed_until is None else max(due, record.snoozed_until)


def escalations(records: Iterable[AlertRecord], directory: Directory, now: datetime) -> Mapping[str, Sequence[str]]:
    """The targets to which alerts escalate now, by alert."""
    due = {record.alert_id: (record, escalates_at(record, directory)) for record in records}
    return {name: _further(record, directory) for name, (record, at) in due.items() if at is not None and at <= now}


def next_due(records: Iterable[AlertRecord], directory: Directory, now: datetime) -> datetime | None:
    """The next time at which an alert escalates, is sent again, or at which messages about a snoozed alert are sent."""
    times = [
        at
        for record in records
        for at in (escalates_at(record, directory), record.snoozed_until, _sent_again_at(record))
        if at is not None and at > now
    ]
    return min(times, default=None)


def _sent_again_at(record: AlertRecord) -> datetime | None:
    return record.sent_again_at if record.has_grown and record.resolved_at is None else None


def _further(record: AlertRecord, directory: Directory) -> list[str]:
    """The targets of the platform team that were not notified when the alert opened."""
    return [name for name in directory.platform if name not in record.targets]


_WORDS: dict[Transition, str] = {"opened": "Alert", "escalated": "Escalated", "grown": "More", "resolved": "Resolved"}
_SHOWN = 20


def message(record: AlertRecord, transition: Transition) -> Message:
    """The message about an alert that opened, escalated, grew or was resolved."""
    alert = record.as_sent(transition)
    text = alert.text
    data: dict[str, Any] = {"status": transition, "kind": alert.kind.value, "contract": alert.contract, "subject": alert.subject}
    data |= {"period": alert.period, "detail": alert.detail, "numbers": dict(alert.numbers)}
    data |= {"since": alert.since, "opened_at": record.opened_at, "resolved_at": None, "alert_id": record.alert_id}
    if transition == "escalated":
        text = f"Open since {format_moment(record.opened_at)}, and nobody has acknowledged it: {text}"
    if transition == "grown":
        text = f"More rows have begun to wait since the last message; open since {format_moment(record.opened_at)}. {text}"
    if transition == "resolved" and record.resolved_at is not None:
        data["resolved_at"] = record.resolved_at
        text = f"Since {format_moment(record.resolved_at)} this no longer applies or is no longer checked: {text}"
    subject = f"{_WORDS[transition]}: {alert.title}"
    return Message(record.message_id(transition), subject, text, list(alert.addressed_to), data)


def digest(message_id: str, records: Sequence[AlertRecord], transition: Transition) -> Message:
    """A message about many alerts of one kind; its text names the first ones, its data all."""
    kind, alerts = records[0].alert.kind.value, [record.as_sent(transition) for record in records]
    shown = "\n".join(f"- {alert.title} (since {format_moment(alert.since)})" for alert in alerts[:_SHOWN])
    more = f"\nand {len(records) - _SHOWN:,} more" if len(records) > _SHOWN else ""
    also = " --all" if transition == "resolved" else ""
    text = f"{shown}{more}\n'lakehouse alerts list --kind {kind}{also}' shows them with their texts."
    listed = [
        {
            "alert_id": record.alert_id,
            "contract": alert.contract,
            "subject": alert.subject,
            "period": alert.period,
            "detail": alert.detail,
            "since": alert.since,
        }
        for record, alert in zip(records, alerts)
    ]
    subject = f"{_WORDS[transition]}: {len(records):,} alerts of the kind {kind}"
    addressed_to = addressees(*(owner for alert in alerts for owner in alert.addressed_to))
    return Message(message_id, subject, text, addressed_to, {"status": transition, "kind": kind, "alerts": listed})


#: Up to this many alerts of a kind are sent to a target individually.
SINGLY = 5


@dataclass
class _Bundle:
    """The alerts of a message, and the targets that have not received it."""

    members: dict[str, AlertRecord] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)

    def add(self, record: AlertRecord, target: Target) -> None:
        self.members[record.alert_id] = record
        self.targets[target.name] = target


def pending(lake: Lake, records: Sequence[AlertRecord], targets: Mapping[str, Target]) -> list[PendingMessage]:
    """The messages that targets have not received: openings, escalations, growth, resolutions; the oldest alert first.

    No message is sent about a snoozed alert, or to a target that is no longer configured.
    """
    now = lake.now()
    awake = [record for record in records if not is_snoozed(record, now)]
    return [message for transition in get_args(log.Transition) for message in _of(lake, awake, transition, targets)]


def _of(
    lake: Lake, records: Sequence[AlertRecord], transition: Transition, targets: Mapping[str, Target]
) -> Iterator[PendingMessage]:
    """The messages about a transition."""
    singles, digests = defaultdict[str, _Bundle](_Bundle), defaultdict[str, _Bundle](_Bundle)
    undecided: dict[tuple[str, AlertKind, str], list[AlertRecord]] = defaultdict(list)
    for (name, known), waiting in _by_target(records, transition, targets).items():
        # The rest of a digest after one of its alerts was snoozed is another message.
        if known is not None and known == _digest_id(waiting, transition):
            for record in waiting:
                digests[known].add(record, targets[name])
        else:
            for record in waiting:
                undecided[name, record.alert.kind, record.occasion(transition)].append(record)
    fresh: set[str] = set()
    for (name, *_), waiting in undecided.items():
        digest_id = _digest_id(waiting, transition) if len(waiting) > SINGLY else None
        fresh |= {digest_id} if digest_id else set()
        for record in waiting:
            bundle = digests[digest_id] if digest_id else singles[record.alert_id]
            bundle.add(record, targets[name])
    log.record_digests(lake, {key: _as_recorded(digests[key], transition) for key in sorted(fresh)})
    for bundle in singles.values():
        (record,) = bundle.members.values()
        delivered = partial(log.record_delivery, lake, [record], transition)
        yield PendingMessage(message(record, transition), [*bundle.targets.values()], delivered)
    for key, bundle in digests.items():
        members = [*bundle.members.values()]
        delivered = partial(log.record_delivery, lake, members, transition, digest=key)
        yield PendingMessage(digest(key, members, transition), [*bundle.targets.values()], delivered)


def _as_recorded(bundle: _Bundle, transition: Transition) -> tuple[str, Sequence[str], Sequence[str]]:
    """The occasion of a digest, which its alerts share, its targets, and the ids of its alerts."""
    occasion = next(iter(bundle.members.values())).occasion(transition)
    return occasion, [*bundle.targets], [*bundle.members]


def _by_target(
    records: Sequence[AlertRecord], transition: Transition, targets: Mapping[str, Target]
) -> Mapping[tuple[str, str | None], list[AlertRecord]]:
    """The alerts that a target has not received, by the target and by the digest in which they were recorded, if any."""
    waiting: dict[tuple[str, str | None], list[AlertRecord]] = defaultdict(list)
    for record in records:
        for name in record.waiting(transition):
            if name in targets:
                waiting[name, record.digests.get((record.occasion(transition), name))].append(record)
    return waiting


def _digest_id(records: Sequence[AlertRecord], transition: Transition) -> str:
    """The id of a digest, which is the same for the same alerts."""
    members = "\n".join(sorted(record.alert_id for record in records))
    return f"{hashlib.sha256(members.encode()).hexdigest()[:16]}:{records[0].occasion(transition)}"


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


def dispatch_alerts(lake: Lake, catalog: Catalog, directory: Directory, outcomes_of: OutcomesOf | None = None) -> AlertDispatch:
    """Open and resolve alerts by the present tables and runs, and send every target its outstanding messages.

    :param directory: the targets of owners, consumers and the platform team.
    :param outcomes_of: returns the failed runs and checks, given the open alerts; None leaves their alerts unchanged.
    """
    sources = [(name, signals.of_source(lake, contract)) for name, contract in catalog.sources.items()]
    metrics = [(name, signals.of_metric(lake, catalog, metric)) for name, metric in catalog.metrics.items()]
    topics = [(name, stream_signals.of_topic(lake, contract)) for name, contract in catalog.sources.items()]
    unread: dict[str, str] = {}
    current = [alert for name, alerts in (*sources, *metrics, *topics) for alert in _read(name, alerts, unread)]
    earlier = log.all_of(lake)
    outcomes = _outcomes(outcomes_of, earlier, unread)
    current += run_rules.alerts(catalog, outcomes)

    def stays(alert: Alert) -> bool:
        return alert.contract in unread or not outcomes.know(alert)

    records = log.record(lake, earlier, current, stays, lambda alert: directory.of_owners(alert.addressed_to))
    before, after = _open(earlier), _open(records)
    now = lake.now()
    if escalated := escalations(records, directory, now):
        log.record_escalations(lake, escalated)
        records = log.all_of(lake)
    report = deliver(pending(lake, records, directory.targets), AfterFailure.STOP, _SENDING_SECONDS)
    undelivered = [_sentence(failure) for failure in report.failures]
    due_at = next_due(records, directory, now)
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
