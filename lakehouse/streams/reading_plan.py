"""Decides the offset from which each partition of a topic is read next, and which messages are lost.

Lost offsets are a *gap*: their partition is not read further until a person has accepted the gap. Nothing here reads a topic or a
table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lakehouse.streams.message_ranges import PartitionLog

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

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
