"""The recipients of an alert, and the times: its owners first, the platform team if nobody takes care of it.

Plain rules about the record of an alert; ``operations.addresses`` has the addresses, ``outbox`` sends the messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from lakehouse.operations.addresses import Directory
    from lakehouse.operations.alerts.log import AlertRecord


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
    """The next time at which an alert escalates, or at which messages about a snoozed alert are sent."""
    times = [
        at for record in records for at in (escalates_at(record, directory), record.snoozed_until) if at is not None and at > now
    ]
    return min(times, default=None)


def _further(record: AlertRecord, directory: Directory) -> list[str]:
    """The targets of the platform team that were not notified when the alert opened."""
    return [name for name in directory.platform if name not in record.targets]
