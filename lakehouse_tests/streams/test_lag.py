"""The lag of a topic of a real broker, and its alert."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts import Catalog
from lakehouse.operations.alerts import input_signals
from lakehouse.streams import status
from lakehouse.streams.status import TopicLag
from lakehouse_tests.support.kafka_lake import KafkaLake, at, contract, event

if TYPE_CHECKING:
    from lakehouse.lake import Lake
    from lakehouse_tests.support.kafka_broker import KafkaBroker

pytestmark = pytest.mark.merge


def test_the_lag_is_that_of_what_bronze_has_not_taken(lake: Lake, broker: KafkaBroker, topic: str) -> None:
    source = contract(topic, broker.servers, alerts={"stream_lag": {"messages": 2, "age": "PT10M"}})
    kafka = source.source.kafka
    assert kafka is not None
    lake.settings.now = datetime(2024, 1, 5, 12, 30, tzinfo=timezone.utc)
    assert status.lag_of_topic(lake, source, kafka, with_age=True) == TopicLag(0, None)
    idle = input_signals.stream_conditions(lake, Catalog({"events": source}, {}))
    broker.produce(
        topic, [{"value": event(f"{number}", 2), "timestamp": at(3 + number), "partition": number % 2} for number in range(3)]
    )
    oldest = datetime(2024, 1, 3, 12, tzinfo=timezone.utc)
    assert status.lag_of_topic(lake, source, kafka, with_age=True) == TopicLag(3, oldest)
    assert status.lag_of_topic(lake, source, kafka, with_age=False) == TopicLag(3, None)
    [alert] = input_signals.of_topic(lake, source)
    assert alert.numbers == {"messages": 3, "age_seconds": timedelta(days=2, minutes=30).total_seconds()}
    assert input_signals.stream_conditions(lake, Catalog({"events": source}, {})) != idle
    KafkaLake(lake, source).ingest()
    broker.produce(topic, [{"value": event("new", 2), "timestamp": at(5), "partition": 0}])
    [alert] = input_signals.of_topic(lake, source)
    assert alert.numbers == {"messages": 1, "age_seconds": timedelta(minutes=30).total_seconds()}, "that of what waits"
    KafkaLake(lake, source).ingest()
    assert list(input_signals.of_topic(lake, source)) == []
    assert input_signals.stream_conditions(lake, Catalog({"events": source}, {})) == idle
