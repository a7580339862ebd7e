"""Messages of a real broker in Bronze: each once, whatever they hold, in deliveries that the ledger knows."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest

from lakehouse.ledger import ingestions
from lakehouse_tests.support.kafka_lake import KafkaLake, at, contract, event, milliseconds

if TYPE_CHECKING:
    from lakehouse.lake import Lake
    from lakehouse_tests.support.kafka_broker import KafkaBroker

pytestmark = pytest.mark.merge


@pytest.fixture
def sample(lake: Lake, broker: KafkaBroker, topic: str) -> KafkaLake:
    return KafkaLake(lake, contract(topic, broker.servers))


def test_messages_become_rows_with_their_places(sample: KafkaLake, broker: KafkaBroker, topic: str) -> None:
    sent = {"value": event("a", 2), "key": "a", "timestamp": at(3), "partition": 0, "headers": [("trace", b"7")]}
    broker.produce(topic, [sent])
    broker.produce(topic, [{"value": event("b", 2), "timestamp": at(3), "partition": 1}])
    batch = sample.ingest()
    assert (batch.rows, batch.at_end, batch.gaps) == (2, True, [])
    [first, second] = sample.bronze("record_key", "kafka_topic", "kafka_key", "kafka_headers", "arrival_date", "raw_payload")
    assert (first["record_key"], first["kafka_key"], first["kafka_headers"]) == ("a", "a", '[["trace", "7"]]')
    assert (second["record_key"], second["kafka_key"], second["kafka_headers"]) == ("b", None, None)
    assert {row["kafka_topic"] for row in (first, second)} == {topic}
    assert {row["arrival_date"] for row in (first, second)} == {date(2024, 1, 3)}
    assert sample.ingest().rows == 0
    broker.produce(topic, [{"value": event("c", 2), "timestamp": at(3), "partition": 0}])
    assert sample.ingest().rows == 1
    assert sample.places() == [(0, 0), (0, 1), (1, 0)]
    assert len(ingestions.all_of(sample.lake, "events")) == 3


def test_every_message_is_one_row_and_the_malformed_say_why(sample: KafkaLake, broker: KafkaBroker, topic: str) -> None:
    values = [
        b"{not json",
        None,
        b"  ",
        b'{"id": "a"}',
        b"\xff\xfe",
        b"[1]\n",
        b'{\n  "id": "b",\n "event_time": "2024-01-02", "amount": 3}\n',
    ]
    broker.produce(
        topic, [{"value": value, "key": f"{number}", "timestamp": at(3), "partition": 0} for number, value in enumerate(values)]
    )
    batch = sample.ingest()
    assert (batch.rows, batch.taken[0].malformed) == (7, 6)
    rows = sample.bronze("malformed_reason", "raw_payload", "line_number", "record_key")
    assert [row["line_number"] for row in rows] == list(range(1, 8))
    reasons = [row["malformed_reason"] for row in rows]
    expected = ["not JSON", "a tombstone", "an empty message", "event_time: required", "not valid UTF-8", "a JSON list"]
    assert [text in reason for text, reason in zip(expected, reasons)] == [True] * 6, reasons
    assert (reasons[6], rows[6]["record_key"]) == (None, "b")
    assert rows[0]["raw_payload"] == "{not json"
    assert rows[4]["raw_payload"] == "\\xff\\xfe"


def test_a_tombstone_deletes_its_key_where_the_contract_says_so(lake: Lake, broker: KafkaBroker, topic: str) -> None:
    sample = KafkaLake(lake, contract(topic, broker.servers, {"tombstones": "delete"}))
    broker.produce(topic, [{"value": None, "key": key, "timestamp": at(3), "partition": 0} for key in ("a", None, b"\xff")])
    sample.ingest()
    rows = sample.bronze("record_key", "change_op", "malformed_reason")
    assert (rows[0]["record_key"], rows[0]["change_op"], rows[0]["malformed_reason"]) == ("a", "delete", None)
    assert ["neither a value nor a key" in row["malformed_reason"] for row in rows[1:]] == [True, True]


def test_messages_of_two_days_are_deliveries_of_their_own(sample: KafkaLake, broker: KafkaBroker, topic: str) -> None:
    days = [3, 3, 4, 3, 4]
    broker.produce(
        topic, [{"value": event(f"{place}", 2), "timestamp": at(day), "partition": 1} for place, day in enumerate(days)]
    )
    batch = sample.ingest()
    assert {entry.arrival_date.day: entry.rows for entry in batch.taken} == {3: 3, 4: 2}
    assert [row["arrival_date"].day for row in sample.bronze("arrival_date")] == days
    assert len({entry.ingestion_id for entry in batch.taken}) == 2


def test_a_message_cannot_arrive_later_than_it_is_read_nor_before_the_first_arrival_day(
    sample: KafkaLake, broker: KafkaBroker, topic: str
) -> None:
    later = milliseconds(sample.lake.now() + timedelta(days=1))
    broker.produce(topic, [{"value": event("a", 2), "timestamp": moment, "partition": 0} for moment in (later, 1000)])
    sample.ingest()
    [ahead, before] = sample.bronze("arrival_ts", "arrival_date", "kafka_timestamp")
    assert ahead["arrival_ts"] == sample.lake.now()
    assert milliseconds(ahead["kafka_timestamp"]) == later
    assert before["arrival_date"] == date(2024, 1, 1)
