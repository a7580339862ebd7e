"""To whom alerts go: their owners, and the platform team when nobody takes care of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from lakehouse.operations.alerts import outbox
from lakehouse.operations.alerts.alert import Alert, AlertKind
from lakehouse.operations.alerts.log import Acknowledgement, AlertRecord
from lakehouse.operations.delivery import Directory

if TYPE_CHECKING:
    from lakehouse.operations.delivery import Message

NOON = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Box:
    name: str

    def send(self, message: Message) -> None:
        """Nothing is sent here."""


DIRECTORY = Directory(
    {name: Box(name) for name in ("anna", "ben", "team")},
    platform=["team", "anna"],
    owners={"anna": ["anna"], "ben": ["ben", "anna"]},
    escalate_after=HOUR,
)
ALERT = Alert(AlertKind.HELD, "revenue", "revenue", NOON, "held", ["anna", "ben"], {}, "2024-02-01")
OPEN = AlertRecord("a", ALERT, NOON, ["anna", "ben"])


def escalated(record: AlertRecord, hours: float, directory: Directory = DIRECTORY) -> list[str]:
    return [*outbox.escalations([record], directory, NOON + hours * HOUR).get("a", ())]


def test_owners_with_an_address_are_reached_there_and_for_others_the_platform_team() -> None:
    assert DIRECTORY.of_owners(["anna", "ben"]) == ["anna", "ben"]
    assert DIRECTORY.of_owners(["ben", "nobody"]) == ["ben", "anna"]
    assert DIRECTORY.of_owners(["nobody"]) == DIRECTORY.of_owners([]) == ["team", "anna"]


def test_an_alert_that_nobody_acknowledges_goes_to_the_platform_team() -> None:
    assert escalated(OPEN, 0.99) == []
    assert escalated(OPEN, 1) == ["team"], "who was notified before is not notified again"
    assert escalated(replace(OPEN, acknowledged=Acknowledgement("anna", NOON, "on it")), 9) == []
    assert escalated(replace(OPEN, resolved_at=NOON), 9) == []
    assert escalated(replace(OPEN, escalated_at=NOON), 9) == [], "once"
    assert escalated(replace(OPEN, targets=["team", "anna"]), 9) == []


def test_a_snoozed_alert_escalates_when_it_is_awake() -> None:
    snoozed = replace(OPEN, snoozed_until=NOON + 5 * HOUR)
    assert outbox.is_snoozed(snoozed, NOON + 4.99 * HOUR)
    assert not outbox.is_snoozed(snoozed, NOON + 5 * HOUR)
    assert escalated(snoozed, 4.99) == []
    assert escalated(snoozed, 5) == ["team"]
    assert escalated(replace(OPEN, snoozed_until=NOON + 0.5 * HOUR), 0.5) == []


def test_where_everybody_has_the_same_addresses_nothing_escalates() -> None:
    everybody = Directory.of([Box("team"), Box("anna")])
    assert everybody.of_owners(["anna"]) == ["team", "anna"]
    assert escalated(replace(OPEN, targets=["anna"]), 99, everybody) == []


def test_the_next_time_to_look_is_that_of_an_escalation_or_of_the_end_of_a_snooze() -> None:
    assert outbox.next_due([], DIRECTORY, NOON) is None
    assert outbox.next_due([OPEN], DIRECTORY, NOON) == NOON + HOUR
    assert outbox.next_due([OPEN], DIRECTORY, NOON + HOUR) is None
    snoozed = replace(OPEN, snoozed_until=NOON + 0.5 * HOUR)
    assert outbox.next_due([OPEN, snoozed], DIRECTORY, NOON) == NOON + 0.5 * HOUR
    resolved = replace(OPEN, resolved_at=NOON, snoozed_until=NOON + 2 * HOUR)
    assert outbox.next_due([resolved], DIRECTORY, NOON) == NOON + 2 * HOUR, "its end is told then"
