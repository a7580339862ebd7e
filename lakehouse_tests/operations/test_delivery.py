"""The loop that sends messages: its rules for a target that fails, and for a deadline that has passed."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from lakehouse.operations.channels import DeliveryError, Message
from lakehouse.operations.delivery import AfterFailure, DeliveryFailure, DeliveryReport, PendingMessage, deliver


@dataclass
class Receiver:
    """A target that refuses some messages."""

    name: str
    refuses: frozenset[str] = frozenset()
    received: list[str] = field(default_factory=list)

    def send(self, message: Message) -> None:
        if message.message_id in self.refuses:
            raise DeliveryError(f"{self.name} refused {message.message_id}")
        self.received.append(message.message_id)


def sent(
    receivers: list[Receiver], rule: AfterFailure, seconds: float = inf
) -> tuple[DeliveryReport, list[tuple[str, list[str]]]]:
    """Three messages to all receivers: the report, and what was recorded."""
    records: list[tuple[str, list[str]]] = []
    messages = [
        PendingMessage(Message(name, name, name, [], {}), receivers, lambda names, name=name: records.append((name, names)))
        for name in ("first", "second", "third")
    ]
    return deliver(messages, rule, seconds), records


def test_a_refused_message_holds_up_no_other_where_messages_stand_for_themselves() -> None:
    failing, other = Receiver("failing", frozenset({"second"})), Receiver("other")
    report, records = sent([failing, other], AfterFailure.CONTINUE)
    assert (failing.received, other.received) == (["first", "third"], ["first", "second", "third"])
    assert report == DeliveryReport(5, [DeliveryFailure("failing", "failing refused second")])
    assert records == [("first", ["failing", "other"]), ("second", ["other"]), ("third", ["failing", "other"])]


def test_a_target_that_failed_waits_where_messages_depend_on_their_order() -> None:
    failing, other = Receiver("failing", frozenset({"second"})), Receiver("other")
    report, records = sent([failing, other], AfterFailure.STOP)
    assert (failing.received, other.received) == (["first"], ["first", "second", "third"])
    assert report == DeliveryReport(4, [DeliveryFailure("failing", "failing refused second")])
    assert records == [("first", ["failing", "other"]), ("second", ["other"]), ("third", ["other"])]


def test_when_the_time_is_up_nothing_is_sent_and_each_target_is_reported_once() -> None:
    receiver = Receiver("slow")
    for rule in AfterFailure:
        assert sent([receiver], rule, 0) == (DeliveryReport(0, [DeliveryFailure("slow", None)]), [])
    assert receiver.received == []
