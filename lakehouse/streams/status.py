"""The progress of Bronze in a topic: per partition the next offset, the end, and the newest delivery. No JVM is started."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.ledger import ingestions
from lakehouse.streams import gap_log, message_ranges, positions, reading_plan
from lakehouse.streams.client import TopicReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.contracts.inputs import KafkaTopic
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.streams.reading_plan import TopicState


@dataclass(frozen=True)
class PartitionStatus:
    """A partition: the offset that is read next, the end of the topic, and the newest delivery from it.

    ``gap`` describes its lost messages; the partition is then not read further, and ``next_offset`` is where reading stopped.
    """

    partition: int
    next_offset: int
    end_offset: int
    newest: Ingestion | None
    gap: str | None

    @property
    def lag(self) -> int:
        """The number of waiting offsets."""
        return max(0, self.end_offset - self.next_offset)


@dataclass(frozen=True)
class TopicStatus:
    """The present state of a topic, from the brokers and Bronze, with remarks for people."""

    state: TopicState
    partitions: list[PartitionStatus]
    remarks: list[str]

    @property
    def lag(self) -> int:
        """The number of waiting offsets of all partitions."""
        return sum(entry.lag for entry in self.partitions)


def of_topic(lake: Lake, contract: SourceContract, kafka: KafkaTopic, answer_seconds: float | None = None) -> TopicStatus:
    """The progress of a source in its topic; nothing is written, also where messages are missing.

    :param answer_seconds: as for :class:`TopicReader`.
    :raises StreamProblem: when the topic cannot be read.
    """
    remarks: list[str] = []
    with TopicReader(lake, kafka, answer_seconds) as reader:
        state, is_compacted = reader.state(), reader.is_compacted()
    if is_compacted:
        remarks.append(
            f"{kafka.topic} is compacted: Kafka removes older messages of a key without a trace, also such as were not read yet"
        )
    delivered = ingestions.all_of(lake, contract.dataset)
    recorded = message_ranges.ends(entry.source_file for entry in delivered)
    table = locations.bronze(lake, contract.dataset).open()
    known = {} if table is None else positions.of_bronze(contract.dataset, table, state, recorded, remarks)
    entries = gap_log.entries(lake, contract.dataset)
    waiting = [entry.gap for entry in gap_log.open_among(entries)]
    planned = reading_plan.plan(state, known, gap_log.accepted(entries), waiting)
    newest = _newest(delivered)
    gaps = {gap.log.partition: gap for gap in planned.gaps}
    begin = {log.partition: offset for log, offset in planned.begin.items()}
    rows = []
    for partition, (first, end) in sorted(state.offsets.items()):
        gap = gaps.get(partition)
        stands = begin.get(partition, first if gap is None else gap.begin)
        rows.append(PartitionStatus(partition, stands, end, newest.get(partition), None if gap is None else f"{gap}"))
    return TopicStatus(state, rows, remarks)


def _newest(delivered: Iterable[Ingestion]) -> dict[int, Ingestion]:
    """The delivery that was recorded last, by partition."""
    newest: dict[int, Ingestion] = {}
    for entry in sorted(delivered, key=lambda entry: (entry.recorded_at, entry.ingestion_id)):
        messages = message_ranges.parse(entry.source_file)
        if messages is not None and entry.status == "ingested":
            newest[messages.log.partition] = entry
    return newest
