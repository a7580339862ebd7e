"""Sending messages to targets in order, within a time limit, each recorded before the next is sent.

Alerts and notices share this loop and provide its messages. ``channels`` delivers a message to one target.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lakehouse.operations.channels import Message, Target


class AfterFailure(Enum):
    """Which messages a target still receives in this run after a failed delivery."""

    #: Messages are independent: a refused one does not delay the others.
    CONTINUE = "continue"
    #: Messages depend on their order, such as the opening of an alert and its resolution: the target waits for the next run.
    STOP = "stop"


@dataclass(frozen=True)
class PendingMessage:
    """A message, the targets that have not received it, and a function that records the names of those that have."""

    message: Message
    targets: Sequence[Target]
    record: Callable[[list[str]], None]


@dataclass(frozen=True)
class DeliveryFailure:
    """A message that a target did not take; ``reason`` is None if the time was up before the message was sent."""

    target: str
    reason: str | None


@dataclass
class DeliveryReport:
    """How many messages were delivered, each counted once per target, and which were not."""

    delivered: int = 0
    failures: list[DeliveryFailure] = field(default_factory=list)


def deliver(messages: Iterable[PendingMessage], after_failure: AfterFailure, seconds: float) -> DeliveryReport:
    """Send messages in order; a failure of one target does not affect the others.

    A process that dies between sending a message and recording it sends the message again, with the same ``message_id``
    (at-least-once delivery).

    :param seconds: the time limit, after which no further message is sent.
    """
    report, started = DeliveryReport(), monotonic()
    stopped: set[str] = set()
    for pending in messages:
        delivered = []
        for target in pending.targets:
            if target.name in stopped:
                continue
            if monotonic() - started >= seconds:
                stopped.add(target.name)
                report.failures.append(DeliveryFailure(target.name, None))
                continue
            try:
                target.send(pending.message)
            except Exception as problem:  # noqa: BLE001 (any failure of one target must not stop the others)
                report.failures.append(DeliveryFailure(target.name, f"{problem}"))
                if after_failure is AfterFailure.STOP:
                    stopped.add(target.name)
            else:
                delivered.append(target.name)
        if delivered:
            pending.record(delivered)
            report.delivered += len(delivered)
    return report
