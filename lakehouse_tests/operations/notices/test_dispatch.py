"""Consumers are notified over HTTP, once; a target that fails, or a process that is killed anywhere, loses nothing."""

from __future__ import annotations

from datetime import date
from shutil import copytree
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from lakehouse.contracts import Catalog
from lakehouse.contracts.series import Series
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.operations.delivery import Directory, Webhook, targets
from lakehouse.operations.notices import log as ledger
from lakehouse.operations.notices.dispatch import NoticeDispatch, dispatch_notices
from lakehouse.operations.notices.log import NoticeStatus
from lakehouse.orchestration.automation import alert_sensor
from lakehouse.orchestration.build import build_definitions
from lakehouse.orchestration.resources import LakeTables
from lakehouse.silver import audit_log as log
from lakehouse.silver import update as silver_update
from lakehouse_tests.support.lake import SampleLake, contract, csv_file
from lakehouse_tests.support.notified_lake import NotifiedLake, RecordingChannel, metric, numbers_from_silver, published_lake
from lakehouse_tests.support.stopped_commits import Killed, after_each_commit
from lakehouse_tests.support.webhook_server import webhook_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakehouse.lake import Lake
    from lakehouse.operations.delivery import Message
    from lakehouse_tests.support.webhook_server import Receiver

TWO = [("late 1", 1, 5), ("late 2", 2, 7)]


@pytest.fixture(name="receiver")
def _receiver() -> Iterator[Receiver]:
    with webhook_server() as receiver:
        yield receiver


def keys(receiver: Receiver) -> list[str]:
    """The ``Idempotency-Key`` of every post."""
    return [headers["Idempotency-Key"] for _, headers, _ in receiver.requests]


def restated(lake: Lake) -> NotifiedLake:
    """Two publications without a notice yet: each with a late row, of the metric of one consumer."""
    sample = published_lake(lake, metric("total", "board"))
    for said in TWO:
        sample.add_rows(said)
        sample.publish()
    return sample


def test_a_webhook_is_posted_each_notice_once_with_its_key(lake, receiver: Receiver) -> None:
    lake.settings.alert_targets = ["log", receiver.url]
    with numbers_from_silver():
        sample = restated(lake)
        assert sample.dispatch(*targets(lake)).delivered == 4
        assert sample.dispatch(*targets(lake)).delivered == 0
    assert [body["subject"][-21:] for body in receiver.taken] == ["2024-02-01: late_data", "2024-02-02: late_data"]
    assert [(key, ["board"]) for key in keys(receiver)] == [
        (message["message_id"], message["addressed_to"]) for message in receiver.taken
    ]
    assert len(set(keys(receiver))) == 2
    assert receiver.taken[0]["data"]["restated"][0]["measures"][0]["difference"] == 5
    by = [(entry.consumer, entry.target.partition(":")[0]) for entry in ledger.of(lake)]
    assert by == [("board", "log"), ("board", "webhook")] * 2
    assert not any("/hook" in entry.target for entry in ledger.of(lake))


def test_a_target_that_fails_is_retried_and_holds_up_no_other(lake, receiver: Receiver) -> None:
    receiver.answers = [400, 204, 400, 400]  # the first message is tried again after the others
    hook, channel = Webhook(receiver.url), RecordingChannel()
    with numbers_from_silver():
        sample = restated(lake)
        told = sample.dispatch(hook, channel)
        assert (told.delivered, told.waiting, told.audited) == (3, 1, 1), "one message that is refused stops no other"
        assert "it answered 400" in told.problems[0]
        assert sample.notified() == {"late 1": [False], "late 2": [True]}
        again = sample.dispatch(hook, channel)
        assert (again.delivered, again.waiting, again.audited, again.problems) == (1, 0, 1, [])
        assert sample.dispatch(hook, channel).delivered == 0
        assert sample.notified() == {"late 1": [True], "late 2": [True]}
    first, second = dict.fromkeys(keys(receiver))
    assert keys(receiver) == [first, second, *[first] * 3], "the same key, so that a receiver can tell"
    assert len(channel.messages) == 2


def test_a_target_without_time_waits_and_loses_nothing(lake) -> None:
    channel = RecordingChannel()
    with numbers_from_silver():
        sample = restated(lake)
        assert dispatch_notices(lake, sample.catalog, Directory.of([channel]), seconds=0).waiting == 2
        assert sample.dispatch(channel).delivered == 2


def test_killed_between_the_delivery_and_its_record_the_same_is_sent_again(lake, receiver: Receiver) -> None:
    hook = Webhook(receiver.url)
    with numbers_from_silver():
        sample = restated(lake)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(ledger, "delivered", _killed)
            with pytest.raises(Killed):
                sample.dispatch(hook)
        assert sample.dispatch(hook).delivered == 2
        assert sample.dispatch(hook).delivered == 0
    assert receiver.taken[0] == receiver.taken[1], "word for word"
    assert (len(receiver.taken), len(set(keys(receiver)))) == (3, 2)


