"""What silver makes of messages: the plain model's rows, however they are grouped into micro-batches."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse.dispositions import account
from lakehouse.streams.ingest import StreamLimits
from lakehouse_tests.support.kafka_lake import KafkaLake, contract, message_of
from lakehouse_tests.support.lake import SampleLake
from lakehouse_tests.support.reference_model import Record, live_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake
    from lakehouse_tests.support.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.spark, pytest.mark.merge]
BEGIN = datetime(2024, 1, 10, tzinfo=timezone.utc)


def history(chance: random.Random, count: int) -> list[tuple[int, Record]]:
    """Records with the partitions that they go to: late, duplicated, corrected under another key, and deleted ones.

    Some of a key arrive in one millisecond: their order is that of partition and offset.
    """
    sent: list[tuple[int, Record]] = []
    offsets = [0, 0]
    for number in range(count):
        partition = chance.randrange(2)
        op = chance.choices(["insert", "correct", "delete"], [8, 3, 1])[0]
        day = None if op == "delete" and chance.random() < 0.5 else date(2024, 1, chance.choices([9, 8, 5, 2], [6, 2, 1, 1])[0])
        arrival = BEGIN + timedelta(hours=number // 12)
        corrects = f"k{chance.randrange(40)}" if op == "correct" and chance.random() < 0.3 else None
        record = Record(
            f"k{chance.randrange(40)}", op, day, number, arrival, corrects, file=f"{partition}", line=offsets[partition]
        )
        copies = [record] * (2 if chance.random() < 0.05 else 1)
        for _ in copies:
            sent.append((partition, Record(**{**record.__dict__, "line": offsets[partition]})))
            offsets[partition] += 1
    return sent


def test_silver_equals_the_model(spark: SparkSession, lake: Lake, broker: KafkaBroker, topic: str) -> None:
    source = contract(topic, broker.servers)
    sample, silver = KafkaLake(lake, source), SampleLake(lake, source, spark)
    chance = random.Random(19)
    sent = history(chance, 300)
    broker.produce(topic, [{**message_of(record), "partition": partition} for partition, record in sent])
    while not sample.ingest(StreamLimits(max_messages=chance.randrange(1, 80))).at_end:
        if chance.random() < 0.5:
            silver.update()
    silver.update()
    assert sample.places() == sorted((partition, record.line) for partition, record in sent)
    lives = live_rows((record for _, record in sent), by_sequence=False)
    expected = {(record.key, record.day, record.amount, record.arrival) for record in lives.values()}
    assert {row[:4] for row in silver.silver()} == expected
    counts = account.counts(account.table(lake, source))
    assert {day: of_day.total() for day, of_day in counts.items()} == Counter(record.arrival.date() for _, record in sent)
