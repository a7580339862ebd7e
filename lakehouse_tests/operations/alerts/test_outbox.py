"""Which messages are due: many alerts of a kind are one, and each delivery is recorded, whatever is stopped in between."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.operations.alerts import input_rules, outbox
from lakehouse.operations.alerts import log as alert_log
from lakehouse.operations.alerts.alert import Alert, AlertKind, AlertSubject
from lakehouse.operations.delivery import AfterFailure, DeliveryError, Directory, deliver
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.lake import Lake
    from lakehouse.operations.alerts.log import AlertRecord
    from lakehouse.operations.delivery import Message

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


def waiting(*rows: int, source: str = "sales") -> Alert:
    """The alert about rows that wait: their number on each arrival day."""
    by_day = {date(2024, 2, 1) + timedelta(days=day): {"beyond the cutoff": count} for day, count in enumerate(rows) if count}
    return input_rules.waiting_rows(AlertSubject(source, source, ["anna"]), NOON, by_day, NOON + 14 * 24 * HOUR)


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
    table = locations.alerts(lake).open()
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


def test_rows_that_begin_to_wait_later_are_told_at_most_every_four_hours_and_the_record_is_the_present_one(lake: Lake) -> None:
    alerts, boxes = alerting(lake)
    alerts.tick(waiting(1))
    alerts.tick(waiting(1, 1), hours=0.5)
    [record] = alerts.tick(waiting(5000, 1), hours=3)
    assert record.alert == waiting(5000, 1), "the recorded text and figures are the present ones"
    assert len(boxes["anna"].messages) == 1
    assert outbox.next_due([record], alerts.directory, lake.now()) == NOON + 4 * HOUR
    alerts.tick(waiting(5000, 1), hours=4)
    alerts.tick(waiting(5000, 1), hours=9)
    first, more = boxes["anna"].messages
    assert (first.text, first.subject) == (waiting(1).text, f"Alert: {waiting(1).title}")
    assert more.subject == (
        "More: 5,001 rows wait for a steward: sales (beyond the cutoff: 5,001; arrived on 2024-02-01, 2024-02-02)"
    )
    begun = "More rows have begun to wait since the last message; open since 2024-02-01 12:00 UTC. "
    assert more.text == begun + waiting(5000, 1).text
    assert (more.data["status"], more.data["alert_id"]) == ("grown", record.alert_id)
    alerts.tick(waiting(10, 1), hours=10)
    assert len(boxes["anna"].messages) == 2, "decisions are no news to those who made them"
    alerts.tick(waiting(11, 1), hours=11)
    [record] = alerts.tick(hours=12)
    assert record.resolved_at == NOON + 12 * HOUR
    assert [message.data["status"] for message in boxes["anna"].messages] == ["opened", "grown", "grown", "resolved"]
    assert boxes["anna"].messages[-1].text.endswith(waiting(11, 1).text)


def test_growth_goes_to_owners_who_acknowledged_and_after_a_snooze_once(lake: Lake) -> None:
    alerts, boxes = alerting(lake)
    [record] = alerts.tick(waiting(1))
    alert_log.acknowledge(lake, [record], "anna", "on it")
    alerts.tick(waiting(2), hours=5)
    assert boxes["anna"].subjects[1:] == [f"More: {waiting(2).title}"]
    alert_log.snooze(lake, [record], NOON + 24 * HOUR, "anna", None)
    for hours in (6, 11, 16):
        alerts.tick(waiting(hours), hours=hours)
    assert len(boxes["anna"].messages) == 2
    alerts.tick(waiting(16), hours=24)
    assert boxes["anna"].subjects[2:] == [f"More: {waiting(16).title}"]
    assert boxes["team"].messages == [], "an acknowledged alert does not escalate, grown or not"


def test_the_platform_team_gets_growth_after_the_escalation_only(lake: Lake) -> None:
    alerts, boxes = alerting(lake)
    alerts.tick(waiting(1))
    alerts.tick(waiting(2), hours=4)
    assert [message.data["status"] for message in boxes["team"].messages] == ["escalated"]
    assert boxes["team"].messages[0].text.endswith(waiting(2).text)
    alerts.tick(waiting(3), hours=8)
    assert [message.data["status"] for message in boxes["team"].messages] == ["escalated", "grown"]


def test_a_digest_about_waiting_rows_has_counts_reasons_days_and_the_oldest_wait(lake: Lake) -> None:
    alerts, boxes = alerting(lake)
    names = [f"shop{number}" for number in range(outbox.SINGLY + 1)]
    alerts.tick(*(waiting(1, source=name) for name in names))
    alerts.tick(*(waiting(1, 2, source=name) for name in names), hours=5)
    assert boxes["anna"].subjects == ["Alert: 6 alerts of the kind waiting_rows", "More: 6 alerts of the kind waiting_rows"]
    assert (
        "- 3 rows wait for a steward: shop0 (beyond the cutoff: 3; arrived on 2024-02-01, 2024-02-02) "
        "(since 2024-02-01 12:00 UTC)\n" in boxes["anna"].messages[1].text
    )
    assert len({message.message_id for message in boxes["anna"].messages}) == 2


def test_growth_that_was_sent_and_not_recorded_is_sent_again_as_it_was(lake: Lake, monkeypatch) -> None:
    alerts, boxes = alerting(lake)
    alert_log.acknowledge(lake, alerts.tick(waiting(1)), "anna", "on it")

    def stop(*_: Any, **__: Any) -> None:
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(alert_log, "record_delivery", stop)
        with pytest.raises(Stopped):
            alerts.tick(waiting(2), hours=4)
    alerts.tick(waiting(3), hours=5)
    _, sent, again = boxes["anna"].messages
    assert sent == again
    assert again.text.endswith(waiting(2).text)


def test_two_simultaneous_evaluations_tell_growth_once(lake: Lake) -> None:
    alerts, boxes = alerting(lake)
    known = alerts.tick(waiting(1))
    lake.settings.now = NOON + 4 * HOUR
    for _ in range(2):
        alert_log.record(lake, known, [waiting(2)], lambda _: False, lambda _: ["anna"])
        lake.settings.now += timedelta(seconds=5)
        alerts.send()
    assert [message.data["status"] for message in boxes["anna"].messages] == ["opened", "grown"]
    assert not alert_log.all_of(lake)[0].has_grown


@law(100, in_each_run=3)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 3), max_size=3), st.booleans(), st.sampled_from([None, "ack", "snooze"])),
        min_size=1,
        max_size=12,
    )
)
def test_whoever_decides_about_waiting_rows_hears_of_all_that_begin_to_wait(
    tmp_path_factory, ticks: list[tuple[list[int], bool, str | None]]
) -> None:
    """Over any hourly history of waiting rows, with a broken target and snoozes: no more than a message in four hours.

    The model keeps for each row count of a day whether a message has named it since it began to wait.
    """
    alerts, boxes = alerting(lake_in(tmp_path_factory.mktemp("alerts")), anna=["anna"])
    counts: list[int] = []
    for number, (counts, is_broken, done) in enumerate(ticks):
        boxes["anna"].is_broken = is_broken
        records = alerts.tick(*([waiting(*counts)] if any(counts) else []), hours=number)
        is_open = [record for record in records if record.resolved_at is None]
        assert [record.alert for record in is_open] == ([waiting(*counts)] if any(counts) else []), "the present text"
        if is_open and done == "ack":
            alert_log.acknowledge(alerts.lake, is_open, "anna", "on it")
        if is_open and done == "snooze":
            alert_log.snooze(alerts.lake, is_open, NOON + (number + 1.5) * HOUR, None, None)
    boxes["anna"].is_broken = False
    for later in (10, 20):
        alerts.tick(*([waiting(*counts)] if any(counts) else []), hours=len(ticks) + later)
    messages = boxes["anna"].messages
    assert len({message.message_id for message in messages}) == len(messages)
    by_alert: dict[str, list[Message]] = {}
    for message in messages:
        by_alert.setdefault(message.data["alert_id"], []).append(message)
    for found in by_alert.values():
        statuses = [message.data["status"] for message in found]
        assert statuses[0] == "opened"
        assert set(statuses[1:-1]) <= {"grown"}
    grown = sorted(
        datetime.fromisoformat(message.message_id.partition(":grown:")[2])
        for message in messages
        if ":grown:" in message.message_id
    )
    assert all(later - earlier >= alert_log.SENT_AGAIN_AFTER for earlier, later in pairwise(grown))
    is_open = [record for record in alert_log.all_of(alerts.lake) if record.resolved_at is None]
    assert not any(record.has_grown for record in is_open), "what has begun to wait was told"
    for record in is_open:
        assert not record.alert.has_grown(_told(by_alert[record.alert_id]))


def _told(messages: Sequence[Message]) -> Alert:
    """An alert with the most rows of each day that messages have named."""
    numbers: dict[str, dict[str, int]] = {}
    for message in messages:
        for day, reasons in message.data["numbers"]["arrival_days"].items():
            known = numbers.setdefault(day, {})
            known |= {reason: max(count, known.get(reason, 0)) for reason, count in reasons.items()}
    return replace(waiting(1), numbers={"arrival_days": numbers})


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
