"""The lag of Bronze behind a topic: the number of waiting messages, and since when they wait. No JVM is started; waits
are short.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from lakehouse.streams import status
from lakehouse.streams.client import OffsetGoneError, TopicReader

if TYPE_CHECKING:
    from lakehouse.contracts.inputs import KafkaTopic
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.streams.status import PartitionStatus

#: The timeout of a broker's answer, in seconds: an evaluation of alerts must not wait for a broker that is down.
ANSWER_SECONDS = 2.0
_BEGIN = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class TopicLag:
    """The messages that wait in a topic.

    :param messages: the number of waiting offsets, over all partitions.
    :param oldest: Kafka's timestamp of the oldest waiting message in the partitions that were read; None if none waits.
    """

    messages: int
    oldest: datetime | None


def of_topic(lake: Lake, contract: SourceContract, kafka: KafkaTopic, *, with_age: bool) -> TopicLag:
    """The messages that wait in the topic of a source.

    :param with_age: whether the first waiting message of each partition is read, for at most a few seconds in total.
    :raises StreamProblem: when the topic cannot be read.
    """
    known = status.of_topic(lake, contract, kafka, ANSWER_SECONDS)
    waiting = [partition for partition in known.partitions if partition.lag and partition.gap is None]
    return TopicLag(known.lag, _oldest(lake, kafka, waiting) if with_age and waiting else None)


def _oldest(lake: Lake, kafka: KafkaTopic, waiting: list[PartitionStatus]) -> datetime | None:
    """The oldest of the next messages of the partitions ``waiting``. Offsets without a message have no age."""
    until = time.monotonic() + ANSWER_SECONDS
    moments: list[int] = []
    with TopicReader(lake, kafka, ANSWER_SECONDS) as reader:
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
