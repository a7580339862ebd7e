"""Which messages are due: many alerts of a kind are one, and each delivery is recorded, whatever is stopped in between."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.operations.alerts import log as alert_log
from lakehouse.operations.alerts import outbox
from lakehouse.operations.alerts.alert import Alert, AlertKind
from lakehouse.operations.channels import DeliveryError
from lakehouse.operations.delivery import AfterFailure, Directory, deliver
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from lakehouse.lake import Lake
    from lakehouse.operations.alerts.log import AlertRecord
    from lakehouse.operations.channels import Message

NOON = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)


@dataclass
class Box:
    name: str
    is_broken: bool = False
    messages: list[Message] = field(default_factory=list)

    def send(self, message: Message) -> None:
        if self.is_broken:
            raise DeliveryError(f"{self.name} is broken")
        self.messages.append(message)

    @property
    def subjects(self) -> list[str]:
        return [message.subject for message in self.messages]


def overdue(number: int, owner: str = "anna") -> Alert:
    return Alert(AlertKind.OVERDUE, "revenue", "revenue", NOON, f"{number} is overdue", [owner], {}, f"day {number:04}")


@dataclass
class Alerting:
    """Ticks with given conditions."""

    lake: Lake
    boxes: list[Box]
    directory: Directory

    def tick(self, *conditions: Alert, hours: float = 0) -> list[AlertRecord]:
        self.lake.settings.now = NOON + hours * HOUR
        known = alert_log.all_of(self.lake)
        alert_log.record(
            self.lake, known, conditions, lambda _: False, lambda alert: self.directory.of_owners(alert.addressed_to)
        )
        records = alert_log.all_of(self.lake)
        alert_log.record_escalations(self.lake, outbox.escalations(records, self.directory, self.lake.now()))
        self.send()
        return alert_log.all_of(self.lake)

    def send(self) -> None:
        messages = outbox.pending(self.lake, alert_log.all_of(self.lake), self.directory.targets)
        deliver(messages, AfterFailure.STOP, 30)


def alerting(lake: Lake, **owners: list[str]) -> tuple[Alerting, dict[str, Box]]:
    boxes = {name: Box(name) for name in ("anna", "ben", "team")}
    directory = Directory(boxes, ["team"], owners or {"anna": ["anna"], "ben": ["ben"]}, escalate_after=HOUR)
    return Alerting(lake, [*boxes.values()], directory), boxes


def test_a_thousand_overdue_numbers_are_one_message_and_a_thousand_deliveries(lake: Lake) -> None:
    alerts, boxes = alerting(lake)
    records = alerts.tick(*map(overdue, range(1000)))
    [message] = boxes["anna"].messages
    assert message.subject == "Alert: 1,000 alerts of the kind overdue"
    assert "- a number was not finalized: revenue day 0000 (since 2024-02-01 12:00 UTC)" in message.text
    assert message.text.endswith("and 980 more\n'lakehouse alerts list --kind overdue' shows them with their texts.")
    assert {listed["period"] for listed in message.data["alerts"]} == {f"day {number:04}" for number in range(1000)}
    assert {listed["alert_id"] for listed in message.data["alerts"]} == {record.alert_id for record in records}
    assert all(record.delivered["opened"] == {"anna"} for record in records)
    table = table_io.open_table(locations.alerts(lake))
    assert table is not None
    assert table.version() == 3, "opened, which digest, and delivered: a commit each"
    alerts.tick()
    assert boxes["anna"].subjects[1:] == ["Resolved: 1,000 alerts of the kind overdue"]
    assert "--all" in boxes["anna"].messages[1].text


def test_a_few_are_sent_one_by_one_and_each_kind_and_owner_by_itself(lake: Lake) -> None:
    alerts, boxes = alerting(lake)
    held = [replace(overdue(number), kind=AlertKind.HELD) for number in range(outbox.SINGLY)]
    alerts.tick(*held, *map(overdue, range(outbox.SINGLY + 1)), *(overdue(number, "ben") for number in range(100, 102)))
    assert boxes["anna"].subjects == [f"Alert: a number is held: revenue day {number:04}" for number in range(5)] + [
        "Alert: 6 alerts of the kind overdue"
    ]
    assert len(boxes["ben"].messages) == 2
    assert boxes["team"].messages == []


def test_a_digest_that_was_not_delivered_is_the_same_one_when_more_alerts_have_opened(lake: Lake) -> None:
    alerts, boxes = alerting(lake)
    boxes["anna"].is_broken = True
    alerts.tick(*map(overdue, range(10)))
    boxes["anna"].is_broken = False
    alerts.tick(*map(overdue, range(30)), hours=0.5)
    assert boxes["anna"].subjects == ["Alert: 10 alerts of the kind overdue", "Alert: 20 alerts of the kind overdue"]
    named = [alert["alert_id"] for message in boxes["anna"].messages for alert in message.data["alerts"]]
    assert len(named) == len(set(named)) == 30


class Stopped(BaseException):
    """What SIGKILL is to a test."""


def test_a_digest_that_was_sent_and_not_recorded_is_sent_again_under_its_id(lake: Lake, monkeypatch) -> None:
    alerts, boxes = alerting(lake)

    def stop(*_: Any, **__: Any) -> None:
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(alert_log, "record_delivery", stop)
        with pytest.raises(Stopped):
            alerts.tick(*map(overdue, range(10)))
    alerts.tick(*map(overdue, range(11)), hours=0.1)
    first, single, again = boxes["anna"].messages
    assert first == again
    assert single.subject == "Alert: a number was not finalized: revenue day 0010"


def test_targets_that_wait_for_the_same_alerts_receive_the_same_digest(lake: Lake) -> None:
    alerts, boxes = alerting(lake, anna=["anna", "ben"])
    boxes["ben"].is_broken = True
    alerts.tick(*map(overdue, range(10)))
    boxes["ben"].is_broken = False
    alerts.tick(*map(overdue, range(10)), hours=0.1)
    assert boxes["ben"].messages == boxes["anna"].messages
    assert len(boxes["anna"].messages) == 1


def test_what_nobody_acknowledges_escalates_and_its_end_is_told_to_both(lake: Lake) -> None:
    alerts, boxes = alerting(lake)
    first, second = alerts.tick(overdue(1), overdue(2))
    alert_log.acknowledge(lake, [first], "anna", "on it")
    alerts.tick(overdue(1), overdue(2), hours=1)
    [escalation] = boxes["team"].messages
    assert escalation.subject == "Escalated: a number was not finalized: revenue day 0002"
    assert escalation.text == "Open since 2024-02-01 12:00 UTC, and nobody has acknowledged it: 2 is overdue"
    assert (escalation.data["status"], escalation.data["alert_id"]) == ("escalated", second.alert_id)
    alerts.tick(overdue(1), overdue(2), hours=9)
    assert len(boxes["team"].messages) == 1, "it escalates once"
    alerts.tick(hours=10)
    assert boxes["team"].subjects[1:] == ["Resolved: a number was not finalized: revenue day 0002"]
    assert len([subject for subject in boxes["anna"].subjects if subject.startswith("Resolved")]) == 2


def test_a_snoozed_alert_sends_nothing_until_then(lake: Lake) -> None:
    alerts, boxes = alerting(lake)
    [record] = alerts.tick(overdue(1))
    alert_log.snooze(lake, [record], NOON + 3 * HOUR, "anna", "until the file comes")
    alerts.tick(overdue(1), hours=2)
    assert boxes["team"].messages == []
    [again] = alerts.tick(hours=2.5)
    assert again.resolved_at == NOON + 2.5 * HOUR
    assert len(boxes["anna"].messages) == 1, "its end is not told either"
    alerts.tick(hours=3)
    assert boxes["anna"].subjects[1:] == ["Resolved: a number was not finalized: revenue day 0001"]
    assert boxes["team"].messages == [], "it ended before it escalated"


def test_what_is_left_of_a_digest_whose_alert_was_snoozed_is_another_digest(lake: Lake) -> None:
    alerts, boxes = alerting(lake)
    boxes["anna"].is_broken = True
    first, *_ = alerts.tick(*map(overdue, range(10)))
    alert_log.snooze(lake, [first], NOON + HOUR, "anna", None)
    boxes["anna"].is_broken = False
    alerts.tick(*map(overdue, range(10)), hours=0.1)
    alerts.tick(*map(overdue, range(10)), hours=1)
    assert boxes["anna"].subjects == [
        "Alert: 9 alerts of the kind overdue",
        "Alert: a number was not finalized: revenue day 0000",
    ]


@law(100, in_each_run=3)
@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 11)), st.booleans(), st.booleans(), st.sampled_from([None, "ack", "snooze"])),
        min_size=1,
        max_size=6,
    )
)
def test_every_transition_reaches_its_targets_exactly_once(
    tmp_path_factory, ticks: list[tuple[set[int], bool, bool, str | None]]
) -> None:
    """Over any history of conditions, broken targets, acknowledgements and snoozes."""
    alerts, boxes = alerting(lake_in(tmp_path_factory.mktemp("alerts")))
    for number, (conditions, anna_broken, team_broken, done) in enumerate(ticks):
        boxes["anna"].is_broken, boxes["team"].is_broken = anna_broken, team_broken
        records = alerts.tick(*map(overdue, sorted(conditions)), hours=number)
        is_open = [record for record in records if record.resolved_at is None][:2]
        if is_open and done == "ack":
            alert_log.acknowledge(alerts.lake, is_open, "anna", "on it")
        if is_open and done == "snooze":
            alert_log.snooze(alerts.lake, is_open, NOON + (number + 1.5) * HOUR, None, None)
    boxes["anna"].is_broken = boxes["team"].is_broken = False
    records = alerts.tick(hours=len(ticks) + 10)
    received = sorted(
        (name, message.data["status"], alert_id)
        for name, box in boxes.items()
        for message in box.messages
        for alert_id in [listed["alert_id"] for listed in message.data.get("alerts", [message.data])]
    )
    expected = [("anna", transition, record.alert_id) for record in records for transition in ("opened", "resolved")]
    expected += [
        ("team", transition, record.alert_id)
        for record in records
        if record.escalated_at
        for transition in ("escalated", "resolved")
    ]
    assert received == sorted(expected)
    for box in boxes.values():
        assert len({message.message_id for message in box.messages}) == len(box.messages)
