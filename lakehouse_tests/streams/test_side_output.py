"""The side output of late events in a topic of a real broker: each row once, with an id by which a consumer drops repeats."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer

from lakehouse.delta import row_writer
from lakehouse.late_events import late_rows
from lakehouse.ledger.ids import format_row_id, row_id_of
from lakehouse.operations.delivery import Directory
from lakehouse.operations.notices import dispatch
from lakehouse.operations.notices.dispatch import dispatch_notices
from lakehouse_tests.support.late_lake import LateLake, late
from lakehouse_tests.support.windowed_lake import TUMBLING, Event

if TYPE_CHECKING:
    from lakehouse.lake import Lake
    from lakehouse_tests.support.kafka_broker import KafkaBroker

pytestmark = pytest.mark.merge
NOBODY = Directory.of([])


def received(broker: KafkaBroker, topic: str, count: int) -> list[tuple[Any, str, dict[str, Any]]]:
    """The messages of a topic, each as key, id and content; one more is waited for in vain."""
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    messages = consumer.consume(count, 20)
    messages += consumer.consume(1, 1)
    consumer.close()
    listed = []
    for message in messages:
        assert message.error() is None
        [(name, message_id)] = message.headers()
        assert name == "message_id"
        listed.append((message.key(), message_id.decode(), json.loads(message.value())))
    return sorted(listed, key=lambda one: one[1])


def test_rows_that_come_too_late_are_sent_once_after_their_commit(lake: Lake, broker: KafkaBroker, topic: str) -> None:
    address = {"topic": topic, "servers": broker.servers}
    hourly = late(TUMBLING, "recompute", topic=address)
    sample = LateLake(lake, None, [hourly, late({**TUMBLING, "metric": "without"}, "recompute")])
    sample.classify_at(0, Event("a", 5), Event("push", 150))
    assert dispatch_notices(lake, sample.catalog, NOBODY).late_rows == 0, "no row is late"
    sample.classify_at(1, Event("late", 10), Event("too", 50), Event("fine", 145))
    done = dispatch_notices(lake, sample.catalog, NOBODY)
    assert (done.late_rows, done.problems) == (2, [])
    assert f"{done}" == "every consumer has been notified; late rows sent to topics: 2"
    assert dispatch_notices(lake, sample.catalog, NOBODY).late_rows == 0, "they were sent"
    sample.classify_at(2, Event("third", 20))
    assert dispatch_notices(lake, sample.catalog, NOBODY).late_rows == 1
    messages = received(broker, topic, 3)
    assert [key for key, *_ in sorted(messages, key=lambda one: one[0])] == [b"late", b"third", b"too"]
    rows = late_rows.read(lake, "orders", {"metric": ["hourly"]}).to_pylist()
    assert {message_id for _, message_id, _ in messages} == {f"hourly:{format_row_id(row_id_of(row))}" for row in rows}
    by_key = {content["record_key"]: content for *_, content in messages}
    assert {name: by_key["late"][name] for name in ("metric", "source", "action", "reason", "counts", "windows")} == {
        "metric": "hourly",
        "source": "orders",
        "action": "side_output",
        "reason": "dropped_beyond_tolerance",
        "counts": False,
        "windows": ["2024-10-25T00"],
    }


def test_a_run_that_stops_before_it_is_recorded_sends_the_same_ids_again(
    lake: Lake, broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = LateLake(lake, None, [late(TUMBLING, "recompute", topic={"topic": topic, "servers": broker.servers})])
    sample.classify_at(0, Event("a", 5), Event("push", 150))
    sample.classify_at(1, Event("late", 10))

    def stopped(*_: Any, **__: Any) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(row_writer, "append", stopped)
        with pytest.raises(KeyboardInterrupt):
            dispatch.send_late_outputs(lake, sample.catalog)
    assert dispatch.send_late_outputs(lake, sample.catalog).rows == 1
    assert dispatch.send_late_outputs(lake, sample.catalog).rows == 0
    first, second = received(broker, topic, 2)
    assert first == second, "the consumer knows by the id that it has the row"


def test_a_topic_that_does_not_answer_is_named_and_its_rows_wait(
    lake: Lake, broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = {"topic": f"{topic}-absent", "servers": broker.servers}
    other = late({**TUMBLING, "metric": "other"}, "recompute", topic={"topic": topic, "servers": broker.servers})
    sample = LateLake(lake, None, [late(TUMBLING, "recompute", topic=absent), other])
    sample.classify_at(0, Event("a", 5), Event("push", 150))
    sample.classify_at(1, Event("late", 10))
    monkeypatch.setattr("lakehouse.streams.client._WRITE_SECONDS", 2.0)
    done = dispatch.send_late_outputs(lake, sample.catalog)
    assert done.rows == 1, "the other metric's row is sent"
    [problem] = done.problems
    assert (
        f"the late rows of hourly are not sent: the brokers at {broker.servers} do not take messages for {topic}-absent"
        in problem
    )
    broker.create_topic(f"{topic}-absent")
    assert dispatch.send_late_outputs(lake, sample.catalog) == (1, [])
