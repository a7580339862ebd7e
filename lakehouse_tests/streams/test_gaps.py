"""Messages that are lost before they are read: by retention, by a topic that is created again, by brokers that lose their end."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

from lakehouse.gold.restatement import closing
from lakehouse.lake import SimulatedClock
from lakehouse.lateness import missing_inputs
from lakehouse.ledger import ingestions
from lakehouse.operations.alerts import input_signals
from lakehouse.operations.alerts.alert import AlertKind
from lakehouse.streams import status
from lakehouse_tests.support.kafka_broker import KafkaBroker
from lakehouse_tests.support.kafka_lake import KafkaLake, at, contract, event

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakehouse.lake import Lake

pytestmark = pytest.mark.merge
BEGIN = datetime(2024, 3, 1, tzinfo=timezone.utc)


@pytest.fixture
def sample(lake: Lake, broker: KafkaBroker, topic: str) -> KafkaLake:
    return KafkaLake(lake.at(SimulatedClock(BEGIN)), contract(topic, broker.servers))


def messages(count: int, partition: int = 0) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {"value": event(f"k{number}", 2, number), "timestamp": at(3), "partition": partition}


def accept(sample: KafkaLake) -> list[status.GapEntry]:
    """Accept all gaps, an hour after the last thing that happened."""
    now = sample.lake.now() + timedelta(hours=1)
    sample.lake = sample.lake.at(SimulatedClock(now))
    return status.accept_gaps(sample.lake, sample.contract, "ann", "the sender cannot send them again")


def test_messages_that_retention_deletes_are_a_gap_until_somebody_accepts_it(
    sample: KafkaLake, broker: KafkaBroker, topic: str
) -> None:
    broker.produce(topic, messages(5))
    sample.ingest()
    broker.produce(topic, messages(10))
    broker.produce(topic, messages(3, partition=1))
    admin = broker.admin()
    place = TopicPartition(topic, 0, 9)
    admin.delete_records([place])[place].result(10)
    batch = sample.ingest()
    assert batch.rows == 3, "the other partition is read on"
    text = f"partition 0 of {topic}: the offsets 5 to 8 were deleted before they were read"
    assert [entry.text for entry in batch.gaps] == [text]
    assert sample.ingest().gaps == batch.gaps, "it is recorded once"
    [missing] = missing_inputs.of(sample.lake, "events")
    assert (missing.kind, missing.text) == ("stream_gap", text)
    alerts = {alert.kind: alert for alert in input_signals.of_source(sample.lake, sample.contract)}
    assert text in alerts[AlertKind.STREAM_GAP].text
    assert "lakehouse source stream accept-gap events" in alerts[AlertKind.STREAM_GAP].text
    assert [entry.text for entry in closing.read_source(sample.lake, sample.contract).missing] == [text]
    [entry] = accept(sample)
    assert (entry.by, entry.reason) == ("ann", "the sender cannot send them again")
    batch = sample.ingest()
    assert (batch.rows, batch.gaps) == (6, [])
    offsets = [*range(5), *range(9, 15)]
    assert sample.places() == [*((0, offset) for offset in offsets), *((1, offset) for offset in range(3))]
    assert missing_inputs.of(sample.lake, "events") == []
    assert status.open_gaps(sample.lake, "events") == []


@pytest.mark.parametrize("count", [3, 12])
def test_a_topic_that_is_created_again_is_noticed_whether_it_has_fewer_or_more_messages(
    sample: KafkaLake, broker: KafkaBroker, topic: str, count: int
) -> None:
    broker.produce(topic, messages(6))
    sample.ingest()
    broker.delete_topic(topic)
    broker.create_topic(topic)
    broker.produce(topic, messages(count))
    batch = sample.ingest()
    assert batch.rows == 0
    assert ["created again" in entry.text for entry in batch.gaps] == [True], "of the partition that was read"
    assert sample.ingest().rows == 0
    accept(sample)
    assert sample.ingest().rows == count
    assert len({entry.ingestion_id for entry in ingestions.all_of(sample.lake, "events")}) == 2
    assert sample.places() == sorted([*((0, n) for n in range(6)), *((0, n) for n in range(count))])
    assert sample.ingest().gaps == []


@pytest.mark.proof
def test_brokers_that_lose_their_newest_messages_are_noticed_also_when_the_topic_has_grown_again(
    lake: Lake, tmp_path: Path
) -> None:
    restored = KafkaBroker(tmp_path / "kafka")
    restored.start()
    try:
        restored.create_topic("t", 1)
        restored.produce("t", messages(4))
        restored.stop()
        shutil.copytree(tmp_path / "kafka", tmp_path / "copy")
        restored.start()
        sample = KafkaLake(lake, contract("t", restored.servers))
        restored.produce("t", messages(5))
        assert sample.ingest().rows == 9
        restored.stop()
        shutil.rmtree(tmp_path / "kafka")
        (tmp_path / "copy").rename(tmp_path / "kafka")
        restored.start()
        [gap] = sample.ingest().gaps
        assert "ends at offset 4, and 9 was to be read next" in gap.text
        restored.produce("t", messages(8))
        assert [entry.text for entry in sample.ingest().gaps] == [gap.text]
        accept(sample)
        assert sample.ingest().rows == 8
        assert sample.places() == sorted([*((0, n) for n in range(9)), *((0, n) for n in range(4, 12))])
        assert sample.ingest().rows == 0
    finally:
        restored.stop()


def test_offsets_without_a_message_are_no_gap(sample: KafkaLake, broker: KafkaBroker, topic: str) -> None:
    """Markers of transactions, and messages of aborted ones, have offsets."""
    for ends in ("commit", "abort", "commit"):
        broker.produce_in_transaction(topic, list(messages(3)), ends)
    batch = sample.ingest()
    assert (batch.rows, batch.gaps, batch.at_end) == (6, [], True)
    [entry] = batch.taken
    assert entry.source_file.endswith("@0-12")
    assert entry.message == "6 of its 12 offsets hold no message of this arrival day"
    assert [row["kafka_offset"] for row in sample.bronze()] == [0, 1, 2, 8, 9, 10]
    assert sample.ingest().rows == 0
