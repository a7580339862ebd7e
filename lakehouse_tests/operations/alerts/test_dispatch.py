"""The sensor `alerts`, on real tables, with a real webhook: each alert is sent once when it opens and once when resolved."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from lakehouse import locations
from lakehouse.contracts import Catalog
from lakehouse.delta import row_writer
from lakehouse.operations.alerts import log as alert_log
from lakehouse.operations.alerts.outbox import dispatch_alerts
from lakehouse.operations.delivery import DeliveryError, Directory, Message, Webhook
from lakehouse.orchestration.automation.alert_sensor import alerts_sensor
from lakehouse.orchestration.build import build_definitions
from lakehouse.orchestration.resources import LakeTables
from lakehouse_tests.support.arrivals import append_to_bronze, at, rows_every
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, metric, without_spark
from lakehouse_tests.support.webhook_server import Receiver, webhook_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.lake import Lake

TODAY = date(2024, 1, 5)
HOUR = timedelta(hours=1)
EVENTS = contract(lateness={"watermark": "PT2H", "alert_above": 0.1}, owner="anna")
TOTAL = metric(checks={"change": [{"measure": "total", "absolute": 5}]}, owner="ben")
CATALOG = Catalog({"events": EVENTS}, {"total": TOTAL})


@pytest.fixture(autouse=True)
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


@pytest.fixture(name="receiver")
def _receiver(monkeypatch) -> Iterator[Receiver]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(Webhook, "pause", 0.001)
    with webhook_server() as found:
        yield found


@dataclass
class Daemon:
    """Ticks a sensor, and keeps its cursor between them, as the daemon does."""

    lake: Lake
    catalog: Catalog = field(default_factory=lambda: CATALOG)
    cursor: str | None = None

    def tick(self) -> str | None:
        with dg.DagsterInstance.ephemeral() as instance:
            context = dg.build_sensor_context(instance, cursor=self.cursor, resources={"tables": LakeTables()})
            done = alerts_sensor(self.lake, self.catalog).evaluate_tick(context)
        self.cursor = done.cursor
        assert not done.run_requests
        return done.skip_message


def late_rows(lake: Lake) -> None:
    lake.settings.now = at(TODAY, 23)
    append_to_bronze(lake, EVENTS, rows_every(1, at(TODAY, 8), at(TODAY, 11), 3 * HOUR))


def rows_on_time(lake: Lake) -> None:
    append_to_bronze(lake, EVENTS, rows_every(1, at(TODAY, 12), at(TODAY, 14), HOUR))


def subjects(receiver: Receiver) -> list[str]:
    return [message["subject"] for message in receiver.taken]


def test_a_webhook_is_notified_when_an_alert_opens_and_when_it_is_resolved(lake: Lake, receiver: Receiver) -> None:
    lake.settings.alert_targets = [receiver.url]
    daemon = Daemon(lake)
    assert daemon.tick() == "0 opened, 0 resolved, 0 open"
    late_rows(lake)
    assert daemon.tick() == "1 opened, 0 resolved, 1 open"
    assert daemon.tick() == "nothing has changed since the last look"
    lake.settings.now = at(TODAY + timedelta(days=1), 1)
    assert daemon.tick() == "0 opened, 0 resolved, 1 open", "it is still so, and nobody is told again"
    rows_on_time(lake)
    assert daemon.tick() == "0 opened, 1 resolved, 0 open"
    daemon.cursor = None
    assert daemon.tick() == "0 opened, 0 resolved, 0 open"
    opened, resolved = receiver.taken
    assert opened["subject"] == "Alert: too many rows beyond the cutoff: events"
    assert resolved["subject"] == "Resolved: too many rows beyond the cutoff: events"
    assert opened["addressed_to"] == ["anna"]
    assert "100.00% of the 181 rows of events" in opened["text"]
    assert resolved["text"].startswith("Since 2024-01-06 01:00 UTC this no longer applies")
    assert opened["data"]["numbers"]["late"] == 181
    assert (opened["data"]["status"], resolved["data"]["status"]) == ("opened", "resolved")
    keys = [headers["Idempotency-Key"] for _, headers, _ in receiver.requests]
    assert keys == [opened["message_id"], resolved["message_id"]]
    assert len(set(keys)) == 2


def test_numbers_address_the_owner_of_their_source_first(lake: Lake, receiver: Receiver) -> None:
    lake.settings.alert_targets = [receiver.url]
    numbers = ScriptedNumbers(lake, TOTAL)
    daemon = Daemon(lake)
    numbers.at(1)
    numbers.set(1, 10)
    numbers.publish()
    numbers.set(1, 100)
    numbers.publish()
    assert daemon.tick() == "1 opened, 0 resolved, 1 open"
    numbers.drop(1, 2)
    assert daemon.tick() == "0 opened, 1 resolved, 0 open"
    numbers.at(4)
    assert daemon.tick() == "1 opened, 0 resolved, 1 open"
    assert subjects(receiver) == [
        "Alert: a number is held: total 2024-01-01",
        "Resolved: a number is held: total 2024-01-01",
        "Alert: a number was not finalized: total 2024-01-01",
    ]
    assert {tuple(message["addressed_to"]) for message in receiver.taken} == {("anna", "ben")}


@pytest.mark.merge
def test_one_target_that_fails_holds_up_no_other_and_is_notified_later(lake: Lake, receiver: Receiver, tmp_path: Path) -> None:
    file = tmp_path / "alerts.jsonl"
    lake.settings.alert_targets = [receiver.url, f"file:{file}", "log"]
    daemon = Daemon(lake)
    receiver.answers = [500] * 9
    late_rows(lake)
    told = daemon.tick()
    assert told is not None
    assert told.startswith("1 opened, 0 resolved, 1 open; webhook:127.0.0.1:")
    assert "in 3 attempts: it answered 500" in told
    assert len(file.read_text().splitlines()) == 1
    receiver.answers = [404] * 3
    rows_on_time(lake)
    assert "it answered 404" in str(daemon.tick())
    assert receiver.taken == [], "the end is not told before the beginning"
    assert len(receiver.requests) == 12, "a target that failed three times is left alone until the next tick"
    assert daemon.tick() == "0 opened, 0 resolved, 0 open"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines == receiver.taken, "each has both messages once, in order"
    assert [line["data"]["status"] for line in lines] == ["opened", "resolved"]
    assert daemon.tick() == "nothing has changed since the last look"


class Stopped(BaseException):
    """What SIGKILL is to a test."""


@pytest.mark.parametrize("after_commit", [False, True])
@pytest.mark.parametrize("number", range(4))
def test_an_evaluation_that_was_stopped_anywhere_is_completed_by_the_next(
    lake: Lake, receiver: Receiver, monkeypatch, number: int, after_commit: bool
) -> None:
    """Before or after each of its commits: the same end state, every message at least once, and no other."""
    late_rows(lake)
    numbers = ScriptedNumbers(lake, TOTAL)
    numbers.set(1, 10)
    numbers.publish()
    numbers.set(1, 100)
    numbers.publish()
    to = [Webhook(receiver.url)]
    commit, commits = row_writer.append, []

    def append(*arguments: Any, **more: Any) -> bool:
        commits.append(None)
        if len(commits) == number + 1 and not after_commit:
            raise Stopped
        done = commit(*arguments, **more)
        if len(commits) == number + 1:
            raise Stopped
        return done

    monkeypatch.setattr(row_writer, "append", append)
    if number < 3:
        with pytest.raises(Stopped):
            dispatch_alerts(lake, CATALOG, Directory.of(to))
    else:
        dispatch_alerts(lake, CATALOG, Directory.of(to))
    monkeypatch.setattr(row_writer, "append", commit)
    looked = dispatch_alerts(lake, CATALOG, Directory.of(to))
    assert (looked.still_open, looked.undelivered) == (2, [])
    found = alert_log.all_of(lake)
    assert [one.waiting("opened") for one in found] == [[], []]
    assert {message["message_id"] for message in receiver.taken} == {one.message_id("opened") for one in found}
    repeated = len(receiver.taken) - 2
    assert repeated == (number in {1, 2} and not after_commit), "one was sent and not recorded"


def test_a_contract_that_cannot_be_read_silences_no_other(lake: Lake, receiver: Receiver) -> None:
    lake.settings.alert_targets = [receiver.url]
    daemon = Daemon(lake)
    late_rows(lake)
    daemon.tick()
    numbers = ScriptedNumbers(lake, TOTAL)
    numbers.at(5, 23)
    numbers.set(1, 10)
    numbers.publish()
    numbers.set(1, 100)
    numbers.publish()
    kept = {file: file.read_bytes() for file in Path(locations.bronze(lake, "events").address).glob("*/*.parquet")}
    for file in kept:
        file.write_bytes(b"torn")
    with pytest.raises(Exception, match="the alerts of events could not be determined") as problem:
        daemon.tick()
    assert "total" not in str(problem.value)
    assert len(receiver.taken) == 2, "the held number is told"
    assert [one.resolved_at for one in alert_log.all_of(lake)] == [None, None], "and the other one is not taken for over"
    for file, content in kept.items():
        file.write_bytes(content)
    assert daemon.tick() == "0 opened, 0 resolved, 2 open"


@dataclass
class Slow:
    """A slow target, by the clock that the evaluation uses."""

    clock: list[float]
    name: str = "slow"
    taken: list[str] = field(default_factory=list)

    def send(self, message: Message) -> None:
        self.clock[0] += 20
        self.taken.append(message.message_id)


def test_a_target_that_fails_once_is_tried_again_in_the_same_tick(lake: Lake, receiver: Receiver) -> None:
    lake.settings.alert_targets = [receiver.url]
    receiver.answers = [404]
    late_rows(lake)
    assert Daemon(lake).tick() == "1 opened, 0 resolved, 1 open"
    assert len(receiver.taken) == 1


def test_what_does_not_fit_into_a_tick_is_sent_by_the_next(lake: Lake, monkeypatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("lakehouse.operations.delivery.monotonic", lambda: clock[0])
    numbers = ScriptedNumbers(lake, TOTAL)
    numbers.at(1)
    for number in (1, 2, 3, 4):
        numbers.set(number, 10)
    numbers.publish()
    for number in (1, 2, 3, 4):
        numbers.set(number, 100)
    numbers.publish()
    slow = Slow(clock)
    looked = dispatch_alerts(lake, CATALOG, Directory.of([slow]))
    assert (len(slow.taken), looked.undelivered) == (2, ["slow receives the rest at the next tick"])
    assert dispatch_alerts(lake, CATALOG, Directory.of([slow])).undelivered == []
    assert len(slow.taken) == len(set(slow.taken)) == 4


class Broken:
    name = "broken"

    def send(self, message: Message) -> None:
        raise RuntimeError(f"no way to tell {message.subject}")


def test_a_target_may_fail_in_its_own_way(lake: Lake) -> None:
    late_rows(lake)
    other = Slow([0.0])
    [why] = dispatch_alerts(lake, CATALOG, Directory.of([Broken(), other])).undelivered
    assert why.startswith("no way to tell Alert: ")
    assert len(other.taken) == 1
    assert issubclass(DeliveryError, Exception)


def test_the_deployment_has_the_sensor(lake: Lake) -> None:
    found = build_definitions(lake.settings, CATALOG).resolve_sensor_def("alerts")
    assert found.minimum_interval_seconds == lake.settings.alert_seconds
    assert found.default_status is dg.DefaultSensorStatus.RUNNING
