"""Names of ranges of messages, which identify deliveries from a topic in Bronze and the ledger.

A *log* is a partition of a topic from its creation until it is created again or loses offsets that were read. A delivery is a
range of offsets of a log, with the messages of one arrival day. Nothing here reads a topic or a table.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

_NAME = re.compile(r"(?P<topic>[^/]+)/(?P<topic_id>[\w-]+)(?:~(?P<resets>\d+))?/(?P<partition>\d+)@(?P<begin>\d+)-(?P<end>\d+)")


@dataclass(frozen=True, order=True)
class PartitionLog:
    """A partition of a topic with one sequence of offsets.

    ``topic_id`` is Kafka's, in its URL-safe form; ``resets`` counts how often the partition has lost offsets that were read, and
    has given them to other messages since.
    """

    topic: str
    topic_id: str
    partition: int
    resets: int = 0

    @property
    def place(self) -> tuple[str, str, int]:
        """The partition of the topic, regardless of resets: equal for a log and its successors after a reset."""
        return (self.topic, self.topic_id, self.partition)

    @property
    def generation(self) -> str:
        """The part of the name that differs after the topic was created again, or the partition has lost offsets."""
        return f"{self.topic_id}~{self.resets}" if self.resets else self.topic_id

    @property
    def app_id(self) -> str:
        """The Delta transaction of Bronze whose version is the next offset to be read."""
        return f"kafka/{self.generation}/{self.partition}"


@dataclass(frozen=True)
class MessageRange:
    """The offsets from ``begin`` to ``end`` (exclusive) of a log, limited to the messages that arrived on one day."""

    log: PartitionLog
    begin: int
    end: int

    def __str__(self) -> str:
        return f"{self.log.topic}/{self.log.generation}/{self.log.partition}@{self.begin}-{self.end}"

    def content_hash(self, cluster_id: str, arrival_date: date) -> str:
        """The identity of the delivery: a hash of the place of its messages."""
        place = {
            "cluster_id": cluster_id,
            "topic_id": self.log.generation,
            "partition": self.log.partition,
            "offsets": [self.begin, self.end],
            "arrival_date": arrival_date.isoformat(),
        }
        return hashlib.sha256(json.dumps(place, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def ingestion_id(self, cluster_id: str) -> str:
        """The id of the delivery in the tables.

        Rows that arrive in the same millisecond are ordered by this id (rule R2). It increases with the offsets, so the order
        does not depend on how the messages were grouped into deliveries.
        """
        topic = hashlib.sha256(f"{cluster_id}/{self.log.generation}".encode()).hexdigest()[:8]
        return f"{topic}{self.log.partition:06x}{self.begin:014x}"


def parse(text: str) -> MessageRange | None:
    """The range that a delivery's name in the tables denotes; None for the name of a file."""
    match = _NAME.fullmatch(text)
    if match is None:
        return None
    log = PartitionLog(match["topic"], match["topic_id"], int(match["partition"]), int(match["resets"] or 0))
    return MessageRange(log, int(match["begin"]), int(match["end"]))


def range_of(name: str) -> MessageRange:
    """The range of a delivery of messages.

    :raises ValueError: for another name.
    """
    found = parse(name)
    if found is None:
        msg = f"{name!r} is not the name of a range of messages"
        raise ValueError(msg)
    return found


def ends(names: Iterable[str]) -> dict[PartitionLog, int]:
    """The end offset of the deliveries of each log."""
    found: dict[PartitionLog, int] = {}
    for delivered in filter(None, map(parse, names)):
        found[delivered.log] = max(found.get(delivered.log, 0), delivered.end)
    return found