@pytest.mark.merge
def test_a_stop_after_any_step_ends_in_the_same_state(lake, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A killed process leaves its files and what it sent: stopped after each commit and each message."""
    stops: list[tuple[Path, list[Message]]] = []
    channel = RecordingChannel()

    def stop() -> None:
        root = tmp_path_factory.mktemp("stopped") / "lake"
        copytree(lake.root, root)
        stops.append((root, [*channel.messages]))

    with numbers_from_silver():
        sample = restated(lake)
        stop()
        with pytest.MonkeyPatch.context() as patched:
            after_each_commit(patched, stop)
            patched.setattr(RecordingChannel, "send", _and_then(RecordingChannel.send, stop))
            sample.dispatch(channel)
        expected = outcome(sample)
        assert expected[1] == {"late 1": [True], "late 2": [True]}
        for number, (root, sent) in enumerate(stops):
            again = NotifiedLake(lake.with_settings(root=str(root)), sample.metrics)
            other = RecordingChannel(messages=[*sent])
            again.dispatch(other)
            assert outcome(again) == expected, f"stopped behind step {number}"
            assert _by_id(other.messages) == _by_id(channel.messages)
            assert len(other.messages) <= len(channel.messages) + 1, "one at most is sent twice"
            assert again.dispatch(other).delivered == 0
    # Found, two times sent and recorded, the table of notifications, its rows, the notices that it names.
    assert len(stops) == 1 + 1 + 2 * 2 + 3


def outcome(sample: NotifiedLake) -> tuple[Any, ...]:
    rows = [{**vars(entry), "found_at": None} for entry in ledger.of(sample.lake)]
    assert {row["status"] for row in rows} == {NoticeStatus.AUDITED}
    return sorted(rows, key=str), sample.notified(), ledger.scanned_version(sample.lake, "total")


def _by_id(messages: list[Message]) -> dict[str, Message]:
    return {message.message_id: message for message in messages}


def _killed(*_: object) -> None:
    raise Killed


def _and_then(do: Callable[..., Any], then: Callable[[], None]) -> Callable[..., Any]:
    def both(*arguments: Any) -> None:
        do(*arguments)
        then()

    return both


def test_the_sensor_notifies_and_reports_what_it_did(lake, receiver: Receiver) -> None:
    lake.settings.alert_targets = [receiver.url]
    with numbers_from_silver():
        sample = restated(lake)
        with dg.DagsterInstance.ephemeral() as instance:
            definitions = build_definitions(lake.settings, sample.catalog)
            sensor = alert_sensor.notices_sensor(lake, sample.catalog)
            assert sensor.name in {one.name for one in definitions.sensors or ()}
            assert sensor.minimum_interval_seconds == 60
            receiver.answers = [400, 204, 400, 400]

            def tick() -> str | None:
                return sensor.evaluate_tick(dg.build_sensor_context(instance, resources={"tables": LakeTables()})).skip_message

            said = tick()
            assert said is not None
            assert said.startswith("notices delivered: 1, waiting: 1; audit rows marked as notified: 1; webhook:127.0.0.1:")
            assert tick() == "notices delivered: 1, waiting: 0; audit rows marked as notified: 1"
            assert tick() == "every consumer has been notified"
    assert len(set(keys(receiver))) == 2


@pytest.mark.spark
def test_each_consumer_is_notified_of_a_late_row_on_a_published_day(lake, spark, receiver: Receiver) -> None:
    """From the file to the receiver: through bronze, silver, its audit, and gold."""
    metrics = [metric("total", "board", "forecast"), metric("unread")]
    catalog = Catalog({"events": contract()}, {one.name: one for one in metrics})
    sample, hook = SampleLake(lake, contract(lateness={"expected": "P1D"}), spark), Webhook(receiver.url)

    def arrive(day: int, *lines: str) -> NoticeDispatch:
        lake.settings.now = lake.now().replace(month=2, day=day, hour=23)
        rows = [
            f"{key},{amount},2024-02-{int(on):02}T12:00:00Z,2024-02-{day:02}T18:00:00Z,insert,,0"
            for key, amount, on in map(str.split, lines)
        ]
        sample.deliver(date(2024, 2, day), csv_file(rows))
        sample.ingest(date(2024, 2, day))
        silver_update.update(lake, sample.contract, lambda: spark, sample.pending(), "run", metrics)
        for followed in metrics:
            pending = find_pending(lake, Series(followed))
            restatement_days.restate(lake, sample.contract, Series(followed), lambda: spark, pending.starts, Run("run"), pending)
        return dispatch_notices(lake, catalog, Directory.of([hook]))

    def notified() -> dict[str, bool]:
        return {row["event_id"]: row["notification_sent"] for row in log.read(lake, "events").to_pylist()}

    arrive(2, "first 10 2")  # event days before the first arrival day are history
    arrive(4, "a 10 4", "b 20 4")
    arrive(5, "c 30 5", "early 1 3")
    assert (receiver.taken, notified()) == ([], {"early": False}), "nobody had seen a number of that day"
    dispatch = arrive(6, "late 5 4", "d 40 6")
    assert (dispatch.delivered, dispatch.audited) == (2, 1)
    assert sorted(body["addressed_to"][0] for body in receiver.taken) == ["board", "forecast"]
    for body in receiver.taken:
        assert body["subject"] == "total restated for 2024-02-04: late_data"
        (period,) = body["data"]["restated"]
        assert (period["changed_rows"], period["state"], period["after"]) == (1, "preliminary", "total_v2024-02-04.r2")
        (measure,) = period["measures"]
        assert [measure[name] for name in ("before", "after", "difference", "percent")] == [30, 35, 5, "16.67"]
    assert notified() == {"early": False, "late": True}
    assert dispatch_notices(lake, catalog, Directory.of([hook])).delivered == 0
    assert len(receiver.taken) == 2
