"""Sends messages to targets in order, within a time limit; each delivery is recorded before the next message is sent.

Alerts and notices share this loop and provide the messages. ``channels`` delivers a message to one target.

The addresses of owners, stewards, consumers and the platform team, in one YAML file of the deployment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from time import monotonic, sleep
from typing import TYPE_CHECKING

from pydantic import Field

from lakehouse.contracts.base import Strict
from lakehouse.contracts.loader import load_model
from lakehouse.operations import channels
from lakehouse.settings import TargetAddress  # noqa: TC001 (pydantic reads it)

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterable, Mapping, Sequence

    from lakehouse.lake import Lake
    from lakehouse.operations.channels import Message, Target


class AddressFile(Strict):
    """The keys of the file."""

    owners: dict[str, list[TargetAddress]] = Field(default_factory=dict, description="By 'owner' of a contract.")
    stewards: dict[str, list[TargetAddress]] = Field(default_factory=dict, description="By name in 'stewards' of a source.")
    consumers: dict[str, list[TargetAddress]] = Field(default_factory=dict, description="By name in 'consumers' of a metric.")
    platform: list[TargetAddress] | None = Field(None, description="Who runs the deployment; default: LAKEHOUSE_ALERT_TARGETS.")
    escalate_after: timedelta = Field(
        timedelta(hours=1),
        ge=timedelta(0),
        description="How long an alert waits for its owner before the platform team gets it.",
    )


#: The names of a consumer's targets.
TargetsOf = Callable[[str], "Sequence[str]"]


@dataclass(frozen=True)
class Directory:
    """The targets of a deployment, by name, and the target names of owners, stewards, consumers and the platform team.

    :param owners: by the name of an owner or a steward.
    :param platform: the target names of the platform team.
    :param escalate_after: None if all have the same addresses.
    """

    targets: Mapping[str, Target]
    platform: Sequence[str]
    owners: Mapping[str, Sequence[str]] = field(default_factory=dict)
    consumers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    escalate_after: timedelta | None = None

    @staticmethod
    def of(targets: Iterable[Target]) -> Directory:
        """A directory with the same targets for everybody."""
        by_name = {target.name: target for target in targets}
        return Directory(by_name, list(by_name))

    def of_owners(self, owners: Iterable[str]) -> list[str]:
        """The targets of owners and stewards, without repetition; those of the platform team if none has an address."""
        names = dict.fromkeys(name for owner in owners for name in self.owners.get(owner, ()))
        return list(names or self.platform)

    def of_consumer(self, consumer: str) -> list[str]:
        """The targets of a consumer; those of the platform team if the consumer has no address."""
        return list(self.consumers.get(consumer) or self.platform)


def directory(lake: Lake, logger: logging.Logger | None = None) -> Directory:
    """The addresses of a deployment.

    :param logger: the logger of the target ``log``.
    :raises ContractError: if the file cannot be read, or has mistakes, each with its line and field.
    """
    if lake.settings.addresses is None:
        return Directory.of(channels.targets(lake, logger))
    file = load_model(lake.settings.addresses, AddressFile, "docs/alerts.md")
    by_name: dict[str, Target] = {}

    def names(addresses: Sequence[str]) -> list[str]:
        here = channels.targets(lake.with_settings(alert_targets=[*addresses]), logger)
        by_name.update({target.name: target for target in here})
        return [target.name for target in here]

    return Directory(
        by_name,
        names(lake.settings.alert_targets if file.platform is None else file.platform),
        {
            name: list(dict.fromkeys([*names(file.owners.get(name, [])), *names(file.stewards.get(name, []))]))
            for name in dict.fromkeys([*file.owners, *file.stewards])
        },
        {consumer: names(addresses) for consumer, addresses in file.consumers.items()},
        file.escalate_after,
    )


#: The pauses in seconds before failed messages are retried: for the second attempt, and for the third.
PAUSES = (1.0, 4.0)


class AfterFailure(Enum):
    """Whether a target still receives messages after a failed delivery, before the retry."""

    #: Messages are independent: a refused one does not delay the others.
    CONTINUE = "continue"
    #: Messages depend on their order, such as the opening of an alert and its resolution: the target waits.
    STOP = "stop"


@dataclass(frozen=True)
class PendingMessage:
    """A message, the targets that have not received it, and a function that records the names of those that have."""

    message: Message
    targets: Sequence[Target]
    record: Callable[[list[str]], None]


@dataclass(frozen=True)
class DeliveryFailure:
    """A message that a target refused; ``reason`` is None if the time limit was reached before sending."""

    target: str
    reason: str | None


@dataclass
class DeliveryReport:
    """The number of delivered messages, counted per target, and the failures after the last attempt."""

    delivered: int = 0
    failures: list[DeliveryFailure] = field(default_factory=list)


def deliver(messages: Iterable[PendingMessage], after_failure: AfterFailure, seconds: float) -> DeliveryReport:
    """Send messages in order; a failure of one target does not affect the others.

    Failed messages are retried after all other messages were sent, up to three attempts. Targets share the time: a slow or
    unresponsive target uses up only its own part.

    If a process dies between sending a message and recording it, the message is repeated with the same ``message_id``
    (at-least-once delivery).

    :param seconds: the time limit, after which no further message is sent.
    """
    report, started, waiting = DeliveryReport(), monotonic(), list(messages)
    for pause in (0.0, *PAUSES):
        left = seconds - (monotonic() - started)
        if pause and pause >= left:
            break
        sleep(pause)
        attempt = _Attempt(after_failure, left - pause)
        waiting = attempt.send(waiting)
        report.delivered += attempt.delivered
        report.failures = attempt.failures
        if not waiting:
            break
    return report


class _Attempt:
    """One attempt to send messages to all their targets."""

    def __init__(self, after_failure: AfterFailure, seconds: float) -> None:
        self.after_failure, self.seconds = after_failure, seconds
        self.delivered, self.failures = 0, list[DeliveryFailure]()

    def send(self, messages: Sequence[PendingMessage]) -> list[PendingMessage]:
        """Send messages, and return the messages that targets have not received, each for these targets."""
        spent = dict.fromkeys((target.name for pending in messages for target in pending.targets), 0.0)
        share = self.seconds / max(len(spent), 1)
        stopped: set[str] = set()
        waiting = []
        for pending in messages:
            received = []
            for target in pending.targets:
                if target.name in stopped:
                    continue
                if spent[target.name] >= share:
                    stopped.add(target.name)
                    self.failures.append(DeliveryFailure(target.name, None))
                    continue
                begun = monotonic()
                try:
                    target.send(pending.message)
                except Exception as problem:  # noqa: BLE001 (any failure of one target must not stop the others)
                    self.failures.append(DeliveryFailure(target.name, f"{problem}"))
                    if self.after_failure is AfterFailure.STOP:
                        stopped.add(target.name)
                else:
                    received.append(target.name)
                spent[target.name] += monotonic() - begun
            if received:
                pending.record(received)
                self.delivered += len(received)
            if others := [target for target in pending.targets if target.name not in received]:
                waiting.append(PendingMessage(pending.message, others, pending.record))
        return waiting
