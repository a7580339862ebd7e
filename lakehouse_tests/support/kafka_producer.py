"""A producer that may be killed anywhere: it goes on with the first message that each partition does not have yet.

python -m lakehouse_tests.support.kafka_producer SERVERS TOPIC COUNT RATE

Message ``number`` goes to partition ``number % 2``. One in twenty is late, one in a hundred repeats the one before it in its
partition, and one in a hundred corrects one of a while ago: :func:`record` says which.
"""

from __future__ import annotations

import json
import random
import sys
import time
from datetime import date, datetime, timedelta, timezone
from itertools import count as counting
from typing import NamedTuple

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

BEGIN = datetime(2024, 1, 10, tzinfo=timezone.utc)
STEP = timedelta(milliseconds=864)
LATE, DUPLICATE, CORRECTION = 0.05, 0.01, 0.01


class Sent(NamedTuple):
    """The record of a message."""

    kind: str
    key: str
    op: str
    amount: int
    happened: datetime
    arrived: datetime

    @property
    def day(self) -> date:
        """Its event day."""
        return self.happened.date()

    @property
    def value(self) -> bytes:
        """The message's value."""
        fields = {"id": self.key, "op": self.op, "amount": self.amount, "event_time": self.happened.isoformat()}
        return json.dumps(fields).encode()


def record(number: int) -> Sent:
    """The record of a message, which follows from its number."""
    chance = random.Random(number)
    drawn, arrived = chance.random(), BEGIN + STEP * number
    if drawn < DUPLICATE and number >= 2:
        former = record(number - 2)
        return former._replace(kind="duplicate", arrived=arrived)
    if drawn < DUPLICATE + CORRECTION and number >= 2000:
        former = record(number - 2000)
        return Sent("correction", former.key, "correct", former.amount + 1000, former.happened, arrived)
    is_late = drawn < DUPLICATE + CORRECTION + LATE
    lag = timedelta(days=chance.uniform(1, 5)) if is_late else timedelta(seconds=chance.uniform(0, 60))
    happened = (arrived - lag).replace(microsecond=0)
    return Sent("late" if is_late else "on time", f"k{number}", "insert", number % 1000, happened, arrived)


def main(servers: str, topic: str, count: int, rate: int) -> None:
    """Send all messages that the topic does not have, at most ``rate`` a second."""
    admin = AdminClient({"bootstrap.servers": servers})
    places = [TopicPartition(topic, partition) for partition in (0, 1)]
    futures = admin.list_offsets(dict.fromkeys(places, OffsetSpec.latest()))
    ends = {place.partition: future.result().offset for place, future in futures.items()}
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20, "compression.type": "lz4"})
    for number in counting():
        if number >= count:
            break
        if number // 2 < ends[number % 2]:
            continue
        if number % 1000 == 0:
            time.sleep(1000 / rate)
            producer.poll(0)
        sent = record(number)
        moment = int(sent.arrived.timestamp() * 1000)
        while True:
            try:
                producer.produce(topic, sent.value, sent.key, number % 2, timestamp=moment)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush(60)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
