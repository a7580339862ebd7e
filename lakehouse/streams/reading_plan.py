"""Decides the offset from which each partition of a topic is read next, and which messages are lost.

A *log* is a partition of a topic from its creation until it is created again or loses offsets that were read. A delivery is a
range of offsets of a log, with the messages of one arrival day; the name of the range identifies it in Bronze and the ledger.
Lost offsets are a *gap*: their partition is not read further until a person has accepted the gap. Nothing here reads a topic or a
table.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
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


GapKind = Literal["lost", "recreated", "reset"]


@dataclass(frozen=True)
class TopicState:
    """A topic as the brokers describe it: for each partition the first available offset, and the end."""

    cluster_id: str
    topic: str
    topic_id: str
    offsets: Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class OffsetGap:
    """Offsets of a log that were not read and can no longer be read.

    ``begin`` is the next offset that would have been read, ``resume`` the offset from which reading can continue: in the same log
    (``lost``), or in its successor (``reset`` or ``recreated``).
    """

    kind: GapKind
    log: PartitionLog
    begin: int
    resume: int

    def __str__(self) -> str:
        where = f"partition {self.log.partition} of {self.log.topic}"
        if self.kind == "lost":
            return f"{where}: the offsets {self.begin} to {self.resume - 1} were deleted before they were read"
        if self.kind == "reset":
            return (
                f"{where}: the topic ends at offset {self.resume}, and {self.begin} was to be read next: the brokers have lost "
                f"messages that Bronze has, and what is written now gets their offsets"
            )
        return (
            f"{where}: the topic was created again (its id was {self.log.topic_id}); what the former one held from offset "
            f"{self.begin} on, if anything, was not read"
        )


@dataclass(frozen=True)
class ReadingPlan:
    """The offset from which each log is read, and the gaps that keep other partitions from being read."""

    begin: Mapping[PartitionLog, int] = field(default_factory=dict)
    gaps: Collection[OffsetGap] = ()


def plan(
    state: TopicState,
    positions: Mapping[PartitionLog, int],
    accepted: Collection[OffsetGap] = (),
    waiting: Collection[OffsetGap] = (),
) -> ReadingPlan:
    """The offsets from which reading continues.

    :param positions: for each log that was ever read, the next offset.
    :param accepted: the gaps that a person has accepted.
    :param waiting: the gaps that were detected before and are not accepted: a log that was reset may have grown since.
    """
    former = {log for log in positions if log.topic == state.topic and log.topic_id != state.topic_id}
    begin: dict[PartitionLog, int] = {}
    gaps: list[OffsetGap] = []
    left = {gap.log for gap in accepted if gap.kind == "recreated"}
    recreated = [OffsetGap("recreated", log, positions[log], 0) for log in sorted(newest(former)) if log not in left]
    if recreated:
        return ReadingPlan({}, recreated)
    is_begun = any(log.topic_id == state.topic_id for log in positions)
    for partition, (first, end) in sorted(state.offsets.items()):
        place = (state.topic, state.topic_id, partition)
        resets = sum(1 for gap in accepted if gap.kind == "reset" and gap.log.place == place)
        log = PartitionLog(state.topic, state.topic_id, partition, resets)
        position = _position(log, positions, accepted, default=0 if is_begun else first)
        resume = min([end, *(gap.resume for gap in waiting if (gap.kind, gap.log, gap.begin) == ("reset", log, position))])
        if position < first:
            gaps.append(OffsetGap("lost", log, position, first))
        elif position > resume:
            gaps.append(OffsetGap("reset", log, position, resume))
        else:
            begin[log] = position
    return ReadingPlan(begin, gaps)


def newest(logs: Collection[PartitionLog]) -> set[PartitionLog]:
    """The log of each partition of each topic after its last reset."""
    last: dict[tuple[str, str, int], PartitionLog] = {}
    for log in sorted(logs):
        last[log.place] = log
    return set(last.values())


def _position(log: PartitionLog, positions: Mapping[PartitionLog, int], accepted: Collection[OffsetGap], default: int) -> int:
    """The next offset of a log, after the accepted gaps."""
    if log in positions:
        position = positions[log]
    elif log.resets:
        position = next(
            gap.resume
            for gap in accepted
            if gap.kind == "reset" and gap.log.resets == log.resets - 1 and gap.log.place == log.place
        )
    else:
        position = default
    for gap in sorted(accepted, key=lambda gap: gap.begin):
        if gap.kind == "lost" and gap.log == log and gap.begin <= position < gap.resume:
            position = gap.resume
    return position
