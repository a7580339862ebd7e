"""The loop that sends messages: its rules for a target that fails, and for a deadline that has passed."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

import pytest

from lakehouse.operations import delivery
from lakehouse.operations.delivery import (
    AfterFailure,
    DeliveryError,
    DeliveryFailure,
    DeliveryReport,
    Message,
    PendingMessage,
    deliver,
)


@dataclass
class Receiver:
    """A target that refuses some messages, a number of times each."""

    name: str
    refuses: frozenset[str] = frozenset()
    refusals: float = inf
    takes: float = 0
    clock: list[float] = field(default_factory=lambda: [0.0])
    attempts: list[str] = field(default_factory=list)
    received: list[str] = field(default_factory=list)

    def send(self, message: Message) -> None:
        self.clock[0] += self.takes
        self.attempts.append(message.message_id)
        if message.message_id in self.refuses and self.attempts.count(message.message_id) <= self.refusals:
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
    assert failing.attempts.count("second") == 3


def test_a_target_that_failed_waits_where_messages_depend_on_their_order() -> None:
    failing, other = Receiver("failing", frozenset({"second"})), Receiver("other")
    report, records = sent([failing, other], AfterFailure.STOP)
    assert (failing.received, other.received) == (["first"], ["first", "second", "third"])
    assert report == DeliveryReport(4, [DeliveryFailure("failing", "failing refused second")])
    assert records == [("first", ["failing", "other"]), ("second", ["other"]), ("third", ["other"])]
    assert failing.attempts == ["first", "second", "second", "second"]


@pytest.mark.parametrize("rule", AfterFailure)
def test_what_failed_is_tried_again_after_everything_else_and_recorded_once(rule: AfterFailure) -> None:
    failing, other = Receiver("failing", frozenset({"second"}), refusals=2), Receiver("other")
    report, records = sent([failing, other], rule)
    assert report == DeliveryReport(6, [])
    assert sorted(failing.received) == ["first", "second", "third"]
    assert failing.received == (["first", "second", "third"] if rule is AfterFailure.STOP else ["first", "third", "second"])
    delivered = [(name, receiver) for name, receivers in records for receiver in receivers]
    assert len(delivered) == len(set(delivered)) == 6


def test_pauses_grow_and_end_with_the_time(monkeypatch) -> None:
    now, pauses = [0.0], []

    def pause(seconds: float) -> None:
        now[0] += seconds
        pauses.append(seconds)

    monkeypatch.setattr(delivery, "PAUSES", (1.0, 4.0))
    monkeypatch.setattr(delivery, "monotonic", lambda: now[0])
    monkeypatch.setattr(delivery, "sleep", pause)
    sent([Receiver("failing", frozenset({"first"}))], AfterFailure.STOP, 30)
    assert pauses == [0.0, 1.0, 4.0]
    pauses.clear()
    sent([Receiver("failing", frozenset({"first"}))], AfterFailure.STOP, 3)
    assert pauses == [0.0, 1.0], "four more seconds are not left"
    pauses.clear()
    sent([Receiver("sound")], AfterFailure.STOP, 30)
    assert pauses == [0.0]


def test_a_slow_target_uses_up_its_own_time_only(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(delivery, "monotonic", lambda: now[0])
    slow, quick = Receiver("slow", takes=20.0, clock=now), Receiver("quick")
    report, _ = sent([slow, quick], AfterFailure.STOP, 30)
    assert quick.received == ["first", "second", "third"]
    assert slow.received == ["first", "second"], "half of the time, and then what is left"
    assert report.failures == [DeliveryFailure("slow", None)]


def test_when_the_time_is_up_nothing_is_sent_and_each_target_is_reported_once() -> None:
    receiver = Receiver("slow")
    for rule in AfterFailure:
        assert sent([receiver], rule, 0) == (DeliveryReport(0, [DeliveryFailure("slow", None)]), [])
    assert receiver.received == []
