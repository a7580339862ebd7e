"""The messages about alerts: about a single alert, or many of one kind (a digest). ``outbox`` selects them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.operations.alerts.alert import addressees
from lakehouse.operations.channels import Message
from lakehouse.text import format_moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.operations.alerts.log import AlertRecord, Transition

_WORDS: dict[Transition, str] = {"opened": "Alert", "escalated": "Escalated", "resolved": "Resolved"}
_SHOWN = 20


def message(record: AlertRecord, transition: Transition) -> Message:
    """The message about an alert that opened, escalated or was resolved."""
    alert, text = record.alert, record.alert.text
    data: dict[str, Any] = {"status": transition, "kind": alert.kind.value, "contract": alert.contract, "subject": alert.subject}
    data |= {"period": alert.period, "detail": alert.detail, "numbers": dict(alert.numbers)}
    data |= {"since": alert.since, "opened_at": record.opened_at, "resolved_at": None, "alert_id": record.alert_id}
    if transition == "escalated":
        text = f"Open since {format_moment(record.opened_at)}, and nobody has acknowledged it: {text}"
    if transition == "resolved" and record.resolved_at is not None:
        data["resolved_at"] = record.resolved_at
        text = f"Since {format_moment(record.resolved_at)} this no longer applies or is no longer checked: {text}"
    subject = f"{_WORDS[transition]}: {alert.title}"
    return Message(record.message_id(transition), subject, text, list(alert.addressed_to), data)


def digest(message_id: str, records: Sequence[AlertRecord], transition: Transition) -> Message:
    """A message about many alerts of one kind; its text names the first ones, its data all."""
    kind = records[0].alert.kind.value
    shown = "\n".join(f"- {record.alert.title} (since {format_moment(record.alert.since)})" for record in records[:_SHOWN])
    more = f"\nand {len(records) - _SHOWN:,} more" if len(records) > _SHOWN else ""
    also = " --all" if transition == "resolved" else ""
    text = f"{shown}{more}\n'lakehouse alerts list --kind {kind}{also}' shows them with their texts."
    listed = [
        {
            "alert_id": record.alert_id,
            "contract": record.alert.contract,
            "subject": record.alert.subject,
            "period": record.alert.period,
            "detail": record.alert.detail,
            "since": record.alert.since,
        }
        for record in records
    ]
    subject = f"{_WORDS[transition]}: {len(records):,} alerts of the kind {kind}"
    addressed_to = addressees(*(owner for record in records for owner in record.alert.addressed_to))
    return Message(message_id, subject, text, addressed_to, {"status": transition, "kind": kind, "alerts": listed})
