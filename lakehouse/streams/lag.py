"""How far Bronze is behind a topic: how many messages wait, and since when. It starts no JVM, and does not wait for long."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from lakehouse.streams import status
from lakehouse.streams.client import OffsetGoneError, TopicReader

if TYPE_CHECKING:
    from lakehouse.contracts.inputs.kafka import KafkaTopic
    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings
    from lakehouse.streams.status import PartitionStatus

#: How long a broker may take to answer: an evaluation of alerts must not wait for one that is down.
ANSWER_SECONDS = 2.0
_BEGIN = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class TopicLag:
    """What waits in a topic.

    :param messages: the offsets that wait, over all partitions.
    :param oldest: Kafka's timestamp of the oldest message that waits, of the partitions that were looked at; None if none waits.
    """

    messages: int
    oldest: datetime | None


def of_topic(settings: Settings, contract: SourceContract, kafka: KafkaTopic, *, with_age: bool) -> TopicLag:
    """What waits in the topic of a source.

    :param with_age: whether the first message that waits is read of each partition, for some seconds in total at most.
    :raises StreamProblem: when the topic cannot be read.
    """
    known = status.of_topic(settings, contract, kafka, ANSWER_SECONDS)
    waiting = [partition for partition in known.partitions if partition.lag and partition.gap is None]
    return TopicLag(known.lag, _oldest(settings, kafka, waiting) if with_age and waiting else None)


def _oldest(settings: Settings, kafka: KafkaTopic, waiting: list[PartitionStatus]) -> datetime | None:
    """The oldest of the next messages of some partitions. Offsets at which no message is have no age."""
    until = time.monotonic() + ANSWER_SECONDS
    moments: list[int] = []
    with TopicReader(settings, kafka, ANSWER_SECONDS) as reader:
        for entry in waiting:
            left = until - time.monotonic()
            if left <= 0:
                break
            place = {entry.partition: entry.next_offset}
            try:
                read = reader.fetch(place, {entry.partition: entry.next_offset + 1}, 1, left)
            except OffsetGoneError:  # it was deleted just now; a gap has an alert of its own
                continue
            moments += [moment for moment in read[entry.partition].milliseconds if moment is not None]
    return _BEGIN + timedelta(milliseconds=min(moments)) if moments else None
