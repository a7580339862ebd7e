"""A source of Kafka in Dagster: the sensor starts Bronze, Bronze announces event days, and silver and gold follow."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from lakehouse.contracts import Catalog, MetricContract
from lakehouse.contracts.loader import completed
from lakehouse.orchestration.execution.catch_up import catch_up
from lakehouse.orchestration.execution.in_process import InProcess
from lakehouse_tests.support.kafka_lake import KafkaLake, at, contract, event
from lakehouse_tests.support.sensor_ticks import SensorTicks, days_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake
    from lakehouse_tests.support.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.spark, pytest.mark.merge]
TOTAL = {"metric": "total", "source": "events", "measures": [{"name": "amount", "sql": "sum(amount)", "type": "bigint"}]}


def test_from_a_message_to_a_number(spark: SparkSession, lake: Lake, broker: KafkaBroker, topic: str) -> None:
    source = contract(topic, broker.servers)
    catalog = Catalog({"events": source}, {"total": completed(MetricContract.model_validate(TOTAL), {"events": source})})
    with dg.DagsterInstance.ephemeral() as instance:
        sensor = SensorTicks(lake, catalog, "landing_events", instance)
        assert sensor.skip_message() == "no new message"
        broker.produce(topic, [{"value": event("a", 2, 5), "timestamp": at(3), "partition": 0}])
        broker.produce(topic, [{"value": event("b", 4, 7), "timestamp": at(4), "partition": 1}])
        [request] = sensor.run_requests()
        assert days_of(request) == [f"{lake.now().date()}"]
        assert [again.run_key for again in sensor.run_requests()] == [request.run_key], "the daemon starts a key once"
        layers = InProcess(lake, catalog, instance)
        layers.run(dg.AssetKey(["bronze", "events"]), [date.fromisoformat(days_of(request)[0])])
        announced = instance.get_materialized_partitions(dg.AssetKey(["arrivals", "events"]))
        assert announced == {"2024-01-02", "2024-01-04"}
        materialized = instance.get_materialized_partitions(dg.AssetKey(["bronze", "events"]))
        assert materialized == {"2024-01-03", "2024-01-04", *days_of(request)}
        assert sensor.skip_message() == "no new message"
        assert catch_up(lake, catalog, "events", layers).restated == {"total": [date(2024, 1, 2), date(2024, 1, 4)]}
        broker.produce(topic, [{"value": event("a", 2, 6, "correct"), "timestamp": at(5), "partition": 0}])
        assert len(sensor.run_requests()) == 1
        KafkaLake(lake, source).ingest()
        assert catch_up(lake, catalog, "events", layers).restated == {"total": [date(2024, 1, 2)]}


def test_a_sensor_says_that_the_brokers_do_not_answer(
    lake: Lake, broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakehouse.streams import client  # noqa: PLC0415

    monkeypatch.setattr(client, "_ANSWER_SECONDS", 0.5)
    catalog = Catalog({"events": contract(topic, "127.0.0.1:1")}, {})
    with dg.DagsterInstance.ephemeral() as instance:
        assert "cannot be read" in SensorTicks(lake, catalog, "landing_events", instance).skip_message()


def test_a_gap_is_recorded_by_one_run_and_then_waits_for_a_person(
    lake: Lake, broker: KafkaBroker, topic: str, spark: SparkSession
) -> None:
    catalog = Catalog({"events": contract(topic, broker.servers)}, {})
    sample = KafkaLake(lake, catalog.sources["events"])
    broker.produce(topic, [{"value": event("a", 2), "timestamp": at(3), "partition": 0}])
    sample.ingest()
    broker.delete_topic(topic)
    broker.create_topic(topic)
    with dg.DagsterInstance.ephemeral() as instance:
        sensor = SensorTicks(lake, catalog, "landing_events", instance)
        assert len(sensor.run_requests()) == 1
        sample.ingest()
        assert "created again" in sensor.skip_message()
