"""Messages of a real broker in two versions of a registered schema, on their way to silver."""

from __future__ import annotations

import base64
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from lakehouse.streams.avro import SchemaRegistryError
from lakehouse_tests.support.kafka_lake import KafkaLake, at, contract
from lakehouse_tests.support.lake import SampleLake
from lakehouse_tests.support.schema_registry import avro_message, framed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake
    from lakehouse_tests.support.kafka_broker import KafkaBroker
    from lakehouse_tests.support.schema_registry import RegistryServer

pytestmark = [pytest.mark.spark, pytest.mark.merge]
OLD = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "amount", "type": "int"},
        {"name": "event_time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 0}
NEW = {
    **OLD,
    "fields": [OLD["fields"][2], {"name": "op", "type": "string"}, {"name": "amount", "type": _DECIMAL}, OLD["fields"][0]],
}
NOON = datetime(2024, 1, 2, 12, tzinfo=timezone.utc)


def test_two_versions_of_a_schema_reach_silver(
    spark: SparkSession, lake: Lake, broker: KafkaBroker, topic: str, registry: RegistryServer
) -> None:
    registry.register(1, OLD)
    registry.register(2, NEW)
    source = contract(topic, broker.servers, {"values": {"format": "avro", "registry": registry.url}, "tombstones": "delete"})
    sample, silver = KafkaLake(lake, source), SampleLake(lake, source, spark)
    old = [avro_message(1, OLD, {"id": key, "amount": 1, "event_time": NOON}) for key in ("a", "b", "c")]
    new = avro_message(2, NEW, {"id": "b", "amount": Decimal(25), "event_time": NOON, "op": "correct"})
    broken = framed(1, b"\x06\xff")
    sent = [(value, None, at(2)) for value in old] + [(new, None, at(3)), (None, "c", at(3)), (broken, None, at(3))]
    broker.produce(topic, [{"value": value, "key": key, "timestamp": moment, "partition": 0} for value, key, moment in sent])
    registry.failures += [503]
    with pytest.raises(SchemaRegistryError, match="503"):
        sample.ingest()
    assert sample.bronze() == []

    assert sample.ingest().rows == 6
    rows = sample.bronze("id", "amount", "change_op", "malformed_reason", "raw_payload")
    assert [row["kafka_offset"] for row in rows] == [0, 1, 2, 3, 4, 5]
    assert [(row["id"], row["amount"]) for row in rows] == [("a", 1), ("b", 1), ("c", 1), ("b", 25), ("c", None), (None, None)]
    assert [row["malformed_reason"] is None for row in rows] == [True] * 5 + [False]
    assert base64.b64decode(rows[5]["raw_payload"]) == broken
    assert sample.ingest().rows == 0
    assert len(registry.paths) == 3, "one failure, and each schema once"

    silver.update()
    assert {row[:3] for row in silver.silver()} == {("a", date(2024, 1, 2), 1), ("b", date(2024, 1, 2), 25)}
