"""Names of ranges of messages: what identifies a delivery from a topic, and how it is written in Bronze and the ledger.

A *log* is a partition of a topic from its creation until it is created again or loses offsets that were read. A delivery is a
range of offsets of a log, of the messages of one arrival day. Nothing here reads a topic or a table.
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
        """The partition of the topic, whatever offsets it has lost: what a log and its successors after a reset share."""
        return (self.topic, self.topic_id, self.partition)

    @property
    def generation(self) -> str:
        """What tells it from the same partition before the topic was created again, or lost offsets."""
        return f"{self.topic_id}~{self.resets}" if self.resets else self.topic_id

    @property
    def app_id(self) -> str:
        """The Delta transaction of Bronze whose version is the next offset to be read."""
        return f"kafka/{self.generation}/{self.partition}"


@dataclass(frozen=True)
class MessageRange:
    """The offsets from ``begin`` to ``end`` (exclusive) of a log, as far as their messages arrived on one day."""

    log: PartitionLog
    begin: int
    end: int

    def __str__(self) -> str:
        return f"{self.log.topic}/{self.log.generation}/{self.log.partition}@{self.begin}-{self.end}"

    def content_hash(self, cluster_id: str, arrival_date: date) -> str:
        """The identity of the delivery: the hash of where its messages are."""
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

        Rows that arrive in one millisecond are ordered by it (rule R2). It therefore grows with the offsets, and their order does
        not depend on how they were grouped into deliveries.
        """
        topic = hashlib.sha256(f"{cluster_id}/{self.log.generation}".encode()).hexdigest()[:8]
        return f"{topic}{self.log.partition:06x}{self.begin:014x}"


def parse(text: str) -> MessageRange | None:
    """The range that a delivery's name in the tables gives; None for the name of a file."""
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
    """The end of what deliveries have of each log."""
    found: dict[PartitionLog, int] = {}
    for delivered in filter(None, map(parse, names)):
        found[delivered.log] = max(found.get(delivered.log, 0), delivered.end)
    return found
